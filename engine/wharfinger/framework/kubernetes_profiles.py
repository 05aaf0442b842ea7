"""Reads a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, Kubernetes 1.36) as settings of the chain.

Users of kube-scheduler have this file already. Fields that Wharfinger does not need are accepted and reported, unknown fields are rejected.
A profile sets the scores with their weights (`plugins`), and the arguments of plugins (`pluginConfig`), which each plugin checks itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from wharfinger.errors import UsageError, WharfingerError
from wharfinger.framework import chain_settings, extension, written_arguments
from wharfinger.framework.chain_settings import MAX_WEIGHT, ChainConfig, exactly
from wharfinger.framework.registry import DEFAULT_ORDER, Registry, default_registry, no_such_plugin
from wharfinger.model.objects import DEFAULT_SCHEDULER
from wharfinger.model.reading import decode
from wharfinger.user_input import standard_input

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
WILDCARD = "*"
PROCESS_KIND = "WharfingerConfiguration"
MAX_BYTES = 2**20  # bytes; settings are a few kilobytes
HARD_CONSTRAINTS = (extension.FilterPlugin, extension.PreEnqueuePlugin)
SCORING = ("score", "preScore")
FREE_POINTS = ("postFilter", "queueSort")
"""Points whose plugins may all be disabled: they neither reject nor prefer nodes."""
CANNOT_CHANGE = "is a hard constraint, which settings cannot change or switch off"
EVERY_NODE = "changes nothing: every node is always considered"
RUNNING = "concerns a running scheduler, and changes nothing about where pods go"
_ONLY_RUNNING = (
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "delayCacheUntilActive",
)
OWN_SETTINGS = f"is read from the {PROCESS_KIND} of `wharf run`, and changes nothing here"
_BACKOFFS = ("podInitialBackoffSeconds", "podMaxBackoffSeconds")
INITIAL_BACKOFF, MAX_BACKOFF = 1, 10
"""Seconds, the defaults of kube-scheduler."""
BackoffSeconds = Annotated[int, Field(ge=1, le=9_223_372_036), BeforeValidator(chain_settings.number)]
"""A backoff; the maximum is the longest duration of Go."""


def check_backoffs(initial: int, maximum: int) -> None:
    """Checks, as kube-scheduler does, that the longest backoff is not shorter than the first; raises ValueError."""
    if maximum < initial:
        raise ValueError(f"podMaxBackoffSeconds is {maximum}; it must be at least podInitialBackoffSeconds, which is {initial}")


class Profiles(Struct, frozen=True, kw_only=True):
    """The settings of each scheduler name, and `path: …` notes about fields without effect."""

    settings: Mapping[str, ChainConfig]
    notes: tuple[str, ...] = ()

    def of(self, scheduler_name: str | None = None) -> ChainConfig:
        """The settings of a profile: without a name the only one, or that of `default-scheduler`. `UsageError` lists the existing names."""
        names = list(self.settings)
        if scheduler_name is None:
            scheduler_name = names[0] if len(names) == 1 else DEFAULT_SCHEDULER
        if scheduler_name not in self.settings:
            raise UsageError(f"there is no profile for scheduler name {scheduler_name}; there are {', '.join(names)}")
        return self.settings[scheduler_name]


def profiles_of(path: str | Path) -> Profiles:
    """The profiles of a file (`-` is standard input); `UsageError` names the file and has a line for every fault."""
    document = only_document(path, KIND)
    if document.get("kind") == PROCESS_KIND:
        raise UsageError(f"{path}: this is a {PROCESS_KIND}, the settings of wharf run; expected a {KIND}")
    try:
        return read_profiles(document, default_registry())
    except UsageError as error:
        raise UsageError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error


def read_profiles(document: Any, registry: Registry) -> Profiles:
    """The profiles of a KubeSchedulerConfiguration given as plain values; `UsageError` has a line for every fault."""
    try:
        read = SchedulerConfiguration.model_validate(without_nulls(document))
    except ValidationError as error:
        raise UsageError("\n".join(chain_settings.sentences(error, SchedulerConfiguration))) from error
    found = chain_settings.Findings()
    _notes(read, found)
    settings: dict[str, ChainConfig] = {}
    for index, profile in enumerate(read.profiles or (Profile(),)):
        at: chain_settings.Path = ("profiles", index)
        if profile.scheduler_name in settings:
            found.fault((*at, "schedulerName"), f"{profile.scheduler_name} has a profile already; give each its own name")
        settings[profile.scheduler_name] = _settings(profile, at, registry, found)
    if found.faults:
        raise UsageError("\n".join(found.faults))
    return Profiles(settings=settings, notes=tuple(found.notes))


def _settings(profile: Profile, at: chain_settings.Path, registry: Registry, found: chain_settings.Findings) -> ChainConfig:
    choice = PluginChoice(profile.plugins, (*at, "plugins"), registry, found)
    return ChainConfig(
        weights=choice.weights(),
        disabled_scores=frozenset(choice.disabled_scores()),
        disabled=frozenset(choice.disabled()),
        arguments=read_arguments(profile.plugin_config, (*at, "pluginConfig"), registry, found),
    )


def _notes(read: SchedulerConfiguration, found: chain_settings.Findings) -> None:
    given = read.model_dump(by_alias=True, exclude_unset=True)
    if "percentageOfNodesToScore" in given:
        found.note(("percentageOfNodesToScore",), EVERY_NODE)
    if "parallelism" in given:
        found.note(("parallelism",), "changes nothing: all nodes are evaluated together")
    for name in _ONLY_RUNNING:
        if name in given:
            found.note((name,), RUNNING)
    for name in _BACKOFFS:
        if name in given:
            found.note((name,), OWN_SETTINGS)
    for index, profile in enumerate(read.profiles):
        if profile.percentage_of_nodes_to_score is not None:
            found.note(("profiles", index, "percentageOfNodesToScore"), EVERY_NODE)


def only_document(path: str | Path, expected: str) -> dict[str, Any]:
    """The one mapping that a YAML file holds (`-` is standard input); `UsageError` names what was `expected`."""
    from wharfinger.model.reading.yaml_text import parse_yaml  # noqa: PLC0415 — a parser that most commands do not need

    try:
        documents = list(parse_yaml(_content(path), unique_keys=True))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except decode.NotReadable as error:
        raise UsageError(f"{path}: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        found = "something else" if len(documents) == 1 else f"{len(documents)} documents"
        raise UsageError(f"{path}: expected one {expected}, found {found}")
    return documents[0]


def _content(path: str | Path) -> bytes:
    with contextlib.nullcontext(standard_input()) if str(path) == "-" else Path(path).open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path}: larger than 1 MiB, so it is no settings file")
    return content


def without_nulls(value: Any) -> Any:
    """The value without null fields, which Kubernetes treats as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


# ── the document ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _still_served(value: str) -> str:
    if value.startswith(f"{API_GROUP}/v1beta"):
        raise ValueError(f"{value} is no longer served by Kubernetes 1.36; write {API_VERSION}, the fields of profiles are the same")
    return value


class Part(BaseModel):
    """A part of the document: names in camelCase, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, defer_build=True)


class PluginEntry(Part):
    """A plugin that is enabled or disabled; `weight` counts where it scores, and 0 is 1, as in kube-scheduler."""

    name: str
    weight: int = Field(default=0, ge=0, le=MAX_WEIGHT)


class PluginSet(Part):
    """The plugins enabled and disabled at an extension point; `*` in `disabled` means all default plugins."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class Plugins(Part):
    """The extension points; `multiPoint` means all points that a plugin has."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def points(self) -> Iterator[tuple[str, PluginSet]]:
        """(name of the point in the file, its settings) for every point but `multiPoint`."""
        for name in type(self).model_fields:
            if name != "multi_point":
                yield to_camel(name), getattr(self, name)


class PluginConfig(Part):
    """The arguments of a plugin; they may be typed with `apiVersion` and `kind`."""

    name: str
    args: dict[str, Any] = {}


class Profile(Part):
    """The settings for pods of one `spec.schedulerName`."""

    scheduler_name: str = Field(default=DEFAULT_SCHEDULER, min_length=1)
    percentage_of_nodes_to_score: int | None = Field(default=None, ge=0, le=100)
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class SchedulerConfiguration(Part):
    """The document. Fields outside of profiles are not checked: they concern the running scheduler, not its decisions."""

    api_version: Annotated[str, AfterValidator(_still_served), exactly(API_VERSION)]
    kind: Annotated[str, exactly(KIND)]
    profiles: tuple[Profile, ...] = ()
    percentage_of_nodes_to_score: int | None = Field(default=None, ge=0, le=100)
    extenders: tuple[dict[str, Any], ...] = ()
    parallelism: int | None = Field(default=None, ge=1)
    leader_election: dict[str, Any] | None = None
    client_connection: dict[str, Any] | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    pod_initial_backoff_seconds: BackoffSeconds = INITIAL_BACKOFF
    pod_max_backoff_seconds: BackoffSeconds = MAX_BACKOFF
    delay_cache_until_active: bool | None = None

    @model_validator(mode="after")
    def _backoffs_grow(self) -> Self:
        check_backoffs(self.pod_initial_backoff_seconds, self.pod_max_backoff_seconds)
        return self

    @field_validator("extenders")
    @classmethod
    def _no_extenders(cls, value: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        if value:
            raise ValueError(
                "extenders are not called: a decision sends no request, or a dry run could not repeat it; "
                "write what they decide as a policy or as a plugin, and remove them"
            )
        return value


# ── its plugins and their arguments ──────────────────────────────────────────────────────────────────────────────────────────────────


class PluginChoice:
    """The plugins that a profile enables and disables; the constructor records faults."""

    def __init__(self, plugins: Plugins, at: chain_settings.Path, registry: Registry, found: chain_settings.Findings) -> None:
        self._plugins = plugins
        self._registry = registry
        self._found = found
        self._dropped = dict(self._disabled_at("multiPoint", plugins.multi_point, at, [name for name in registry if name in DEFAULT_ORDER]))
        self._unscored = dict(self._disabled_at("score", plugins.score, at, [name for name in registry if self._scores(name)]))
        self._check(at)

    def weights(self) -> dict[str, int]:
        """The weights that the profile gives to scores; where `score` and `multiPoint` both give one, that of `score`."""
        scoring = [entry for entry in self._plugins.multi_point.enabled if self._scores(entry.name)]
        return {entry.name: entry.weight or 1 for entry in (*scoring, *self._plugins.score.enabled) if entry.name in self._registry}

    def disabled_scores(self) -> set[str]:
        """Scores that are disabled."""
        dropped = {name for name in self._dropped if self._scores(name) and not _lists(self._plugins.score, name)}
        return {*self._unscored, *dropped}

    def disabled(self) -> set[str]:
        """Plugins that do not run; a disabled score stays with weight 0, because a policy may give it a weight again."""
        soft = {name for name in self._dropped if not (self._is_hard(name) or self._scores(name) or self._enabled_somewhere(name))}
        return soft | {
            name
            for point, chosen in self._plugins.points()
            if point in FREE_POINTS
            for name, _ in self._disabled_at(point, chosen, (), self._at(point))
            if name in self._registry
        }

    def _check(self, at: chain_settings.Path) -> None:
        for point, chosen in (("multiPoint", self._plugins.multi_point), *self._plugins.points()):
            for word, entries in (("enabled", chosen.enabled), ("disabled", chosen.disabled)):
                for index, entry in enumerate(entries):
                    place = (*at, point, word, index)
                    if entry.name not in self._registry and (word, entry.name) != ("disabled", WILDCARD):
                        unknown_plugin(entry.name, place, self._registry, self._found)
        for index, entry in enumerate(self._plugins.score.enabled):
            if entry.name in self._registry and not self._scores(entry.name):
                self._found.fault((*at, "score", "enabled", index), f"{entry.name} does not score nodes; remove it here")
        self._check_dropped()
        for point, chosen in self._plugins.points():
            if point not in SCORING:
                self._check_point(point, chosen, at)
        self._check_pre_score(at)
        self._check_queue_sort(at)

    def _check_dropped(self) -> None:
        """Hard constraints that `multiPoint` disables and no other point enables again."""
        for name, path in self._dropped.items():
            if self._is_hard(name) and not any(_lists(chosen, name) for chosen in (self._plugins.filter, self._plugins.pre_enqueue)):
                fix = "to drop its score, disable it under `score`" if self._scores(name) else "list it under `enabled`"
                self._found.fault(path, f"{name} {CANNOT_CHANGE}; {fix}")

    def _check_point(self, point: str, chosen: PluginSet, at: chain_settings.Path) -> None:
        for name, path in self._disabled_at(point, chosen, at, self._at(point)):
            if self._is_hard(name):
                self._found.fault(path, f"{name} {CANNOT_CHANGE}; remove it from `disabled`")
            elif point not in FREE_POINTS:
                self._found.fault(path, f"{name} cannot be switched off at one point; disable it under `multiPoint`")

    def _check_pre_score(self, at: chain_settings.Path) -> None:
        for name, path in self._disabled_at("preScore", self._plugins.pre_score, at, ()):
            if name != WILDCARD and self._scores(name) and name not in self.disabled_scores():
                self._found.fault(path, f"the score of {name} needs what it prepares here; disable it under `score` too")

    def _check_queue_sort(self, at: chain_settings.Path) -> None:
        sorting = self._at("queueSort")
        if sorting and set(sorting) <= self.disabled():
            self._found.fault((*at, "queueSort"), "no plugin is left that orders the queue; enable one")

    def _disabled_at(
        self, point: str, chosen: PluginSet, at: chain_settings.Path, all_there: list[str] | tuple[str, ...]
    ) -> Iterator[tuple[str, chain_settings.Path]]:
        """(name, path) of the plugins that a point disables and does not enable again."""
        for index, entry in enumerate(chosen.disabled):
            path = (*at, point, "disabled", index)
            names = all_there if entry.name == WILDCARD else [entry.name] if entry.name in self._registry else []
            yield from ((name, path) for name in names if not _lists(chosen, name))

    def _at(self, point: str) -> list[str]:
        """The plugins that have a point; `preFilter` belongs to `filter`."""
        base = extension.POINTS.get("Filter" if point == "preFilter" else point[0].upper() + point[1:])
        return [name for name in self._registry if base is not None and issubclass(self._registry[name], base)]

    def _enabled_somewhere(self, name: str) -> bool:
        return any(_lists(chosen, name) for _, chosen in self._plugins.points())

    def _scores(self, name: str) -> bool:
        return name in self._registry and issubclass(self._registry[name], extension.ScorePlugin)

    def _is_hard(self, name: str) -> bool:
        return name in self._registry and issubclass(self._registry[name], HARD_CONSTRAINTS)


def _lists(chosen: PluginSet, name: str) -> bool:
    return any(entry.name == name for entry in chosen.enabled)


def read_arguments(
    entries: Sequence[PluginConfig], at: chain_settings.Path, registry: Registry, found: chain_settings.Findings
) -> dict[str, dict[str, Any]]:
    """The arguments by plugin name."""
    arguments: dict[str, dict[str, Any]] = {}
    for index, entry in enumerate(entries):
        place = (*at, index)
        if entry.name in arguments:
            found.fault((*place, "name"), f"{entry.name} is configured already; join the two")
        elif entry.name in registry:
            arguments[entry.name] = _of_plugin(registry[entry.name], entry.args, (*place, "args"), found)
        else:
            unknown_plugin(entry.name, (*place, "name"), registry, found)
    return arguments


def unknown_plugin(name: str, path: chain_settings.Path, registry: Registry, found: chain_settings.Findings) -> None:
    """Record a note about a plugin of kube-scheduler that is not needed here, and a fault about any other unknown plugin."""
    if name in DEFAULT_ORDER:
        found.note(path, f"{name} does not run here; see the list of plugins")
        return
    found.fault(path, no_such_plugin(name, registry))


def _of_plugin(
    plugin: type[extension.Plugin], args: dict[str, Any], at: chain_settings.Path, found: chain_settings.Findings
) -> dict[str, Any]:
    """The arguments without their type, checked by the plugin."""
    for name, expected in (("apiVersion", API_VERSION), ("kind", f"{plugin.name}Args")):
        if args.get(name, expected) != expected:
            found.fault((*at, name), f"expected {expected}, not {args[name]!r}")
    values = {name: value for name, value in args.items() if name not in ("apiVersion", "kind")}
    try:
        plugin(written_arguments.read(plugin.arguments_model, values))
    except ValidationError as error:
        found.faults += chain_settings.sentences(error, plugin.arguments_model, at)
    except WharfingerError as error:
        found.fault(at, str(error))
    return values
