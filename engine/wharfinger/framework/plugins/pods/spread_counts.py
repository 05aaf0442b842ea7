"""Topology spread constraints of a pod, parsed or defaulted, with their eligible nodes and counts; kept for one pod template.

A pod without constraints gets the default constraints of the profile, over the pods selected by its Services and its controller. Rules of
`pkg/scheduler/framework/plugins/podtopologyspread/common.go` and `plugins/helper/spread.go`, Kubernetes 1.36.

`HardSpread` and `SoftSpread` are created again when node objects, Services or controllers change, and follow the counts otherwise.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.builtins import numbers
from wharfinger.errors import InvalidObject
from wharfinger.framework.domains import DomainAnswers, renew_all
from wharfinger.framework.prepared import (
    ALL,
    OUTDATED,
    Affected,
    Changes,
    Mask,
    ObjectRevision,
    PreparedFilter,
    PreparedScore,
    Reason,
    Rows,
)
from wharfinger.model import objects
from wharfinger.model.node_labels import HOSTNAME, ZONE
from wharfinger.model.objects import matching
from wharfinger.model.state import node_selection

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model.columns.domains import DomainCounts
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"

SYSTEM_DEFAULTS = (
    objects.TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    objects.TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)
OWNERS = (objects.Service, objects.ReplicationController, objects.ReplicaSet, objects.StatefulSet)
"""The kinds of objects that the selector of default constraints is made from."""
REASONS = (
    Reason("node(s) didn't match pod topology spread constraints"),
    Reason("node(s) didn't match pod topology spread constraints (missing required label)", resolvable=False),
)
SKEWED, KEYLESS = 1, 2  # the bits of the reasons
IGNORED = -1  # the raw score of a node that lacks a key
MAX_CONSTRAINTS = 100  # of a pod: pods are counted for each of them
MAX_INT32 = 2**31 - 1


class Constraint(Struct, frozen=True, kw_only=True):
    """One constraint of a pod."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: matching.Selector
    honor_affinity: bool
    honor_taints: bool
    counts_itself: bool  # True if the selector matches the pod itself

    def selection(self, snapshot: Snapshot, namespace: str) -> Selection:
        """The placed pods that count: of the pod's namespace, selected, and not terminating."""
        return snapshot.selection(("PodTopologySpread", namespace, self.selector), lambda placed: self.counts(placed, namespace))

    def counts(self, placed: PodView, namespace: str) -> bool:
        """True if a placed pod counts for pods of a namespace."""
        return placed.namespace == namespace and not placed.terminating and self.selector.matches(placed.labels)


class Eligible(Struct, frozen=True):
    """The nodes whose pods count for a constraint, `(n_nodes,) bool`, None for all nodes with its topology key.

    `key` is a digest of the mask.
    """

    mask: Mask | None
    key: bytes | None


def parse(constraints: Sequence[objects.TopologySpreadConstraint], pod: PodView, when_unsatisfiable: str) -> tuple[Constraint, ...]:
    """The constraints with this `whenUnsatisfiable`; InvalidObject if a selector is malformed, or for more than `MAX_CONSTRAINTS`."""
    if len(constraints) > MAX_CONSTRAINTS:
        raise InvalidObject(f"there are {len(constraints):,}; at most {MAX_CONSTRAINTS} are supported")
    return tuple(_parsed(constraint, pod) for constraint in constraints if constraint.when_unsatisfiable == when_unsatisfiable)


def parse_default(
    constraints: Sequence[objects.TopologySpreadConstraint], pod: PodView, snapshot: Snapshot, when_unsatisfiable: str
) -> tuple[Constraint, ...]:
    """The default constraints with this `whenUnsatisfiable`; none for a pod without Services and controller."""
    wanted = [constraint for constraint in constraints if constraint.when_unsatisfiable == when_unsatisfiable]
    if not wanted:
        return ()
    selector = default_selector(pod, snapshot)
    return () if selector == matching.EVERYTHING else tuple(_with_selector(constraint, pod, selector) for constraint in wanted)


def default_selector(pod: PodView, snapshot: Snapshot) -> matching.Selector:
    """The combined selector of the Services that select the pod and of its controller; `EVERYTHING` if there are none."""
    store, namespace = snapshot.objects, pod.namespace
    labels: dict[str, str] = {}
    for service in store.group(objects.Service, _namespace_of, namespace):
        if matching.of_labels(service.spec.selector).matches(pod.labels):
            labels |= service.spec.selector
    owner = pod.controller
    selector = matching.of_labels(labels)
    if owner is None:
        return selector
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = store.get(objects.ReplicationController, owner.name, namespace)
        return selector if controller is None else matching.of_labels(labels | controller.spec.selector)
    found: objects.ReplicaSet | objects.StatefulSet | None = None
    if (owner.api_version, owner.kind) == ("apps/v1", "ReplicaSet"):
        found = store.get(objects.ReplicaSet, owner.name, namespace)
    elif (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet"):
        found = store.get(objects.StatefulSet, owner.name, namespace)
    return selector if found is None else _and_selector(selector, found.spec.selector)


def eligible(constraints: Sequence[Constraint], pod: PodView, snapshot: Snapshot, *, all_keys: bool) -> tuple[Eligible, ...]:
    """The nodes whose pods count, for each constraint. `all_keys` leaves out nodes that lack the key of any constraint."""
    present = [snapshot.domain(constraint.topology_key)[0] >= 0 for constraint in constraints]
    common = np.logical_and.reduce(present) if all_keys else None
    affinity = _affinity_mask(pod, snapshot) if any(constraint.honor_affinity for constraint in constraints) else None
    taints = _taint_mask(pod, snapshot) if any(constraint.honor_taints for constraint in constraints) else None
    found = []
    for constraint, has_key in zip(constraints, present, strict=True):
        mask = has_key if common is None else common
        if constraint.honor_affinity and affinity is not None:
            mask = mask & affinity
        if constraint.honor_taints and taints is not None:
            mask = mask & taints
        found.append(Eligible(None, None) if np.array_equal(mask, has_key) else Eligible(mask, _digest(mask)))
    return tuple(found)


def _parsed(constraint: objects.TopologySpreadConstraint, pod: PodView) -> Constraint:
    selector = matching.label_selector(constraint.label_selector)
    labels = {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels}
    if labels:  # a constraint without selector then selects by these labels alone
        selector = (matching.EVERYTHING if selector.nothing else selector).and_labels(labels)
    return _with_selector(constraint, pod, selector)


def _with_selector(constraint: objects.TopologySpreadConstraint, pod: PodView, selector: matching.Selector) -> Constraint:
    return Constraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        selector=selector,
        honor_affinity=constraint.node_affinity_policy in {None, HONOR},
        honor_taints=constraint.node_taints_policy == HONOR,
        counts_itself=selector.matches(pod.labels),
    )


def _namespace_of(service: objects.Service) -> str:
    return service.metadata.namespace or "default"


def _and_selector(selector: matching.Selector, other: objects.LabelSelector | None) -> matching.Selector:
    try:
        more = matching.label_selector(other).requirements
    except InvalidObject:  # a controller with a selector that cannot be read is left out
        return selector
    return matching.Selector(tuple(sorted({*selector.requirements, *more})))


def _affinity_mask(pod: PodView, snapshot: Snapshot) -> Mask | None:
    needed = node_selection.required(pod.object)
    return None if needed is None else needed.matches(snapshot, ALL)


def _taint_mask(pod: PodView, snapshot: Snapshot) -> Mask:
    distinct, places = np.unique(snapshot.taint_set, return_inverse=True)
    accepted = [not pod.tolerations.untolerated(snapshot.taints(number)) for number in distinct.tolist()]
    mask: Mask = np.array(accepted, np.bool_)[places]
    return mask


def _digest(mask: Mask) -> bytes:
    return hashlib.blake2b(mask.tobytes(), digest_size=16).digest()


class Spread(ABC):
    """Constraints of one kind with their eligible nodes, and the answers by the counts of each."""

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot, *, all_keys: bool) -> None:
        self.constraints = constraints
        self.domains: tuple[str, ...] | None = tuple(sorted({constraint.topology_key for constraint in constraints}))
        self.pod = pod
        self.eligible = eligible(constraints, pod, snapshot, all_keys=all_keys)
        self._owners = ObjectRevision(snapshot, *OWNERS)
        self.answers = tuple(self._answers_for(*each, snapshot) for each in zip(constraints, self.eligible, strict=True))

    def advance(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """Follow the counts; returns the rows whose answer changed, `OUTDATED` if a node, Service or controller changed."""
        if len(changes.node_rows) or not self._owners.unchanged(snapshot):
            return OUTDATED
        return renew_all(self.answers, snapshot.n_nodes)

    @abstractmethod
    def _answers_for(self, constraint: Constraint, among: Eligible, snapshot: Snapshot) -> DomainAnswers:
        """The answer of one constraint per domain."""


class HardSpread(Spread, PreparedFilter):
    """DoNotSchedule: per domain, True if one more pod would exceed `maxSkew`. The first constraint that fails on a node sets its bit."""

    reasons = REASONS

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot) -> None:
        super().__init__(constraints, pod, snapshot, all_keys=True)

    def _answers_for(self, constraint: Constraint, among: Eligible, snapshot: Snapshot) -> DomainAnswers:
        selection = constraint.selection(snapshot, self.pod.namespace)
        return DomainAnswers(selection, snapshot.topology(constraint.topology_key), partial(_full, constraint, among))

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdict bits of some rows, `(n_rows,) uint8`, each by the first constraint that fails."""
        bits: Any = 0
        for constraint, found in zip(reversed(self.constraints), reversed(self.answers), strict=True):
            ids = snapshot.domain(constraint.topology_key)[0][rows]
            bits = np.where(ids < 0, KEYLESS, np.where(found.at(rows), SKEWED, bits))
        return np.asarray(bits, np.uint8)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """The rows of the domains that became full or are full no longer."""
        return self.advance(snapshot, changes)

    def total(self, snapshot: Snapshot, rows: NDArray[np.intp], room: NDArray[np.int64]) -> int | None:
        """The number of pods of the template that fit one after another if the other filters leave this `room` on these rows, `(n_rows,)`.

        A domain with the lowest count takes pods until its nodes are full. So in the end, the lowest count is the lowest one that a domain
        has when it is full, and the other domains have at most `maxSkew` more. The order of the pods does not change that. None if it may:
        with several constraints, or if pods on some of these nodes do not count.
        """
        if not any(constraint.counts(self.pod, self.pod.namespace) for constraint in self.constraints):
            return int(room[self.bits(snapshot, rows) == 0].sum())
        (constraint, *others), among = self.constraints, self.eligible[0]
        ids = snapshot.domain(constraint.topology_key)[0][rows]
        keyed = ids >= 0
        if others or not (among.mask is None or among.mask[rows[keyed]].all()):
            return None
        counts = _domains(constraint, among, self.answers[0].selection)
        full = np.bincount(ids[keyed], room[keyed], len(counts.counts))
        most = _least(constraint, counts, counts.counts + full) + constraint.max_skew - counts.counts
        return int(np.minimum(full, np.maximum(most, 0)).sum())

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reason against the supposed node, by the first constraint that fails; empty if it passes."""
        return next(((REASONS[bit - 1],) for bit in self._failures(supposed)), ())

    def _failures(self, supposed: Supposition) -> Iterator[int]:
        """The bit of the reason for each constraint, in order, that fails on a supposed node."""
        for constraint, among, found in zip(self.constraints, self.eligible, self.answers, strict=True):
            domain = found.domain_of(supposed.row)
            if domain < 0:
                yield KEYLESS
                continue
            looked_at = among.mask is None or among.mask[supposed.row]
            more = supposed.difference(partial(_counts, constraint, self.pod.namespace)) if looked_at else 0
            counts = _domains(constraint, among, found.selection)
            then = None
            if more:
                then = counts.counts.copy()
                then[domain] += more
            if counts.counts[domain] + more + constraint.counts_itself - _least(constraint, counts, then) > constraint.max_skew:
                yield SKEWED


class SoftSpread(Spread, PreparedScore):
    """ScheduleAnyway: the counts per domain, or per node for the host name, and the weight of each topology."""

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot, feasible: Mask, *, required: bool) -> None:
        super().__init__(constraints, pod, snapshot, all_keys=required)
        self._required = required  # True if a node that lacks a key is not scored
        self._weigh(snapshot, feasible)

    def _answers_for(self, constraint: Constraint, among: Eligible, snapshot: Snapshot) -> DomainAnswers:
        selection = constraint.selection(snapshot, self.pod.namespace)
        if constraint.topology_key == HOSTNAME:
            return DomainAnswers(selection, None, lambda counted: counted.by_node.copy())
        return DomainAnswers(selection, snapshot.topology(constraint.topology_key), partial(_with_none, constraint, among))

    def affected(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flipped: NDArray[np.intp]) -> Affected:
        """The rows whose count changed; all rows if the feasible set changed, because the weights of topologies depend on it."""
        rows = self.advance(snapshot, changes)
        if rows is OUTDATED or not len(flipped):
            return rows
        self._weigh(snapshot, feasible)
        return ALL

    def _weigh(self, snapshot: Snapshot, feasible: Mask) -> None:
        """Set the weights, which grow with the number of domains among the feasible nodes (`topologyNormalizingWeight`)."""
        domains = [snapshot.domain(constraint.topology_key)[0] for constraint in self.constraints]
        scored = feasible & np.logical_and.reduce([ids >= 0 for ids in domains]) if self._required else feasible
        n_scored = int(np.count_nonzero(scored))
        self._weights = tuple(
            numbers.log((n_scored if constraint.topology_key == HOSTNAME else _distinct(ids[scored])) + 2)
            for constraint, ids in zip(self.constraints, domains, strict=True)
        )

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores of some rows, `(n_rows,) int64`: the weighted number of matching pods in the node's domains, rounded."""
        total: Any = 0.0
        missing: Any = False
        for constraint, found, weight in zip(self.constraints, self.answers, self._weights, strict=True):
            absent = snapshot.domain(constraint.topology_key)[0][rows] < 0
            total = total + np.where(absent, 0.0, found.at(rows) * weight + float(constraint.max_skew - 1))
            missing = missing | absent
        raw = np.floor(total + 0.5).astype(np.int64)
        return np.where(missing, IGNORED, raw) if self._required else raw


def _domains(constraint: Constraint, among: Eligible, selection: Selection) -> DomainCounts:
    return selection.domains(constraint.topology_key, mask_key=among.key, mask=among.mask)


def _with_none(constraint: Constraint, among: Eligible, selection: Selection) -> NDArray[np.float64]:
    return np.append(_domains(constraint, among, selection).counts, 0.0)


def _full(constraint: Constraint, among: Eligible, selection: Selection) -> Mask:
    counts = _domains(constraint, among, selection)
    full = counts.counts + constraint.counts_itself - _least(constraint, counts) > constraint.max_skew
    return np.append(full, False)


def _least(constraint: Constraint, counts: DomainCounts, supposed: NDArray[np.float64] | None = None) -> float:
    """The lowest count of an eligible domain, or of these `supposed` counts; 0 while there are fewer domains than `minDomains`."""
    n_domains = len(counts.counts) if counts.mask is None else int(np.count_nonzero(counts.nodes))
    if n_domains < constraint.min_domains:
        return 0
    if supposed is not None:
        return float((supposed if counts.mask is None else supposed[counts.nodes > 0]).min(initial=MAX_INT32))
    lowest = counts.lowest()
    return MAX_INT32 if lowest is None else lowest


def _counts(constraint: Constraint, namespace: str, placed: PodView) -> bool:
    """True if a supposed pod counts; a terminating pod counts too, as in Kubernetes' `updateWithPod`."""
    return placed.namespace == namespace and constraint.selector.matches(placed.labels)


def _distinct(ids: NDArray[np.int32]) -> int:
    """The number of distinct domains in `ids`; -1 (no domain) counts as one."""
    return int(np.count_nonzero(np.bincount(ids + 1)))
