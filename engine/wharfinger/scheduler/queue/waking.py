"""Unschedulable pods that are to be tried again: very many are let in over several steps, the most urgent first.

Ordering twenty thousand pods at once would take as long as dozens of decisions. So they are put into a heap in steps too, and none is let
in before all that were woken together are in it. A pod may be woken for several reasons before its turn comes; it is tried again if one of
them holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from wharfinger.scheduler.queue.places import PODS_PER_STEP
from wharfinger.scheduler.queued_pods import Place, QueuedPod, ReadyHeap

RANKED_PER_STEP = 4 * PODS_PER_STEP
"""How many woken pods are put in order at a time, which takes some milliseconds."""
MAX_WAVES = 16
"""Events whose pods wait to be put in order. Of more, those of the oldest are put in order at once: most pods are in order already then."""

Condition = Callable[[QueuedPod], bool]


class WokenPods:
    """The unschedulable pods that are woken and not let in yet, with the event that woke them."""

    def __init__(self) -> None:
        self._waves: deque[tuple[Iterator[QueuedPod], str, tuple[Condition, ...]]] = deque()  # to be put in order
        self._ordered = ReadyHeap()
        self._reasons: dict[str, tuple[QueuedPod, str, tuple[Condition, ...]]] = {}  # by uid; without conditions the pod is let in
        self._complete = False

    def __bool__(self) -> bool:
        return bool(self._waves or self._reasons)

    def add(self, waiting: Sequence[QueuedPod], label: str, concerned: Condition | None) -> None:
        """Add pods that the event of that label has woken, if they are `concerned` when their turn comes."""
        if len(self._waves) == MAX_WAVES:
            self._order_oldest(None)
        self._waves.append((iter(waiting), label, () if concerned is None else (concerned,)))

    def step(self) -> Iterator[tuple[QueuedPod, str]]:
        """The pods to be let in now, with their events: the next portion, or none while there are pods to be put in order."""
        left = RANKED_PER_STEP
        while left and self._waves:
            left -= self._order_oldest(left)
        for _ in range(PODS_PER_STEP if self._complete else 0):
            woken = self._ordered.pop()
            if woken is None:
                self._complete = False
                return
            _, label, conditions = self._reasons.pop(woken.uid)
            if woken.place is Place.UNSCHEDULABLE and (not conditions or any(concerned(woken) for concerned in conditions)):
                yield woken, label

    def _order_oldest(self, most: int | None) -> int:
        """The number of pods of the oldest event that were put in order, at most that many; None for all."""
        waiting, label, asked = self._waves[0]
        reasons, n = self._reasons, 0
        for queued in islice(waiting, most):
            n += 1
            before = reasons.get(queued.uid)
            if before is None or before[0] is not queued:
                self._ordered.push(queued, queued.sort_key)
                reasons[queued.uid] = queued, label, asked
            elif before[2]:
                reasons[queued.uid] = queued, label, (*before[2], *asked) if asked else ()
        if n != most:
            self._waves.popleft()
            self._complete = True
        return n
