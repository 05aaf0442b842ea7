"""The time that decisions take, by extension point and plugin.

The core has no clock. A `Decider` may be given a stopwatch that has one. Without it nothing is measured; decisions are the same either way.
Two clock readings per rule cost much compared with the update of a single row, so the stopwatch chooses for each decision whether to
measure it. Evaluations are always counted with a stopwatch: that costs one addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from wharfinger.framework.extension import Plugin


@dataclass(slots=True)
class Effort:
    """The work of a rule so far: nodes it was evaluated on, nodes it rejected among these, and seconds."""

    evaluated: int = 0
    rejected: int = 0
    seconds: float = 0.0


class Slot(Protocol):
    """A plugin's place in a chain, with its effort; None if it is not measured."""

    plugin: Any
    effort: Effort | None


S = TypeVar("S", bound=Slot)
P = ParamSpec("P")
R = TypeVar("R")


class Laps:
    """The laps of a decision that is not measured."""

    __slots__ = ()

    def each(self, point: str, slots: Iterable[S]) -> Iterable[S]:  # noqa: ARG002 — the point matters to `TimedLaps`
        """The slots; the time between one and the next is a lap of the former at an extension point."""
        return slots

    def mark(self, point: str) -> None:
        """Count the time since the last mark for an extension point."""

    def of_policy(self, policy: str, rule: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002 — as above
        """The given rule of a policy, which has no slot (such as a key of its tie break)."""
        return rule


NO_LAPS = Laps()


Lap = tuple[str, Slot, float]
"""Extension point, plugin and seconds; a plain tuple, as two dozen are made for a decision that is measured."""


class TimedLaps(Laps):
    """The laps of one decision: `laps` per plugin call, `points` the seconds by extension point, `by_policy` those of rules without a slot.

    `whole` is true if the decision reused no earlier result.
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
        """The slots, each measured until the caller takes the next."""
        for slot in slots:
            began = self._clock()
            try:
                yield slot
            finally:  # also when the caller stops the iteration
                self.laps.append((point, slot, self._clock() - began))

    def mark(self, point: str) -> None:
        """Count the time since the last mark for an extension point."""
        now = self._clock()
        self.points[point] = self.points.get(point, 0.0) + now - self._since
        self._since = now

    def of_policy(self, policy: str, rule: Callable[P, R]) -> Callable[P, R]:
        """The rule, measured at each call."""

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
        """The laps of a decision that begins now. `whole`: no earlier result is reused. `policies`: names of those that govern the pod."""

    def ended(self, laps: Laps, status: str) -> None:
        """The decision of these laps has ended with a `Success` or as `Unschedulable`."""
