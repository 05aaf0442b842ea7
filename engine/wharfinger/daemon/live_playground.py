"""The playground of a running scheduler: its cluster and its policies, on a copy, beside the examples.

The copy follows the state in slices of the event loop, and what is decided is decided in a thread. A policy that is tried stands beside the
policies that decide, in place of one of the same name, and is forgotten afterwards. Nothing is uploaded: that would go to another machine
than the author's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from wharfinger.compiler.cost import NAMESPACE_BUDGET
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import WharfingerError
from wharfinger.event_loop import in_slices
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.model.state.followed_copy import FollowedCopy
from wharfinger.web.playground.clusters import Choice, Examples, Opened, Run
from wharfinger.web.playground.trial import MAX_PODS_OFFERED
from wharfinger.web.playground.workbench import Limits, Workbench

if TYPE_CHECKING:
    from wharfinger.daemon.pages import Health
    from wharfinger.framework.ports import Clock
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.scheduler.scheduler import Scheduler

LIVE = "live"
IDLE_SECONDS = 300.0
"""Seconds without a question after which the copy is freed."""
LIMITS = Limits(rest=4.0, patience=20.0, waiting=8, budget=NAMESPACE_BUDGET)
"""A fifth of the time at most, and what a policy of a namespace may cost: who asks need not be allowed to write policies."""


class LiveClusters(Examples):
    """The cluster of the process, and the examples."""

    def __init__(self, health: Health, clock: Clock) -> None:
        super().__init__()
        self._health = health
        self._clock = clock
        self._copy = FollowedCopy()
        self._idle: asyncio.TimerHandle | None = None

    def choices(self) -> Sequence[Choice]:
        """The clusters in the order in which they are offered."""
        return [Choice(LIVE, "The cluster of this scheduler"), *super().choices()]

    async def opened(self, key: str, run: Run) -> Opened:
        """The cluster of a key; UnknownObject if there is none, WharfingerError before the cluster is known."""
        if key != LIVE:
            return await super().opened(key, run)
        daemon = self._health.daemon
        if daemon is None or daemon.scheduler.missing_kinds:
            raise WharfingerError("the cluster is not known yet")
        scheduler, now = daemon.scheduler, float(int(self._clock.now()))
        waiting = tuple(islice((queued.pod for queued in scheduler.queue), MAX_PODS_OFFERED))
        state = await in_slices(self._copy.follow(scheduler.state.snapshot(now)), self._clock)
        self._free_later()
        return Opened(state=state, waiting=waiting, now=now, chain=_chain_of(scheduler), find=scheduler.known_pod)

    def _free_later(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._copy.drop)


def _chain_of(scheduler: Scheduler) -> Callable[[CompiledPolicy | None, PodView], Chain]:
    chains = {profile.name: profile.chain for profile in scheduler.profiles}

    def chain(policy: CompiledPolicy | None, pod: PodView) -> Chain:
        own = chains.get(pod.object.spec.scheduler_name) or next(iter(chains.values()))
        if policy is None:
            return own
        return with_policies(own, [*(other for other in own.policies if other.name != policy.name), policy])

    return chain


def workbench_of(health: Health, clock: Clock) -> Workbench:
    """The workbench of a running scheduler."""
    return Workbench(LiveClusters(health, clock), clock, LIMITS)
