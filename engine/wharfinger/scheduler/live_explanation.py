"""Explanations by a scheduler that is running: on a copy of its state, made in short steps, and decided in a thread.

One at a time, as each takes memory for a second cluster; who has to wait longer than `PATIENCE` is told to ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, TypeVar

from wharfinger.errors import UnknownObject, UsageError, WharfingerError
from wharfinger.event_loop import BuildThread
from wharfinger.explain.explained_pod import ExplainedPod, explained
from wharfinger.language import suggest
from wharfinger.model.state.copies import copied

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.ports import Clock
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.scheduler.scheduler import Scheduler

PATIENCE = 20.0
SLICE = 0.002
"""Seconds of copying between two turns of everybody else."""
MOST_SUGGESTED = 5000
"""Pods among which a name that was meant is looked for."""

T = TypeVar("T")


class ExplanationBusy(WharfingerError):
    """Other explanations take all the time there is for them."""


class LiveExplanations:
    """Explains the pods of one scheduler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._beside = BuildThread(clock)

    async def of(self, scheduler: Scheduler, key: str, nodes: Sequence[str] = ()) -> ExplainedPod:
        """The explanation of a pod (`namespace/name`) as it stands now.

        UnknownObject for a pod or node that is not there, UsageError for a pod of another scheduler, ExplanationBusy after `PATIENCE`.
        """
        try:
            async with asyncio.timeout(PATIENCE), self._turn:
                pod, chain = _question(scheduler, key)
                now = float(int(self._clock.now()))
                state = await self._in_slices(copied(scheduler.state.snapshot(now)))
                return await self._beside.run(explained, chain, state, pod, now, nodes)
        except TimeoutError:
            raise ExplanationBusy(f"no explanation within {PATIENCE:g} s; too many are asked for, ask again later") from None

    async def _in_slices(self, steps: Generator[None, None, T]) -> T:
        ends_at = self._clock.monotonic() + SLICE
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                found: T = finished.value
                return found
            if self._clock.monotonic() >= ends_at:
                await self._clock.sleep(0)
                ends_at = self._clock.monotonic() + SLICE


def _question(scheduler: Scheduler, key: str) -> tuple[PodView, Chain]:
    """The pod and the chain that decides about it."""
    pod = scheduler.known_pod(key)
    if pod is None:
        names = (known.key for _, known in zip(range(MOST_SUGGESTED), scheduler.known_pods, strict=False))
        meant = suggest.closest(key, names)
        raise UnknownObject(f"there is no pod {key}" + (f"; did you mean {meant}?" if meant else ""))
    profile = scheduler.profiles.of(pod)
    if profile is None:
        raise UsageError(f"pod {key} is not ours: its schedulerName is {pod.object.spec.scheduler_name or 'default-scheduler'}")
    if pod.finished:
        raise UsageError(f"pod {key} has ended ({pod.object.status.phase}); nothing is decided about it any more")
    placed = scheduler.state.snapshot().placed(pod.uid)
    return (pod if placed is None else placed[1]), profile.chain
