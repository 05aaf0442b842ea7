"""Models of a group that leave something out, so that they can be solved where the model of all members is too large.

Each relaxation gives an upper limit for the members that a domain takes. There are two kinds. One counts similar members as equal ones that
need the least of each resource; similar by all resources together, or by one of them. The other divides the classes into parts, with
classes that have rules about each other in one part, and counts each part as if it had all nodes to itself. Everything that a relaxation
leaves out can only forbid more, so its limit is never too low.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from wharfinger.framework.plugins.pods import affinity_terms
from wharfinger.groups.exact.group_model import MAX_VECTORS, GroupModel
from wharfinger.groups.exact.member_classes import MAX_MERGED, Merging, class_axes, requirements_in_steps
from wharfinger.groups.exact.packing import Space

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.groups.exact.member_classes import MemberClass
    from wharfinger.model.state.snapshot import Snapshot

MAX_PART_VECTORS = 1 << 13
"""Vectors of the space of a part."""
MAX_CLASSES = 64
"""Classes of a group that is divided into parts."""
MAX_RESOURCES = 4
"""Resources by which members are merged."""


Make: TypeAlias = "Callable[[Decider, Snapshot], Generator[None, None, GroupModel]]"


class Relaxation(Struct):
    """Models of different members of a group; together they are about all of it. `makes` makes them, each when it is needed.

    `classes` are read for that, in all models together.
    """

    makes: Sequence[Make]
    classes: int
    _made: list[GroupModel] = field(default_factory=list)

    @property
    def is_made(self) -> bool:
        """True once the models are made."""
        return len(self._made) == len(self.makes)

    def models(self, decider: Decider, snapshot: Snapshot) -> Generator[None, None, list[GroupModel]]:
        """A generator of steps that returns the models, prepared; the state must be the same at each call."""
        for make in self.makes[len(self._made) :]:
            self._made.append((yield from make(decider, snapshot)))
        for model in self._made:
            yield from model.prepare()
        return self._made


def relaxations(classes: Sequence[MemberClass]) -> list[Relaxation]:
    """The relaxations of a group, in the order in which they are tried."""
    needs = [each.pod.requests for each in classes]
    names = sorted(name for name in {name for need in needs for name in need} if len({need.get(name, 0) for need in needs}) > 1)
    components = _components(classes) if len(classes) <= MAX_CLASSES else []
    orders = (sorted(components, key=_size), sorted(components, key=lambda part: max(map(_weight, part)), reverse=True))
    return [
        Relaxation([_model(classes, MAX_MERGED)], len(classes)),
        *(_in_parts(_parts(order), classes) for order in orders if len(components) > 1),
        *(Relaxation([_model(classes, MAX_MERGED, by=name)], len(classes)) for name in names[:MAX_RESOURCES]),
        Relaxation([_model(classes, MAX_VECTORS)], len(classes)),
    ]


def _in_parts(parts: Sequence[Sequence[MemberClass]], classes: Sequence[MemberClass]) -> Relaxation:
    left_out = [[each for each in classes if all(each is not own for own in part)] for part in parts]
    return Relaxation([_model(part, MAX_MERGED, others=others) for part, others in zip(parts, left_out, strict=True)], len(classes))


def _weight(each: MemberClass) -> float:
    """A number for how much a member needs, to sort by."""
    return sum(math.log1p(amount) for amount in each.pod.requests.values())


def _model(classes: Sequence[MemberClass], limit: int, *, by: str | None = None, others: Sequence[MemberClass] = ()) -> Make:
    """Return a function that makes a model whose classes are merged as far as necessary to limit its space."""

    def make(decider: Decider, snapshot: Snapshot) -> Generator[None, None, GroupModel]:
        requirements = yield from requirements_in_steps(decider, snapshot, classes)
        axes = yield from class_axes(classes, requirements, Merging.LEAST, by, limit)
        return GroupModel(snapshot, classes, axes, Merging.LEAST, others)

    return make


def _parts(components: Sequence[Sequence[MemberClass]]) -> list[list[MemberClass]]:
    """Components together in parts of small spaces, those that come first together where that is possible."""
    parts: list[list[MemberClass]] = []
    for component in components:
        fitting = next((part for part in parts if _size(part) * _size(component) <= MAX_PART_VECTORS), None)
        if fitting is None:
            parts.append(list(component))
        else:
            fitting += component
    return parts


def _size(part: Sequence[MemberClass]) -> int:
    return Space.size([len(each.members) for each in part])


def _components(classes: Sequence[MemberClass]) -> list[list[MemberClass]]:
    """The classes, those together that have rules about each other, directly or by way of others."""
    found: list[list[MemberClass]] = []
    for each in classes:
        linked = [part for part in found if any(_about(each, other) or _about(other, each) for other in part)]
        found = [part for part in found if all(part is not other for other in linked)]
        found.append([*(other for part in linked for other in part), each])
    return found


def _about(each: MemberClass, other: MemberClass) -> bool:
    """True if required terms of a member are about a member of another class."""
    terms = affinity_terms.terms_of_placed(each.pod)
    return any(term.matches(other.pod, {}) for term in (*terms.required, *terms.required_anti))


assert MAX_PART_VECTORS <= MAX_MERGED  # noqa: S101 — classes of a part are merged only where the part is one component
