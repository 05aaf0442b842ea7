"""Classes of members: which members get equal answers, what the filters say about each class, and which classes a model counts together.

A group of a thousand equal pods is one class: what is shown for one of them holds for all. `room` and `Sums` are bounds on how many members
fit. They count the filters of which it is known that a pod more on a node never helps; so no bound is ever too low.

`Requirements` are what the filters of Kubernetes require for one class, read from the prepared filters of the chain: the nodes that are
open to a member, what it needs of each resource, its host ports, its terms of affinity and its hard spread. A filter that is not known here
(rules of policies, limits of volumes, plugins of others) is left out; `complete` is False then. What is left out can only forbid more.

A model counts each class on an axis. Classes without rules between members that need the same and may go to the same nodes are always one
axis. Others that are much alike are merged where the space of their counts would be too large otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.framework.plugins.node_resources import Fit
from wharfinger.framework.plugins.pods import affinity_terms
from wharfinger.framework.plugins.pods.affinity_terms import Terms
from wharfinger.framework.plugins.pods.inter_pod_affinity import PreparedAffinityFilter
from wharfinger.framework.plugins.pods.spread_counts import HardSpread
from wharfinger.groups.exact.packing import Space
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.filter_slot import FilterSlot
    from wharfinger.framework.evaluation.filtering import Filtering
    from wharfinger.framework.prepared import Mask
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

WORSENING = frozenset({"NodeResourcesFit", "NodePorts", "NodeVolumeLimits", "VolumeRestrictions"})
"""The filters, besides the STATIC ones, that never let a pod onto a node because another pod was added somewhere."""
MEMBERS_PER_STEP = 64
"""Members whose class is looked up in one step."""
UNLIMITED = 1 << 40
ROUNDED = 1 - 1e-9  # so that a sum of floats is never above the true one


class MemberClass(Struct):
    """Members with equal answers, in the order in which they are placed."""

    key: Hashable
    members: list[PodView] = field(default_factory=list)

    @property
    def pod(self) -> PodView:
        """The first member."""
        return self.members[0]


def ordered(waiting: Sequence[PodView]) -> list[PodView]:
    """Members by priority, then by creation, then by name: the order of kube-scheduler 1.36 (schedule_one_podgroup.go)."""
    return sorted(waiting, key=lambda pod: (-pod.priority, pod.created if pod.created is not None else np.inf, pod.key))


def classes(decider: Decider, waiting: Sequence[PodView], snapshot: Snapshot) -> Generator[None, None, list[MemberClass]]:
    """A generator of steps that returns the classes of some members, in the order of their first members."""
    found: dict[Hashable, MemberClass] = {}
    for number, pod in enumerate(waiting):
        key = decider.chain.key(pod, snapshot)
        found.setdefault(key, MemberClass(key)).members.append(pod)
        if number % MEMBERS_PER_STEP == MEMBERS_PER_STEP - 1:
            yield
    return list(found.values())


def open_rows(filtering: Filtering, n_nodes: int) -> Mask:
    """The nodes that may take the pod now or after more pods were placed, `(n_nodes,) bool`; all nodes that ever can are among them."""
    mask = np.ones(n_nodes, np.bool_)
    if filtering.refusal is not None:
        return mask
    if filtering.node_set is not None:
        mask &= filtering.node_set.mask
    for slot in filtering.slots:
        if not slot.skipped and (slot.volatility is Volatility.STATIC or slot.plugin.name in WORSENING):
            mask &= slot.bits == 0
    return mask


def room(decider: Decider, snapshot: Snapshot, pod: PodView) -> NDArray[np.int64]:
    """The most pods of a template that each node may take at once, `(n_nodes,)`: never too few."""
    return room_by(decider.filtering(snapshot, pod), snapshot, pod)


def room_by(filtering: Filtering, snapshot: Snapshot, pod: PodView) -> NDArray[np.int64]:
    """The most pods like this one that each node may take at once, as in `room`, by the results of its filters."""
    mask = open_rows(filtering, snapshot.n_nodes)
    found = np.where(mask, UNLIMITED, 0)
    for slot in filtering.slots:
        if filtering.refusal is None and not slot.skipped and isinstance(slot.answer, Fit):
            found = np.where(mask, np.minimum(found, slot.answer.room(snapshot, slice(None))), 0)
    if pod.host_ports:
        found = np.minimum(found, 1)
    return found


class Sums:
    """The sum of the requests of all classes, and the free amounts. A class without the filter for resources requests nothing."""

    def __init__(self, n_nodes: int) -> None:
        self._open_to_any = np.zeros(n_nodes, np.bool_)
        self._needs: list[tuple[int, Mapping[str, int]]] = []

    def add(self, each: MemberClass, filtering: Filtering) -> None:
        """Count a class by what the filters say about its member."""
        self._open_to_any |= open_rows(filtering, len(self._open_to_any))
        checked = filtering.slots if filtering.refusal is None else ()
        found = [slot.answer.needs for slot in checked if not slot.skipped and isinstance(slot.answer, Fit)]
        self._needs.append((len(each.members), found[0] if found else {}))

    def enough(self, snapshot: Snapshot) -> Callable[[NDArray[np.intp]], int]:
        """Return a function of rows: the most members of all classes that fit by the sums of free amounts, smallest requests first.

        Never too few.
        """
        steps: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []  # free amounts by node, and the running sums of ascending needs
        for name in sorted({name for _, need in self._needs for name in need}):
            place = snapshot.resource_index(name)
            amounts = np.sort(np.concatenate([np.full(number, need.get(name, 0), np.float64) for number, need in self._needs]))
            free = np.zeros(snapshot.n_nodes, np.int64) if place is None else snapshot.allocatable[place] - snapshot.requested[place]
            steps.append((np.where(self._open_to_any, np.maximum(free, 0), 0), np.cumsum(amounts) * ROUNDED))
        everyone = sum(number for number, _ in self._needs)

        def most(rows: NDArray[np.intp]) -> int:
            found = (int(np.searchsorted(sums, float(free[rows].sum()), side="right")) for free, sums in steps)
            return min(found, default=everyone)

        return most


KNOWN = frozenset({"NodeResourcesFit", "NodePorts", "InterPodAffinity", "PodTopologySpread"})


class Requirements(Struct):
    """One class: its member's needs by resource (None: not known), the nodes open to it `(n_nodes,)`, and its terms.

    `complete` is False if a filter may forbid more than is read.
    """

    needs: Mapping[str, int] | None = None
    open_rows: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    terms: Terms = affinity_terms.NO_TERMS
    affinity_filter: PreparedAffinityFilter | None = None
    spread: HardSpread | None = None
    ports: bool = False
    affinity: bool = False
    complete: bool = True

    @property
    def has_rules(self) -> bool:
        """True if the class wishes to be near or apart from others, or evenly spread."""
        return self.terms != affinity_terms.NO_TERMS or self.spread is not None


def requirements_in_steps(
    decider: Decider, snapshot: Snapshot, classes: Sequence[MemberClass]
) -> Generator[None, None, list[Requirements]]:
    """A generator of steps that returns the requirements of some classes; the state must not change between two steps."""
    found = []
    for each in classes:
        found.append(requirements_of(decider, snapshot, each))
        yield
    return found


def requirements_of(decider: Decider, snapshot: Snapshot, each: MemberClass) -> Requirements:
    """The requirements of a class on a snapshot."""
    filtering = decider.filtering(snapshot, each.pod)
    requirements = Requirements(open_rows=open_rows(filtering, snapshot.n_nodes))
    if filtering.refusal is not None:
        requirements.complete = False
        return requirements
    for slot in filtering.slots:
        _add_filter(slot, requirements, each, snapshot)
    if filtering.reasons_with_nominated:
        requirements.complete = False
    return requirements


def _add_filter(slot: FilterSlot, requirements: Requirements, each: MemberClass, snapshot: Snapshot) -> None:
    name = slot.plugin.name
    if name == "NodePorts":
        requirements.ports = True
    elif name == "InterPodAffinity":
        try:
            requirements.terms = affinity_terms.terms_of(each.pod).resolved(snapshot.objects)
        except InvalidObject:
            requirements.complete = False
        requirements.affinity = True
    if slot.skipped:
        return
    answer = slot.answer
    if isinstance(answer, Fit):
        requirements.needs = answer.needs
    elif isinstance(answer, PreparedAffinityFilter):
        requirements.affinity_filter = answer
        requirements.open_rows &= ~answer.repelled(snapshot)
    elif isinstance(answer, HardSpread):
        requirements.spread = answer
    elif slot.volatility is not Volatility.STATIC and name not in KNOWN:
        requirements.complete = False


def least_of(left: Requirements, right: Requirements) -> Requirements:
    """The requirements that members of both classes have; pods that both must be near are kept."""
    needs = None
    if left.needs is not None and right.needs is not None:
        needs = {name: min(left.needs.get(name, 0), right.needs.get(name, 0)) for name in left.needs.keys() & right.needs.keys()}
    found = Requirements(needs=needs, open_rows=left.open_rows | right.open_rows, complete=False)
    if left.terms.required and left.terms.required == right.terms.required:
        found.terms, found.affinity_filter = Terms(required=left.terms.required), left.affinity_filter
    return found


def most_of(left: Requirements, right: Requirements) -> Requirements:
    """Requirements that are enough for a member of either class."""
    needs = None
    if left.needs is not None and right.needs is not None:
        needs = {name: max(left.needs.get(name, 0), right.needs.get(name, 0)) for name in left.needs.keys() | right.needs.keys()}
    return Requirements(needs=needs, open_rows=left.open_rows & right.open_rows, complete=False)


MAX_MERGED = 1 << 15
CLASSES_PER_STEP = 10
"""Classes that are compared with all others, or merged, in one step."""


class Merging(Enum):
    """The classes that form one axis of a model.

    With LEAST, a merged class needs the least that any of them needs and has no wishes: if there is no solution, the group has no place.
    With MOST it needs the most, and only classes without rules between members are merged: a solution is a place for the group.
    """

    EQUALS = "equals"
    LEAST = "least"
    MOST = "most"


class ClassAxis(Struct):
    """One class, or several merged classes with interchangeable members.

    `free`: its members have no rules about members, and no rules of members are about them.
    """

    classes: list[MemberClass]
    requirements: Requirements
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
    classes: Sequence[MemberClass], requirements: Sequence[Requirements], merging: Merging, by: str | None = None, limit: int = MAX_MERGED
) -> Generator[None, None, list[ClassAxis]]:
    """A generator of steps that returns the axes of some classes, made from their `requirements`.

    `by` is the resource by which they are alike, None for all; merging ends once the space has no more than `limit` vectors.
    """
    axes = [ClassAxis([member_class], of_class) for member_class, of_class in zip(classes, requirements, strict=True)]
    ruled = {_rules_of(axis): axis for axis in axes if axis.requirements.has_rules}.values()
    for number, axis in enumerate(axes):
        axis.free = not axis.requirements.has_rules and not axis.pod.host_ports and not _is_matched(axis.pod, ruled)
        if number % CLASSES_PER_STEP == CLASSES_PER_STEP - 1:
            yield
    axes = _with_equals_merged(axes)
    if merging is not Merging.EQUALS:
        yield from _merge(axes, merging, by, limit)
    return axes


def _rules_of(axis: ClassAxis) -> Hashable:
    """Equal for axes whose rules are about the same members."""
    requirements = axis.requirements
    return requirements.terms, None if requirements.spread is None else requirements.spread.constraints, axis.pod.namespace


def _is_matched(pod: PodView, axes: Iterable[ClassAxis]) -> bool:
    """True if terms or constraints of some class are about a member."""
    for axis in axes:
        requirements = axis.requirements
        terms = (*requirements.terms.required, *requirements.terms.required_anti)
        constraints = () if requirements.spread is None else requirements.spread.constraints
        if any(term.matches(pod, {}) for term in terms) or any(each.counts(pod, axis.pod.namespace) for each in constraints):
            return True
    return False


def _with_equals_merged(axes: Sequence[ClassAxis]) -> list[ClassAxis]:
    """The axes, with classes of interchangeable members merged."""
    merged: dict[Hashable, ClassAxis] = {}
    for axis in axes:
        needs = None if axis.requirements.needs is None else tuple(sorted(axis.requirements.needs.items()))
        key: Hashable = (needs, axis.requirements.open_rows.tobytes()) if axis.free else id(axis)
        if key in merged:
            merged[key].classes += axis.classes
        else:
            merged[key] = axis
    return list(merged.values())


def _merge(axes: list[ClassAxis], merging: Merging, by: str | None, limit: int) -> Generator[None, None, None]:
    """A generator of steps that merges neighbours in the order of needs, the most alike first, until the space is small enough."""
    least = merging is Merging.LEAST
    axes.sort(key=lambda axis: (not axis.free, axis.requirements.has_rules, _weight(axis.requirements, by)))

    def loss(number: int) -> float:
        """The loss of precision if an axis is merged with the next one."""
        return _loss(axes[number], axes[number + 1], by) if least or axes[number + 1].free else math.inf

    losses = [loss(number) for number in range(len(axes) - 1)]
    size = _size(axes)
    while size > limit and losses:
        if len(losses) % CLASSES_PER_STEP == 0:
            yield
        lowest = min(losses)
        if lowest == math.inf:
            return
        first = losses.index(lowest)
        left, right = axes[first], axes.pop(first + 1)
        requirements = (least_of if least else most_of)(left.requirements, right.requirements)
        axes[first] = ClassAxis(left.classes + right.classes, requirements, left.free and right.free)
        del losses[first]
        for number in (first - 1, first):
            if 0 <= number < len(losses):
                losses[number] = loss(number)
        if left.requirements.terms.required or right.requirements.terms.required:
            size = _size(axes)
        else:
            size = size // ((left.number + 1) * (right.number + 1)) * (left.number + right.number + 1)


def _size(axes: Sequence[ClassAxis]) -> int:
    """The vectors of the space of some axes, with an axis for each of their wishes."""
    affinities = {axis.requirements.terms.required for axis in axes if axis.requirements.terms.required}
    return Space.size([axis.number for axis in axes]) << len(affinities)


def _weight(requirements: Requirements, by: str | None) -> float:
    """A number for how much a member needs, to sort by; 0 if that is not known."""
    return sum(math.log1p(amount) for name, amount in (requirements.needs or {}).items() if by in {None, name})


def _loss(left: ClassAxis, right: ClassAxis, by: str | None) -> float:
    """A number for how much is lost if two classes are merged."""
    mine, other = left.requirements.needs or {}, right.requirements.needs or {}
    lost = 0.0
    for name in mine.keys() | other.keys() if by is None else {by}:
        low, high = sorted((mine.get(name, 0), other.get(name, 0)))
        lost += (high - low) / high * (left.number if mine.get(name, 0) == high else right.number) if high else 0.0
    if left.requirements.terms.required == right.requirements.terms.required and not _has_more_rules(left) and not _has_more_rules(right):
        return lost
    return lost + sum(axis.number for axis in (left, right) if axis.requirements.has_rules)


def _has_more_rules(axis: ClassAxis) -> bool:
    """True if members have rules that a merged axis does not keep."""
    return bool(axis.requirements.terms.required_anti) or axis.requirements.spread is not None
