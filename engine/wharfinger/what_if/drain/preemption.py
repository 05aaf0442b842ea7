"""Preemption in a drain: the nodes that pods and groups are nominated to, and the victims that leave these nodes.

A pod or group that needs preemption is nominated first. Its victims are marked as deleted once no pod is ready any more, and still count on
their nodes while other pods are tried. Then they leave, and what they left for is decided again: others may have taken the room.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wharfinger.model.objects.pod_view import PodView
from wharfinger.what_if.drain.moving_pods import MovingPod, MovingPods
from wharfinger.what_if.drain.supposed_queue import WaitingTurn, turn_uid
from wharfinger.what_if.supposed_changes import SupposedChanges

MOST_PREEMPTIONS = 5
"""The attempts of preemption for one pod or group: its victims may come back each time before it is decided again, without end."""
AGAIN_AND_AGAIN = f"Preemption has freed the room for it {MOST_PREEMPTIONS} times, and others took it"


class _Chosen(NamedTuple):
    """Victims that are not marked as deleted yet, with the uid of the turn and the key of the pod for which they leave."""

    turn: str
    for_pod: str
    victims: Sequence[PodView]


@dataclass(slots=True, eq=False)
class _Preempting:
    """The attempts for a turn: how many, and the pods that were evicted for it."""

    attempts: int = 0
    evicted: tuple[PodView, ...] = ()


class Preemption:
    """The preemption for the pods of a drain that wait."""

    def __init__(self, supposed: SupposedChanges, moving: MovingPods) -> None:
        self._supposed = supposed
        self._moving = moving
        self._queue = moving.queue
        self._preempting: dict[str, _Preempting] = {}  # by the uid of the turn
        self._chosen: list[_Chosen] = []
        self._going: list[MovingPod] = []  # victims that are marked

    @property
    def has_victims(self) -> bool:
        """True if victims are marked that have not left yet."""
        return bool(self._going)

    def evicted_for(self, turn: WaitingTurn) -> tuple[PodView, ...]:
        """The pods that were evicted for a turn."""
        known = self._preempting.get(turn.uid)
        return () if known is None else known.evicted

    def may_preempt(self, turn: WaitingTurn) -> bool:
        """True unless there were too many attempts for a turn."""
        known = self._preempting.get(turn.uid)
        return known is None or known.attempts < MOST_PREEMPTIONS

    def nominate(self, turn: WaitingTurn, nodes: Sequence[tuple[PodView, str]], victims: Sequence[PodView]) -> None:
        """Nominate pods of a turn to nodes where victims make room, and take the nomination from pods of lower priority there.

        Those pods are tried again, because they may fit on other nodes.
        """
        snapshot = self._supposed.state.snapshot()
        own = {pod.uid for pod, _ in nodes}
        lower = {
            other.uid: other
            for pod, node in nodes
            for other in snapshot.nominated(snapshot.known_row(node))
            if other.priority < pod.priority and other.uid not in own
        }
        evicted = [victim for victim in victims if not snapshot.leaving(victim)]
        for other in lower.values():
            self._supposed.remove_nomination(other)
            self._queue.activate(turn_uid(other, self._moving.index.key_of(other.uid)))
        known = self._preempting.setdefault(turn.uid, _Preempting())
        known.attempts += 1
        known.evicted += tuple(evicted)
        self._chosen.append(_Chosen(turn.uid, nodes[0][0].key, evicted))
        for pod, node in nodes:
            self._supposed.nominate(pod, node, victims)

    def take_back(self, pods: Iterable[PodView]) -> None:
        """Take nominations back that do not help the pods."""
        for pod in pods:
            self._supposed.remove_nomination(pod)

    def mark_victims(self) -> bool:
        """Mark the victims that were chosen as deleted, and let what they leave for be tried again; True if there are any."""
        chosen, self._chosen = self._chosen, []
        for each in chosen:
            for victim in each.victims:
                moving = self._moving.displaced(victim, each.for_pod)
                self._moving.mark(moving, preempted=True)
                self._going.append(moving)
        for each in chosen:
            self._queue.activate(each.turn)
        return bool(chosen)

    def let_victims_leave(self, place: Callable[[], Generator[None]]) -> Generator[None]:
        """Let the victims that are marked leave; `place` tries the pods that are ready."""
        going, self._going = self._going, []
        yield from self._moving.leave(going, place)
        yield from place()
