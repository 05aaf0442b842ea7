"""The time that decisions take, by extension point and plugin.

The core has no clock. A `Decider` may be given a stopwatch that has one; without it nothing is measured and no decision is another for it.
Two clock readings per rule are much beside an update of a single row, so the stopwatch says anew for each decision whether it is measured.
Evaluations are counted always: that is one addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from wharfinger.framework.extension import Plugin


@dataclass(slots=True)
class Effort:
    """What a rule has done so far: nodes it was evaluated on, those of them that it rejected, and seconds."""

    evaluated: int = 0
    rejected: int = 0
    seconds: float = 0.0


class Slot(Protocol):
    """A plugin's place in a chain, with what is known of its effort."""

    plugin: Any
    effort: Effort | None


S = TypeVar("S", bound=Slot)
P = ParamSpec("P")
R = TypeVar("R")


class Laps:
    """The laps of a decision that is not measured."""

    __slots__ = ()

    def each(self, point: str, slots: Iterable[S]) -> Iterable[S]:  # noqa: ARG002 — the point matters to whoever measures
        """The slots; what happens between one and the next is a lap of the former at an extension point."""
        return slots

    def mark(self, point: str) -> None:
        """What happened since the last mark belongs to an extension point."""

    def of_policy(self, policy: str, rule: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002 — as above
        """A rule of a policy that has no slot, such as a key of its tie break."""
        return rule


NO_LAPS = Laps()


Lap = tuple[str, Slot, float]
"""Extension point, plugin and seconds; a plain tuple, as two dozen are made for a decision that is measured."""


class TimedLaps(Laps):
    """The laps of one decision: `laps` by plugin, `points` the seconds by extension point, `by_policy` those of rules without a slot.

    `whole`: no earlier result was of use.
    """

    __slots__ = ("_clock", "_since", "by_policy", "laps", "points", "whole")

    def __init__(self, clock: Callable[[], float], *, whole: bool) -> None:
        self._clock = clock
        self._since = clock()
        self.whole = whole
        self.laps: list[Lap] = []
        self.points: dict[str, float] = {}
        self.by_policy: dict[str, float] = {}

    def each(self, point: str, slots: Iterable[S]) -> Iterator[S]:
        """The slots, each measured until the next is asked for."""
        for slot in slots:
            began = self._clock()
            try:
                yield slot
            finally:  # also when nobody asks for the next
                self.laps.append((point, slot, self._clock() - began))

    def mark(self, point: str) -> None:
        """What happened since the last mark belongs to an extension point."""
        now = self._clock()
        self.points[point] = self.points.get(point, 0.0) + now - self._since
        self._since = now

    def of_policy(self, policy: str, rule: Callable[P, R]) -> Callable[P, R]:
        """The rule, measured whenever it is asked."""

        def asked(*arguments: P.args, **named: P.kwargs) -> R:
            began = self._clock()
            try:
                return rule(*arguments, **named)
            finally:
                self.by_policy[policy] = self.by_policy.get(policy, 0.0) + self._clock() - began

        return asked


class Stopwatch(Protocol):
    """Measures the decisions of one profile."""

    def effort(self, plugin: Plugin) -> Effort | None:
        """The place to record a plugin's effort; None if it is not measured."""

    def begin(self, *, whole: bool, policies: Sequence[str]) -> Laps:
        """The laps of a decision that begins now; `whole`: it is made from scratch. `policies` are those that govern the pod, by name."""

    def ended(self, laps: Laps, status: str) -> None:
        """The decision of these laps has ended with a `Success` or as `Unschedulable`."""
