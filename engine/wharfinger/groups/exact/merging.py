"""Which classes of members a model counts together, on one axis.

Classes without rules between members that need the same and may go to the same nodes are always one axis. Others that are much alike are
merged where the space of their counts would be too large otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from wharfinger.groups.exact.class_reading import Reading, least_of, most_of
from wharfinger.groups.exact.count_sets import Space

if TYPE_CHECKING:
    from wharfinger.groups.exact.member_classes import MemberClass
    from wharfinger.model.objects.pod_view import PodView

MAX_MERGED = 1 << 15
CLASSES_PER_STEP = 10
"""Classes that are compared with all others, or merged, in one step."""


class Merging(Enum):
    """Which classes are one axis of a model.

    With LEAST, a merged class needs the least that any of them needs and has no wishes: if there is no solution, the group has no place.
    With MOST it needs the most, and only classes without rules between members are merged: a solution is a place for the group.
    """

    EQUALS = "equals"
    LEAST = "least"
    MOST = "most"


@dataclass(slots=True)
class ClassAxis:
    """One class, or several merged ones, of which any member may stand for any other.

    `free`: its members have no rules about members, and no rules of members are about them.
    """

    classes: list[MemberClass]
    reading: Reading
    free: bool = False

    @property
    def alone(self) -> bool:
        """True if the classes are not merged."""
        return len(self.classes) == 1

    @property
    def pod(self) -> PodView:
        """A member of the first class."""
        return self.classes[0].pod

    @property
    def number(self) -> int:
        """The number of members."""
        return sum(len(each.members) for each in self.classes)

    def any(self, matches: Callable[[PodView], bool]) -> bool:
        """True if a member of some class matches."""
        return any(matches(each.pod) for each in self.classes)


def class_axes(
    classes: Sequence[MemberClass], readings: Sequence[Reading], merging: Merging, by: str | None = None, most: int = MAX_MERGED
) -> Generator[None, None, list[ClassAxis]]:
    """A generator of steps that returns the axes of some classes, of which `readings` were read.

    `by` is the resource by which they are alike, None for all; merging ends once the space has no more than `most` vectors.
    """
    axes = [ClassAxis([each], reading) for each, reading in zip(classes, readings, strict=True)]
    ruled = {_rules_of(axis): axis for axis in axes if axis.reading.has_rules}.values()
    for number, axis in enumerate(axes):
        axis.free = not axis.reading.has_rules and not axis.pod.host_ports and not _is_meant(axis.pod, ruled)
        if number % CLASSES_PER_STEP == CLASSES_PER_STEP - 1:
            yield
    axes = _with_equals_merged(axes)
    if merging is not Merging.EQUALS:
        yield from _merge(axes, merging, by, most)
    return axes


def _rules_of(axis: ClassAxis) -> Hashable:
    """Equal for axes whose rules are about the same members."""
    reading = axis.reading
    return reading.terms, None if reading.spread is None else reading.spread.constraints, axis.pod.namespace


def _is_meant(pod: PodView, axes: Iterable[ClassAxis]) -> bool:
    """True if terms or constraints of some class are about a member."""
    for axis in axes:
        reading = axis.reading
        terms = (*reading.terms.required, *reading.terms.required_anti)
        constraints = () if reading.spread is None else reading.spread.constraints
        if any(term.matches(pod, {}) for term in terms) or any(each.counts(pod, axis.pod.namespace) for each in constraints):
            return True
    return False


def _with_equals_merged(axes: Sequence[ClassAxis]) -> list[ClassAxis]:
    """The axes, with classes merged of which any member may stand for any other."""
    merged: dict[Hashable, ClassAxis] = {}
    for axis in axes:
        needs = None if axis.reading.needs is None else tuple(sorted(axis.reading.needs.items()))
        key: Hashable = (needs, axis.reading.open_rows.tobytes()) if axis.free else id(axis)
        if key in merged:
            merged[key].classes += axis.classes
        else:
            merged[key] = axis
    return list(merged.values())


def _merge(axes: list[ClassAxis], merging: Merging, by: str | None, most: int) -> Generator[None, None, None]:
    """A generator of steps that merges neighbours in the order of needs, the most alike first, until the space is small enough."""
    least = merging is Merging.LEAST
    axes.sort(key=lambda axis: (not axis.free, axis.reading.has_rules, _weight(axis.reading, by)))

    def loss(number: int) -> float:
        """What is lost if an axis is merged with the one after it."""
        return _loss(axes[number], axes[number + 1], by) if least or axes[number + 1].free else math.inf

    losses = [loss(number) for number in range(len(axes) - 1)]
    size = _size(axes)
    while size > most and losses:
        if len(losses) % CLASSES_PER_STEP == 0:
            yield
        lowest = min(losses)
        if lowest == math.inf:
            return
        first = losses.index(lowest)
        left, right = axes[first], axes.pop(first + 1)
        reading = (least_of if least else most_of)(left.reading, right.reading)
        axes[first] = ClassAxis(left.classes + right.classes, reading, left.free and right.free)
        del losses[first]
        for number in (first - 1, first):
            if 0 <= number < len(losses):
                losses[number] = loss(number)
        if left.reading.terms.required or right.reading.terms.required:
            size = _size(axes)
        else:
            size = size // ((left.number + 1) * (right.number + 1)) * (left.number + right.number + 1)


def _size(axes: Sequence[ClassAxis]) -> int:
    """The vectors of the space of some axes, with an axis for each of their wishes."""
    affinities = {axis.reading.terms.required for axis in axes if axis.reading.terms.required}
    return Space.size([axis.number for axis in axes]) << len(affinities)


def _weight(reading: Reading, by: str | None) -> float:
    """A number for how much a member needs, to sort by; 0 if that is not known."""
    return sum(math.log1p(amount) for name, amount in (reading.needs or {}).items() if by in {None, name})


def _loss(left: ClassAxis, right: ClassAxis, by: str | None) -> float:
    """A number for how much is lost if two classes are merged."""
    mine, other = left.reading.needs or {}, right.reading.needs or {}
    lost = 0.0
    for name in mine.keys() | other.keys() if by is None else {by}:
        low, high = sorted((mine.get(name, 0), other.get(name, 0)))
        lost += (high - low) / high * (left.number if mine.get(name, 0) == high else right.number) if high else 0.0
    if left.reading.terms.required == right.reading.terms.required and not _has_more_rules(left) and not _has_more_rules(right):
        return lost
    return lost + sum(axis.number for axis in (left, right) if axis.reading.has_rules)


def _has_more_rules(axis: ClassAxis) -> bool:
    """True if members have rules that a merged axis does not keep."""
    return bool(axis.reading.terms.required_anti) or axis.reading.spread is not None
