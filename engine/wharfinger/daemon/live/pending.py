"""The pods that wait, by where and why.

There may be many thousand of them, mostly for the same few reasons, so they are told in groups, with some pods of each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from wharfinger.runtime.queued_pod import Place, QueuedPod

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock
    from wharfinger.runtime.scheduler import Scheduler
    from wharfinger.telemetry.recent_decisions import RecentDecisions

STEP = 1500
"""Pods between two turns of everybody else."""
MOST_GROUPS = 40
MOST_PODS = 12
"""Pods of a group that are named."""
MOST_DECISIONS = 2000
"""Recent decisions among which the reasons of pods are looked for."""

Cause: TypeAlias = tuple[str, str, tuple[str, ...], str]  # profile, place, rejectors, gate
Steps: TypeAlias = Generator[None, None, Mapping[str, Any]]

_QUEUES = {Place.ERROR_BACKOFF: "backoff", Place.IN_FLIGHT: "in flight"}


def pending(scheduler: Scheduler, recent: RecentDecisions, clock: Clock) -> Steps:
    """The groups as plain values, the largest first, at the end of steps that take a few milliseconds each."""
    groups: dict[Cause, list[QueuedPod]] = {}
    waiting = list(scheduler.queue)
    for start in range(0, len(waiting), STEP):
        _sort(waiting[start : start + STEP], groups)
        yield
    said = {record.uid: record.message for record in islice(recent.latest(result="unschedulable"), MOST_DECISIONS)}
    yield
    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    since = clock.now() - clock.monotonic()
    found = [_plain(cause, pods, said.get, since) for cause, pods in largest[:MOST_GROUPS]]
    return {"total": len(waiting), "groups": found, "omitted": max(0, len(groups) - MOST_GROUPS)}


def _sort(pods: list[QueuedPod], groups: dict[Cause, list[QueuedPod]]) -> None:
    for queued in pods:
        if queued.place is Place.GONE:
            continue
        rejectors = tuple(sorted(plugin.name for plugin in queued.rejectors))
        gate = queued.gate.text if queued.place is Place.GATED and queued.gate is not None else ""
        cause = queued.profile.name, _QUEUES.get(queued.place, queued.place.value), rejectors, gate
        groups.setdefault(cause, []).append(queued)


def _plain(cause: Cause, pods: list[QueuedPod], said: Callable[[str], str | None], since: float) -> dict[str, Any]:
    profile, place, rejectors, gate = cause
    messages = (said(queued.uid) for queued in pods[:MOST_PODS])
    return {
        "profile": profile,
        "queue": place,
        "rejectors": list(rejectors),
        "message": gate or next((message for message in messages if message), ""),
        "count": len(pods),
        "pods": [
            {
                "pod": queued.pod.key,
                "attempts": queued.attempts,
                "priority": queued.pod.priority,
                "since": round(since + queued.first_seen),
            }
            for queued in pods[:MOST_PODS]
        ],
    }
