"""Settings of the built-in chain: weights, arguments, and which scores count.

The fields mean what they mean in a `KubeSchedulerConfiguration` profile (`plugins.score`, `pluginConfig`). Hard constraints are not among
them: a filter can be given arguments but never be switched off.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework import extension
from wharfinger.framework.configuration import faults
from wharfinger.framework.extension import Arguments
from wharfinger.framework.registry import Registry

MAX_WEIGHT = 1_000_000_000
"""Far above any use; keeps every total exact in a float64."""

Weight = Annotated[int, Field(ge=0, le=MAX_WEIGHT)]


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
        """Checks the settings against the plugins there are; raises `UnknownObject` or `UsageError` for what does not fit."""
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


def arguments(plugin: type[extension.Plugin], values: Mapping[str, Any]) -> Arguments:
    """The arguments of a plugin from plain values; `UsageError` names the plugin and every field that does not fit."""
    try:
        return plugin.arguments_model.model_validate(dict(values))
    except pydantic.ValidationError as error:
        raise UsageError(f"arguments of plugin {plugin.name}: {'; '.join(faults.sentences(error, plugin.arguments_model))}") from error


def known(name: str, names: Iterable[str]) -> None:
    """Raises `UnknownObject`, with a suggestion, unless a plugin of that name exists."""
    candidates = list(names)
    if name not in candidates:
        close = difflib.get_close_matches(name, candidates, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(candidates)}"
        raise UnknownObject(f"there is no plugin {name}{hint}")
