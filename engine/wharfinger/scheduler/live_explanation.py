"""Explanations by a running scheduler: on a copy of its state, made in short slices, and decided in a thread.

One at a time, as each takes memory for a second cluster. A request that waits longer than `PATIENCE` ends with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.errors import UnknownObject, UsageError, WharfingerError
from wharfinger.event_loop import BuildThread, in_slices
from wharfinger.explain.explained_pod import ExplainedPod, explained
from wharfinger.language.report import wording
from wharfinger.model.state.cluster_state import copied

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.ports import Clock
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.scheduler.scheduler import Scheduler

PATIENCE = 20.0
MOST_SUGGESTED = 5000
"""Pods among which a similar name is looked for."""


class ExplanationBusy(WharfingerError):
    """No explanation within `PATIENCE` seconds: other explanations take the time."""


class LiveExplanations:
    """Explains the pods of one scheduler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._thread = BuildThread(clock)

    async def of(self, scheduler: Scheduler, key: str, nodes: Sequence[str] = ()) -> ExplainedPod:
        """The explanation of a pod (`namespace/name`) as it stands now.

        UnknownObject for a pod or node that is not there, UsageError for a pod of another scheduler, ExplanationBusy after `PATIENCE`.
        """
        try:
            async with asyncio.timeout(PATIENCE), self._turn:
                pod, chain = _question(scheduler, key)
                now = float(int(self._clock.now()))
                state = await in_slices(copied(scheduler.state.snapshot(now)), self._clock)
                return await self._thread.run(explained, chain, state, pod, now, nodes)
        except TimeoutError:
            raise ExplanationBusy(f"no explanation within {PATIENCE:g} s; too many are asked for, ask again later") from None


def _question(scheduler: Scheduler, key: str) -> tuple[PodView, Chain]:
    """The pod and the chain that decides about it."""
    pod = scheduler.known_pod(key)
    if pod is None:
        names = (known.key for _, known in zip(range(MOST_SUGGESTED), scheduler.known_pods, strict=False))
        meant = wording.closest(key, names)
        raise UnknownObject(f"there is no pod {key}" + (f"; did you mean {meant}?" if meant else ""))
    profile = scheduler.profiles.of(pod)
    if profile is None:
        raise UsageError(f"pod {key} is not ours: its schedulerName is {pod.object.spec.scheduler_name or 'default-scheduler'}")
    if pod.finished:
        raise UsageError(f"pod {key} has ended ({pod.object.status.phase}); nothing is decided about it any more")
    placed = scheduler.state.snapshot().placed(pod.uid)
    return (pod if placed is None else placed[1]), profile.chain
