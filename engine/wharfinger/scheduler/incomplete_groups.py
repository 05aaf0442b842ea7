"""Events about groups that are not tried because members, or their PodGroup, do not exist.

Without an attempt nothing is reported, and kube-scheduler 1.36 says nothing of such pods. Here `kubectl describe` says what is missing. It
is an event and no condition: for pods with PodScheduled False and the reason Unschedulable, cluster-autoscaler adds nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from wharfinger.framework.ports import WARNING, Event
from wharfinger.groups.results import missing_members
from wharfinger.scheduler.queued_pods import Place

if TYPE_CHECKING:
    from wharfinger.scheduler.ports import Ports
    from wharfinger.scheduler.queue.queued_groups import QueuedGroups
    from wharfinger.scheduler.queued_pods import QueuedGroup, QueuedPod
    from wharfinger.scheduler.status import GroupStatus

ROUND_SECONDS = 10.0
"""Seconds between two rounds. Members that wait in two rounds get the event: a controller creates them one after the other."""
MEMBERS_PER_STEP = 500
ACTION = "PreEnqueue"
"""The action of these events: another than that of attempts, of which the note of the first one stays."""


class IncompleteGroups:
    """Records an event for each member that waits for others, and one for the PodGroup; and again when they wait for something else."""

    def __init__(self, ports: Ports, groups: QueuedGroups, status: GroupStatus) -> None:
        self._ports = ports
        self._groups = groups
        self._status = status
        self._round: Iterator[None] = iter(())
        self._begins_at = 0.0
        self._waiting: dict[tuple[str, str], bool] = {}  # (uid, reason) of members and groups; True once the event is recorded

    def review(self) -> None:
        """Continue with the round under way, or begin one if it is time; to be called in every step of the scheduler."""
        if sum(1 for _ in islice(self._round, MEMBERS_PER_STEP)):
            return
        now = self._ports.clock.monotonic()
        if now >= self._begins_at:
            self._begins_at = now + ROUND_SECONDS
            self._round = self._members()

    def _members(self) -> Iterator[None]:
        before, self._waiting = self._waiting, {}
        for entry in tuple(self._groups):
            for member in tuple(entry.members.values()):
                if entry.place is not Place.GATED or entry.gate is None:
                    break
                if member.uid in entry.members:
                    self._waits(entry, member, entry.gate.text, before)
                yield

    def _waits(self, entry: QueuedGroup, member: QueuedPod, reason: str, before: dict[tuple[str, str], bool]) -> None:
        """Record that a member waits, and its event if it waited in the round before and has none yet."""
        of_member, of_group = (member.uid, reason), (entry.uid, reason)
        group_told = before.get(of_group, False) or self._waiting.get(of_group, False)
        if before.get(of_member) is False:
            note = f"group {entry.key}: {missing_members(self._groups.index, entry.key)}"
            event = Event(type=WARNING, reason="FailedScheduling", action=ACTION, note=note)
            self._ports.events.record(member.pod, event)
            if not group_told:
                self._status.incomplete(entry.key, event)
                group_told = True
        self._waiting[of_member] = of_member in before
        self._waiting[of_group] = group_told
