"""Profiles of a KubeSchedulerConfiguration as settings of the chain.

What a profile says is followed as kube-scheduler follows it (`mergePluginSet` in pkg/scheduler/apis/config/v1/default_plugins.go,
`expandMultiPointPlugins` and `getScoreWeights` in pkg/scheduler/framework/runtime/framework.go, Kubernetes 1.36), with one exception: what
keeps pods away from nodes stays on. Where a profile asks for something else it is refused, with the reason; where a field changes
nothing here, a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from wharfinger.errors import UsageError
from wharfinger.framework import faults
from wharfinger.framework.configuration import ChainConfig
from wharfinger.framework.plugin_arguments import read_arguments
from wharfinger.framework.profile_plugins import PluginChoice
from wharfinger.framework.registry import Registry
from wharfinger.framework.scheduler_configuration import DEFAULT_NAME, Profile, SchedulerConfiguration

EVERY_NODE = "changes nothing: every node is always considered"
RUNNING = "concerns a running scheduler, and changes nothing about where pods go"
_ONLY_RUNNING = (
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "delayCacheUntilActive",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """The settings of each scheduler name, and `path: …` notes about fields that change nothing."""

    settings: Mapping[str, ChainConfig]
    notes: tuple[str, ...] = ()

    def of(self, scheduler_name: str | None = None) -> ChainConfig:
        """The settings of a profile: without a name the only one, or that of `default-scheduler`. `UsageError` names those there are."""
        names = list(self.settings)
        if scheduler_name is None:
            scheduler_name = names[0] if len(names) == 1 else DEFAULT_NAME
        if scheduler_name not in self.settings:
            raise UsageError(f"there is no profile for scheduler name {scheduler_name}; there are {', '.join(names)}")
        return self.settings[scheduler_name]


def read_profiles(document: Any, registry: Registry) -> Profiles:
    """The profiles of a KubeSchedulerConfiguration given as plain values; `UsageError` has a line for every fault."""
    try:
        read = SchedulerConfiguration.model_validate(without_nulls(document))
    except ValidationError as error:
        raise UsageError("\n".join(faults.sentences(error, SchedulerConfiguration))) from error
    found = faults.Findings()
    _notes(read, found)
    settings: dict[str, ChainConfig] = {}
    for index, profile in enumerate(read.profiles or (Profile(),)):
        at: faults.Path = ("profiles", index)
        if profile.scheduler_name in settings:
            found.fault((*at, "schedulerName"), f"{profile.scheduler_name} has a profile already; give each its own name")
        settings[profile.scheduler_name] = _settings(profile, at, registry, found)
    if found.faults:
        raise UsageError("\n".join(found.faults))
    return Profiles(settings=settings, notes=tuple(found.notes))


def _settings(profile: Profile, at: faults.Path, registry: Registry, found: faults.Findings) -> ChainConfig:
    choice = PluginChoice(profile.plugins, (*at, "plugins"), registry, found)
    return ChainConfig(
        weights=choice.weights(),
        disabled_scores=frozenset(choice.disabled_scores()),
        disabled=frozenset(choice.disabled()),
        arguments=read_arguments(profile.plugin_config, (*at, "pluginConfig"), registry, found),
    )


def _notes(read: SchedulerConfiguration, found: faults.Findings) -> None:
    given = read.model_dump(by_alias=True, exclude_unset=True)
    if "percentageOfNodesToScore" in given:
        found.note(("percentageOfNodesToScore",), EVERY_NODE)
    if "parallelism" in given:
        found.note(("parallelism",), "changes nothing: all nodes are evaluated together")
    for name in _ONLY_RUNNING:
        if name in given:
            found.note((name,), RUNNING)
    for index, profile in enumerate(read.profiles):
        if profile.percentage_of_nodes_to_score is not None:
            found.note(("profiles", index, "percentageOfNodesToScore"), EVERY_NODE)


def without_nulls(value: Any) -> Any:
    """The value without fields that are null: to Kubernetes they are not there."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value
