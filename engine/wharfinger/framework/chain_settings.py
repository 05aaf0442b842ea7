"""Settings of the built-in chain: weights, arguments, and which scores count.

The fields mean what they mean in a `KubeSchedulerConfiguration` profile (`plugins.score`, `pluginConfig`). Hard constraints are not among
them: a filter can be given arguments but never be switched off.

Faults of settings are sentences that name the place and the fix: Pydantic finds the place of an invalid value, and the nearest known name
is added.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

import pydantic
from msgspec import Struct, field
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework import extension, written_arguments
from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.registry import Registry, no_such_plugin
from wharfinger.language.report import wording
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics import typed

Path = tuple[str | int, ...]
_AS_IN_PYTHON = re.compile(r"a valid (tuple|dictionary)(?: or instance of \w+)?")
_AS_IN_A_FILE = {"tuple": "a list", "dictionary": "a mapping"}


def number(value: object) -> object:
    """The same value. ValueError for a text and for `true`, which Pydantic would take for numbers."""
    if isinstance(value, str | bool):
        shown = repr(value) if isinstance(value, str) else str(value).lower()
        raise ValueError(f"expected a number, not {shown}")  # noqa: TRY004 — Pydantic reports only ValueErrors
    return value


MAX_WEIGHT = 1_000_000_000
"""Far above any use; keeps every total exact in a float64."""
Weight = Annotated[int, Field(ge=0, le=MAX_WEIGHT), BeforeValidator(number)]


class ChainConfig(BaseModel):
    """Settings of the built-in and third-party plugins, by plugin name.

    `weights` of scores (0 switches a score off), `arguments` as in `pluginConfig`, `disabled_scores`, and `disabled` (a whole plugin, as
    `multiPoint.disabled`): allowed for what only scores.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    weights: Mapping[str, Weight] = {}
    arguments: Mapping[str, Mapping[str, Any]] = {}
    disabled_scores: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()

    def check(self, registry: Registry) -> None:
        """Check the settings against the installed plugins; raise `UnknownObject` or `UsageError` for a setting that does not fit."""
        for name in sorted({*self.weights, *self.arguments, *self.disabled_scores, *self.disabled}):
            known(name, registry)
        for name in sorted({*self.weights, *self.disabled_scores}):
            if not issubclass(registry[name], extension.ScorePlugin):
                raise UsageError(f"plugin {name} does not score nodes: it has no weight, and no score to disable")
        for name in sorted(self.disabled):
            if issubclass(registry[name], (extension.FilterPlugin, extension.PreEnqueuePlugin)):
                raise UsageError(
                    f"plugin {name} cannot be disabled: it is a hard constraint, and settings may narrow the choice, never widen it"
                )

    def weight(self, plugin: type[extension.ScorePlugin]) -> int:
        """The weight of a plugin's score; 0 where it is switched off."""
        if plugin.name in self.disabled_scores or plugin.name in self.disabled:
            return 0
        return self.weights.get(plugin.name, plugin.default_weight)


def arguments(plugin: type[extension.Plugin], values: Mapping[str, Any]) -> Any:
    """The arguments of a plugin from plain values; `UsageError` names the plugin and every field that does not fit."""
    try:
        return written_arguments.read(plugin.arguments_model, dict(values))
    except pydantic.ValidationError as error:
        raise UsageError(f"arguments of plugin {plugin.name}: {'; '.join(sentences(error, plugin.arguments_model))}") from error


def refused_arguments(policy: typed.Policy, registry: Registry) -> Iterator[tuple[Span, str]]:
    """The faults of arguments in `base kubernetes` that plugins refuse, each with the place of the plugin's name."""
    for entry in policy.base:
        if not entry.arguments:
            continue
        try:
            arguments(registry[entry.plugin], entry.arguments)
        except UsageError as error:
            yield entry.span, str(error)


def known(name: str, names: Collection[str]) -> None:
    """Raise `UnknownObject`, with a suggestion, unless a plugin of that name exists."""
    if name not in names:
        raise UnknownObject(no_such_plugin(name, names))


# ── what is wrong with a document, in words ──────────────────────────────────────────────────────────────────────────────────────────


class Findings(Struct):
    """The findings of reading a document: faults make it invalid, notes do not. Each is `path: sentence`."""

    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fault(self, path: Path, sentence: str) -> None:
        """Record a setting that is not valid."""
        self.faults.append(f"{shown(path)}: {sentence}")

    def note(self, path: Path, sentence: str) -> None:
        """Record a setting that has no effect."""
        self.notes.append(f"{shown(path)}: {sentence}")


def exactly(expected: str) -> AfterValidator:
    """A validator that allows only the expected value of a field."""

    def check(value: str) -> str:
        if value != expected:
            raise ValueError(f"expected {expected}, not {value!r}")
        return value

    return AfterValidator(check)


def sentences(error: ValidationError, model: type[BaseModel | BuiltInArguments], at: Path = ()) -> list[str]:
    """One sentence per fault, `path: message`; `at` is the path of the validated value."""
    return [_sentence(fault, model, at) for fault in error.errors(include_url=False)]


def shown(path: Sequence[str | int]) -> str:
    """A path as people write it: `profiles[0].plugins.score`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".") or "the document"


def _sentence(fault: Any, model: type[BaseModel | BuiltInArguments], at: Path) -> str:
    path: Path = fault["loc"]
    where = shown((*at, *path))
    if fault["type"] == "extra_forbidden":
        fields = _fields_at(model, path[:-1])
        near = wording.closest(str(path[-1]), fields)
        known_fields = f"there {'is' if len(fields) == 1 else 'are'} {', '.join(fields)}" if fields else "nothing can be set here"
        return f"{where}: there is no such field; {f'did you mean {near}?' if near else known_fields}"
    if fault["type"] == "missing":
        return f"{where}: this field is needed"
    message = _AS_IN_PYTHON.sub(lambda found: _AS_IN_A_FILE[found[1]], fault["msg"].removeprefix("Value error, "))
    plain = isinstance(fault["input"], str | int | float) and fault["type"] != "value_error"
    return f"{where}: {message}" + (f", not {fault['input']!r}" if plain else "")


def _fields_at(model: type[BaseModel | BuiltInArguments] | None, path: Path) -> list[str]:
    """The fields that a model takes at a path, as they are written in a file."""
    if model is not None and issubclass(model, BuiltInArguments):
        return written_arguments.names_at(model, path)
    for step in path:
        if isinstance(step, int) or model is None:
            continue
        field = next((field for name, field in model.model_fields.items() if step in (field.alias, name)), None)
        model = None if field is None else _model_in(field.annotation)
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside a type such as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in typing.get_args(annotation) if (found := _model_in(inner)) is not None), None)
