"""`plugins` of a profile: which scores count, and with which weights.

`multiPoint` says which plugins run at all, a point such as `score` outweighs it for that point, and `*` in `disabled` is everything that is
on by default. A plugin that keeps pods away from nodes, or out of the queue, can only be switched off together with what it forbids, so
it is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.framework import extension, faults
from wharfinger.framework.plugin_arguments import unknown_plugin
from wharfinger.framework.registry import DEFAULT_ORDER, Registry
from wharfinger.framework.scheduler_configuration import EVERY, Plugins, PluginSet

HARD = (extension.FilterPlugin, extension.PreEnqueuePlugin)
SCORING = ("score", "preScore")
FREE = ("postFilter", "queueSort")
"""Points whose plugins may be switched off as a whole: they neither forbid a node nor prefer one."""

NARROW = "is a hard constraint and always holds: settings narrow the choice of nodes, never widen it"


class PluginChoice:
    """What a profile enables and disables; faults are found while it is built."""

    def __init__(self, plugins: Plugins, at: faults.Path, registry: Registry, found: faults.Findings) -> None:
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
        """Scores that do not count."""
        dropped = {name for name in self._dropped if self._scores(name) and not _lists(self._plugins.score, name)}
        return {*self._unscored, *dropped}

    def disabled(self) -> set[str]:
        """Plugins that do not run at all; one that scores stays with weight 0, because a policy may give its score a weight again."""
        soft = {name for name in self._dropped if not (self._is_hard(name) or self._scores(name) or self._enabled_somewhere(name))}
        return soft | {
            name
            for point, chosen in self._plugins.points()
            if point in FREE
            for name, _ in self._disabled_at(point, chosen, (), self._at(point))
            if name in self._registry
        }

    def _check(self, at: faults.Path) -> None:
        for point, chosen in (("multiPoint", self._plugins.multi_point), *self._plugins.points()):
            for word, entries in (("enabled", chosen.enabled), ("disabled", chosen.disabled)):
                for index, entry in enumerate(entries):
                    here = (*at, point, word, index)
                    if entry.name not in self._registry and (word, entry.name) != ("disabled", EVERY):
                        unknown_plugin(entry.name, here, self._registry, self._found)
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
                self._found.fault(path, f"{name} {NARROW}; {fix}")

    def _check_point(self, point: str, chosen: PluginSet, at: faults.Path) -> None:
        for name, path in self._disabled_at(point, chosen, at, self._at(point)):
            if self._is_hard(name):
                self._found.fault(path, f"{name} {NARROW}; remove it from `disabled`")
            elif point not in FREE:
                self._found.fault(path, f"{name} cannot be switched off at one point; disable it under `multiPoint`")

    def _check_pre_score(self, at: faults.Path) -> None:
        for name, path in self._disabled_at("preScore", self._plugins.pre_score, at, ()):
            if name != EVERY and self._scores(name) and name not in self.disabled_scores():
                self._found.fault(path, f"the score of {name} needs what it prepares here; disable it under `score` too")

    def _check_queue_sort(self, at: faults.Path) -> None:
        sorting = self._at("queueSort")
        if sorting and set(sorting) <= self.disabled():
            self._found.fault((*at, "queueSort"), "no plugin is left that orders the queue; enable one")

    def _disabled_at(
        self, point: str, chosen: PluginSet, at: faults.Path, all_there: list[str] | tuple[str, ...]
    ) -> Iterator[tuple[str, faults.Path]]:
        """(name, path) of the plugins that a point disables and does not enable again."""
        for index, entry in enumerate(chosen.disabled):
            path = (*at, point, "disabled", index)
            names = all_there if entry.name == EVERY else [entry.name] if entry.name in self._registry else []
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
        return name in self._registry and issubclass(self._registry[name], HARD)


def _lists(chosen: PluginSet, name: str) -> bool:
    return any(entry.name == name for entry in chosen.enabled)
