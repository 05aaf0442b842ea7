"""Limits the time that a namespace takes with costly policies of its own, so that pods of other namespaces do not wait for it.

A policy of a namespace may take as much of each decision as its budget allows, and govern thousands of pods. In queue order alone, all
other pods would wait for these decisions. The same happens if the policy rejects the pods, because each change of the cluster lets all of
them be tried again.

So the time of attempts for these pods is counted: of the first attempt for a pod, the time above the usual; of further attempts, all of it.
All such namespaces together may use `SHARE` of the time. The pods of a namespace that has used its part wait in backoff for the next turn
of the namespace. Like all pods in backoff they are tried earlier when no other pod is ready; that time is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.queued_pods import QueuedPod

SHARE = 0.2
"""The part of the time that the policies of all namespaces together may take from other pods."""
USUAL_SECONDS = 0.001
"""Seconds of the first attempt for a pod that are not counted. Quick policies do not change the order of the queue."""
BURST_SECONDS = 0.02
"""Seconds that a namespace may use at once."""
MAX_WAIT = 10.0
"""Seconds after which a pod is ready again at the latest, as after the longest backoff."""


class _Used(Struct):
    """What a namespace has used: all of its part of the time until `until`. `last_turn` was given last. Both are monotonic times.

    `last_seconds` are those of the last attempt.
    """

    until: float
    last_turn: float = 0.0
    last_seconds: float = 0.0


class TimeShares:
    """Gives turns to namespaces; `monotonic` is a clock, `snapshot` returns the cluster as it is."""

    def __init__(self, monotonic: Callable[[], float], snapshot: Callable[[], Snapshot]) -> None:
        self._monotonic = monotonic
        self._snapshot = snapshot
        self._used: dict[str, _Used] = {}

    def free_seconds(self, queued: QueuedPod, members: int = 1) -> float:
        """Seconds of an attempt that has just begun that are not counted; infinity if no other pod was ready."""
        if queued.ready_at > queued.started:
            return math.inf
        return USUAL_SECONDS * members if queued.attempts <= 1 else 0.0

    def took(self, queued: QueuedPod, seconds: float, members: Sequence[PodView] = ()) -> None:
        """Count these seconds of an attempt to place a pod, or the members of a group, if a policy of its namespace governs it."""
        if seconds <= 0 or not self._governed(queued, members or queued.kinds):
            return
        now = self._monotonic()
        self._used = {namespace: used for namespace, used in self._used.items() if used.until > now}
        used = self._used.setdefault(queued.pod.namespace, _Used(until=now))
        used.until += seconds / self._part
        used.last_seconds = seconds

    def turn(self, queued: QueuedPod) -> float | None:
        """The monotonic time of the turn of a ready pod or group; None if it is its turn now."""
        used = self._used.get(queued.pod.namespace)
        if used is None:
            return None
        now, part = self._monotonic(), self._part
        if queued.ready_at > now:  # in backoff, and no other pod is ready
            return None
        ready_at = used.until - BURST_SECONDS / part
        if ready_at <= now or not self._governed(queued, queued.kinds):
            return None
        used.last_turn = min(max(ready_at, used.last_turn + used.last_seconds / part), now + MAX_WAIT)
        return used.last_turn

    @property
    def _part(self) -> float:
        """The part of the time that each of the namespaces may use."""
        return SHARE / max(1, len(self._used))

    def _governed(self, queued: QueuedPod, pods: Iterable[PodView]) -> bool:
        """True if a policy of their namespace governs one of these pods."""
        chain, snapshot = queued.profile.chain, self._snapshot()
        if all(policy.authority.namespace is None for policy in chain.possible_policies(queued.pod.namespace)):
            return False
        try:
            governing = (policy for pod in pods for policy in chain.pod_rules(pod, snapshot).governing)
            return any(policy.authority.namespace is not None for policy in governing)
        except Exception:  # noqa: BLE001 — a policy that fails on this pod is reported when the pod is tried
            return False
