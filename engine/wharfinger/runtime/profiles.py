"""Profiles: which chain decides about the pods of which scheduler name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain
from wharfinger.framework.cycle import Decider
from wharfinger.framework.extension import BindPlugin, PermitPlugin, PostBindPlugin, PreBindPlugin, ReservePlugin
from wharfinger.framework.ports import Observer, SilentObserver
from wharfinger.framework.stopwatch import Stopwatch
from wharfinger.framework.verdict import Reason
from wharfinger.model.pod import PodView

DEFAULT_SCHEDULER = "default-scheduler"
"""What an empty `spec.schedulerName` stands for."""


class Profile:
    """A scheduler name, its chain, and the decider that remembers for it."""

    def __init__(self, name: str, chain: Chain, stopwatch: Stopwatch | None = None) -> None:
        self.name = name
        self._stopwatch = stopwatch
        self.adopt(chain)

    def adopt(self, chain: Chain) -> None:
        """None; from now on this chain decides. It has the plugins of the one before, and other policies."""
        self.chain = chain
        self.decider = Decider(chain, stopwatch=self._stopwatch)
        self.reserves = tuple(plugin for plugin in chain.at("Reserve") if isinstance(plugin, ReservePlugin))
        self.permits = tuple(plugin for plugin in chain.at("Permit") if isinstance(plugin, PermitPlugin))
        self.pre_binds = tuple(plugin for plugin in chain.at("PreBind") if isinstance(plugin, PreBindPlugin))
        self.binds = tuple(plugin for plugin in chain.at("Bind") if isinstance(plugin, BindPlugin))
        self.post_binds = tuple(plugin for plugin in chain.at("PostBind") if isinstance(plugin, PostBindPlugin))

    def __repr__(self) -> str:
        return f"Profile({self.name!r})"

    def sort_key(self, pod: PodView) -> Any:
        """What compares smaller for the pod to be tried first."""
        return self.chain.sort_key(pod)

    def gate(self, pod: PodView) -> Reason | None:
        """Why the pod must not be tried yet, or None."""
        return self.chain.gate(pod)


class Profiles:
    """The profiles of one scheduler by name; all of them order the queue the same way."""

    def __init__(self, chains: Mapping[str, Chain], observer: Observer | None = None) -> None:
        if not chains:
            raise UsageError("a scheduler needs at least one profile")
        observer = observer or SilentObserver()
        self._by_name = {name: Profile(name, chain, observer.stopwatch(name)) for name, chain in chains.items()}
        if len({type(profile.chain.queue_sort) for profile in self._by_name.values()}) > 1:
            raise UsageError(f"profiles {', '.join(sorted(self._by_name))} share one queue; they must order it by the same plugin")

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Profile:
        return self._by_name[name]

    def of(self, pod: PodView) -> Profile | None:
        """The profile that a pod asks for by its schedulerName; None for pods of other schedulers."""
        return self._by_name.get(pod.object.spec.scheduler_name or DEFAULT_SCHEDULER)
