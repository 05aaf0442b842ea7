"""Profiles: the chain that decides about the pods of each schedulerName."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wharfinger.emit import Emit, Failed, ignore
from wharfinger.errors import PluginFault, UsageError
from wharfinger.framework import plugin_calls
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.extension import BindPlugin, PermitPlugin, PostBindPlugin, PreBindPlugin, ReservePlugin
from wharfinger.framework.plugin_calls import Stopwatch
from wharfinger.framework.prepared import Reason
from wharfinger.language.check.expressions.aggregates import GROUP_SIZE
from wharfinger.model.objects.pod_view import PodView
from wharfinger.policies.budget import PolicyBudget
from wharfinger.scheduler.ports import StopwatchOf, not_measured


class SortKey:
    """A plugin's key for a pod, in the order that the plugin gives; without a key, or if keys cannot be compared, by priority.

    Keys that cannot be compared are reported.
    """

    __slots__ = ("_emit", "_key", "_plugin", "_priority")

    def __init__(self, key: Any, priority: int, plugin: str, emit: Emit) -> None:
        self._key = key
        self._priority = priority
        self._plugin = plugin
        self._emit = emit

    def __lt__(self, other: SortKey) -> bool:
        if self._key is not None and other._key is not None:
            try:
                return bool(self._key < other._key)
            except Exception as error:  # noqa: BLE001 — keys of plugins may raise anything
                self._emit(Failed(f"plugin {self._plugin}", PluginFault(self._plugin, "sort_key", error)))
        return self._priority > other._priority

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortKey) and not self < other and not other < self

    def __hash__(self) -> int:
        raise TypeError("keys are compared, never looked up")


class Profile:
    """A scheduler name, its chain, and the decider that caches for it; plugins that fail to order the queue are reported."""

    def __init__(
        self,
        name: str,
        chain: Chain,
        stopwatch: Stopwatch | None = None,
        emit: Emit = ignore,
    ) -> None:
        self.name = name
        self._stopwatch = stopwatch
        self._emit = emit
        self._former: list[Decider] = []  # with templates that are to be released
        self._use(chain)

    def release_former(self) -> bool:
        """Release some of what former chains have cached; True if there is more."""
        if self._former and not self._former[-1].release():
            self._former.pop()
        return bool(self._former)

    def adopt(self, chain: Chain) -> None:
        """Decide by this chain from now on. It has the plugins of the former one, and other policies."""
        self._former.append(self.decider)
        self._use(chain)

    def _use(self, chain: Chain) -> None:
        self.chain = chain
        self.decider = Decider(chain, stopwatch=self._stopwatch)
        self.reserves = tuple(plugin for plugin in chain.at("Reserve") if isinstance(plugin, ReservePlugin))
        self.permits: tuple[PermitPlugin, ...] = tuple(plugin for plugin in chain.at("Permit") if isinstance(plugin, PermitPlugin))
        self.grouping = tuple(policy for policy in chain.policies if policy.group is not None)
        self.reads_sizes = any(path == GROUP_SIZE for policy in chain.policies for _, path, _ in policy.reads)
        self.pre_binds = tuple(plugin for plugin in chain.at("PreBind") if isinstance(plugin, PreBindPlugin))
        self.binds = tuple(plugin for plugin in chain.at("Bind") if isinstance(plugin, BindPlugin))
        self.post_binds = tuple(plugin for plugin in chain.at("PostBind") if isinstance(plugin, PostBindPlugin))

    def __repr__(self) -> str:
        return f"Profile({self.name!r})"

    def sort_key(self, pod: PodView) -> Any:
        """The key by which pods are tried, smaller first; by priority where a plugin fails."""
        plugin = self.chain.queue_sort
        if plugin is None or not plugin_calls.is_third_party(plugin):
            return self.chain.sort_key(pod)
        try:
            return SortKey(plugin.sort_key(pod), pod.priority, plugin.name, self._emit)
        except PluginFault as fault:
            self._emit(Failed(f"plugin {plugin.name}", fault))
            return SortKey(None, pod.priority, plugin.name, self._emit)

    def gate(self, pod: PodView) -> Reason | None:
        """The reason not to try the pod yet; None if it may be tried."""
        return self.chain.gate(pod)


class Profiles:
    """The profiles of one scheduler by name; all of them order the queue the same way.

    Decisions are measured by the `stopwatch` of their profile, and for the `budget` of policies.
    """

    def __init__(
        self,
        chains: Mapping[str, Chain],
        emit: Emit = ignore,
        stopwatch: StopwatchOf = not_measured,
        budget: PolicyBudget | None = None,
    ) -> None:
        if not chains:
            raise UsageError("a scheduler needs at least one profile")
        watches = {name: stopwatch(name) for name in chains}
        if budget is not None:
            watches = {name: budget.stopwatch(watch) for name, watch in watches.items()}
        self._by_name = {name: Profile(name, chain, watches[name], emit) for name, chain in chains.items()}
        if len({type(profile.chain.queue_sort) for profile in self._by_name.values()}) > 1:
            raise UsageError(f"profiles {', '.join(sorted(self._by_name))} share one queue; they must order it by the same plugin")

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Profile:
        return self._by_name[name]

    def of(self, pod: PodView) -> Profile | None:
        """The profile of a pod's schedulerName; None for pods of other schedulers."""
        return self._by_name.get(pod.scheduler_name)
