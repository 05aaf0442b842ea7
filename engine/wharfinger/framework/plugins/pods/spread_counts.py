"""Topology spread constraints with the counts they stand on, as kept for one pod template.

Both kinds are rebuilt when node objects (or Services and controllers, for default constraints) change, and follow the counts otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins import elementary
from wharfinger.framework.plugins.pods import domain_watch
from wharfinger.framework.plugins.pods import spread_constraints as spread
from wharfinger.framework.plugins.pods.domain_watch import DomainWatch
from wharfinger.framework.plugins.pods.spread_constraints import Constraint, Eligible
from wharfinger.framework.verdict import Mask, Rows

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.supposition import Supposition
    from wharfinger.model.columns.domains import DomainCounts
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

SKEWED, KEYLESS = 1, 2  # the bits of the reasons
IGNORED = -1  # the raw score of a node that lacks a key
MAX_INT32 = 2**31 - 1


class Spread:
    """Constraints of one kind with the nodes they look at, and a watch on the counts of each."""

    __slots__ = ("_objects_seen", "_seen", "constraints", "eligible", "pod", "watches")

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot, *, all_keys: bool) -> None:
        self.constraints = constraints
        self.pod = pod
        self.eligible = spread.eligible(constraints, pod, snapshot, all_keys=all_keys)
        self._seen = snapshot.revision
        self._objects_seen = snapshot.objects.revision_of(*spread.OWNERS)
        self.watches = tuple(self._watch(*each, snapshot) for each in zip(constraints, self.eligible, strict=True))

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether nodes and owners are still what they were."""
        if snapshot.revision == self._seen:
            return True
        changed = snapshot.node_changes(self._seen)
        if changed is None or len(changed) or snapshot.objects.revision_of(*spread.OWNERS) != self._objects_seen:
            return False
        self._seen = snapshot.revision
        return True

    def advance(self, snapshot: Snapshot) -> Rows | None:
        """Follow the counts; the rows with another answer, None for no rows."""
        return domain_watch.renew(self.watches, snapshot.n_nodes)

    def _watch(self, constraint: Constraint, among: Eligible, snapshot: Snapshot) -> DomainWatch:
        raise NotImplementedError


class HardSpread(Spread):
    """DoNotSchedule: per domain, whether one more pod would be too many."""

    __slots__ = ()

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot) -> None:
        super().__init__(constraints, pod, snapshot, all_keys=True)

    def _watch(self, constraint: Constraint, among: Eligible, snapshot: Snapshot) -> DomainWatch:
        selection = constraint.selection(snapshot, self.pod.namespace)
        return DomainWatch(selection, snapshot.topology(constraint.topology_key), partial(_full, constraint, among))

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts of some rows, each by the first constraint that fails."""
        bits: Any = 0
        for constraint, watch in zip(reversed(self.constraints), reversed(self.watches), strict=True):
            ids = snapshot.domain(constraint.topology_key)[0][rows]
            bits = np.where(ids < 0, KEYLESS, np.where(watch.at(rows), SKEWED, bits))
        return np.asarray(bits, np.uint8)

    def failures(self, supposed: Supposition) -> Iterator[int]:
        """The bits of the reasons why constraints, in order, fail on a supposed node."""
        for constraint, among, watch in zip(self.constraints, self.eligible, self.watches, strict=True):
            domain = watch.domain_of(supposed.row)
            if domain < 0:
                yield KEYLESS
                continue
            looked_at = among.mask is None or among.mask[supposed.row]
            more = supposed.difference(partial(_counts, constraint, self.pod.namespace)) if looked_at else 0
            counts = _domains(constraint, among, watch.selection)
            if counts.counts[domain] + more + constraint.counts_itself - _least(constraint, counts, domain, more) > constraint.max_skew:
                yield SKEWED


class SoftSpread(Spread):
    """ScheduleAnyway: the counts per domain, or per node for the host name, and the weight of each topology."""

    __slots__ = ("_required", "_weights")

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot, *, required: bool) -> None:
        super().__init__(constraints, pod, snapshot, all_keys=required)
        self._required = required  # whether a node that lacks a key is left out altogether
        self._weights: tuple[float, ...] = ()

    def _watch(self, constraint: Constraint, among: Eligible, snapshot: Snapshot) -> DomainWatch:
        selection = constraint.selection(snapshot, self.pod.namespace)
        if constraint.topology_key == spread.HOSTNAME:
            return DomainWatch(selection, None, lambda counted: counted.by_node.copy())
        return DomainWatch(selection, snapshot.topology(constraint.topology_key), partial(_with_none, constraint, among))

    def weigh(self, snapshot: Snapshot, feasible: Mask) -> None:
        """Set the weights, which grow with the number of domains among the feasible nodes (`topologyNormalizingWeight`)."""
        domains = [snapshot.domain(constraint.topology_key)[0] for constraint in self.constraints]
        scored = feasible & np.logical_and.reduce([ids >= 0 for ids in domains]) if self._required else feasible
        n_scored = int(np.count_nonzero(scored))
        self._weights = tuple(
            elementary.log((n_scored if constraint.topology_key == spread.HOSTNAME else _distinct(ids[scored])) + 2)
            for constraint, ids in zip(self.constraints, domains, strict=True)
        )

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores of some rows: the weighted number of similar pods around each, rounded."""
        total: Any = 0.0
        missing: Any = False
        for constraint, watch, weight in zip(self.constraints, self.watches, self._weights, strict=True):
            absent = snapshot.domain(constraint.topology_key)[0][rows] < 0
            total = total + np.where(absent, 0.0, watch.at(rows) * weight + float(constraint.max_skew - 1))
            missing = missing | absent
        raw = np.floor(total + 0.5).astype(np.int64)
        return np.where(missing, IGNORED, raw) if self._required else raw


def _domains(constraint: Constraint, among: Eligible, selection: Selection) -> DomainCounts:
    return selection.domains(constraint.topology_key, mask_key=among.key, mask=among.mask)


def _with_none(constraint: Constraint, among: Eligible, selection: Selection) -> NDArray[np.float64]:
    return np.append(_domains(constraint, among, selection).counts, 0.0)


def _full(constraint: Constraint, among: Eligible, selection: Selection) -> Mask:
    counts = _domains(constraint, among, selection)
    full = counts.counts + constraint.counts_itself - _least(constraint, counts, 0, 0) > constraint.max_skew
    return np.append(full, False)


def _least(constraint: Constraint, counts: DomainCounts, domain: int, more: int) -> float:
    """The count of the emptiest domain that counts, if one had `more`; 0 while there are fewer domains than `minDomains`."""
    n_domains = len(counts.counts) if counts.mask is None else int(np.count_nonzero(counts.nodes))
    if n_domains < constraint.min_domains:
        return 0
    if more:
        supposed = counts.counts.copy()
        supposed[domain] += more
        return float((supposed if counts.mask is None else supposed[counts.nodes > 0]).min(initial=MAX_INT32))
    lowest = counts.lowest()
    return MAX_INT32 if lowest is None else lowest


def _counts(constraint: Constraint, namespace: str, placed: PodView) -> bool:
    """Whether a pod that comes or goes counts; Kubernetes does not ask here whether it is on its way out already (`updateWithPod`)."""
    return placed.namespace == namespace and constraint.selector.matches(placed.labels)


def _distinct(ids: NDArray[np.int32]) -> int:
    """How many different domains occur; no domain at all counts as one."""
    return int(np.count_nonzero(np.bincount(ids + 1)))
