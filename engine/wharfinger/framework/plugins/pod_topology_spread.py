"""PodTopologySpread: keep the number of similar pods per zone, rack or node even.

Counts per topology domain are kept up to date by the cluster's state; a decision reads them. What is kept here per pod template is the
answer per domain, so that after a placement only the nodes of domains with another answer are looked at again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator, model_validator

from wharfinger.errors import InvalidObject
from wharfinger.framework import spread_constraints as spread
from wharfinger.framework.arguments import Arguments
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.row_sets import union_of
from wharfinger.framework.spread_constraints import Constraint
from wharfinger.framework.verdict import SKIP, Mask, PreFilterAnswer, PreScoreAnswer, Reason, Rejected, Rows, Verdicts
from wharfinger.language.catalogue import Volatility
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.framework.supposition import Supposition
    from wharfinger.model.domain_counts import DomainCounts
    from wharfinger.model.pod import PodView
    from wharfinger.model.snapshot import Snapshot

REASONS = (
    Reason("node(s) didn't match pod topology spread constraints"),
    Reason("node(s) didn't match pod topology spread constraints (missing required label)", resolvable=False),
)
SKEWED, KEYLESS = 1, 2  # the bits of the reasons
ALL = slice(None)
IGNORED = -1  # the raw score of a node that lacks a key
MAX_INT32 = 2**31 - 1


class PodTopologySpreadArguments(Arguments):
    """PodTopologySpreadArgs: which constraints a pod without its own gets."""

    default_constraints: tuple[dict[str, Any], ...] = ()
    defaulting_type: Literal["System", "List"] = "System"

    @field_validator("default_constraints")
    @classmethod
    def _readable(cls, value: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        if any("labelSelector" in constraint for constraint in value):
            raise ValueError("default constraints must not have a labelSelector: it is made from Services and controllers")
        msgspec.convert(value, tuple[objects.TopologySpreadConstraint, ...])
        return value

    @model_validator(mode="after")
    def _consistent(self) -> PodTopologySpreadArguments:
        if self.default_constraints and self.defaulting_type == "System":
            raise ValueError("defaultConstraints need defaultingType List")
        return self


@dataclass(frozen=True, slots=True)
class SpreadNormalize:
    """`NormalizeScore` of the plugin: the node with the fewest gets 100; nodes that lack a key get 0."""

    least: float = 0

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """`100·(high + low − raw)/high` in integers, all 100 where the highest is 0."""
        raw = scores.astype(np.int64)
        top = int(high)
        spread_points = np.full(len(raw), 100, np.int64) if top == 0 else 100 * (top + int(low) - raw) // top
        return np.where(raw < 0, 0, spread_points)


class Spread:
    """The constraints of one template with the counts they stand on; rebuilt when node objects change, brought up to date otherwise."""

    __slots__ = ("constraints", "eligible", "objects_seen", "seen")

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot, *, all_keys: bool) -> None:
        self.constraints = constraints
        self.eligible = spread.eligible(constraints, pod, snapshot, all_keys=all_keys)
        self.seen = snapshot.revision
        self.objects_seen = snapshot.objects.revision_of(*spread.OWNERS)

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether nodes and owners are still what they were."""
        if snapshot.revision == self.seen:
            return True
        changed = snapshot.node_changes(self.seen)
        if changed is None or len(changed) or snapshot.objects.revision_of(*spread.OWNERS) != self.objects_seen:
            return False
        self.seen = snapshot.revision
        return True

    def counts(self, index: int, pod: PodView, snapshot: Snapshot) -> DomainCounts:
        """The counts per domain for one constraint."""
        constraint, among = self.constraints[index], self.eligible[index]
        return constraint.selection(snapshot, pod.namespace).domains(constraint.topology_key, mask_key=among.key, mask=among.mask)


class HardSpread(Spread):
    """DoNotSchedule: per constraint, `(n_domains,) bool`, whether one more pod in the domain would be too many."""

    __slots__ = ("full",)

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot) -> None:
        super().__init__(constraints, pod, snapshot, all_keys=True)
        self.full = [self._full(index, pod, snapshot) for index in range(len(constraints))]

    def advance(self, pod: PodView, snapshot: Snapshot) -> Rows | None:
        """Follow the counts; the rows whose domain has another answer now."""
        rows: list[NDArray[np.intp]] = []
        for index, constraint in enumerate(self.constraints):
            full = self._full(index, pod, snapshot)
            if np.array_equal(full, self.full[index]):
                continue
            topology = snapshot.topology(constraint.topology_key)
            rows += [topology.rows_of(domain) for domain in np.flatnonzero(full != self.full[index]).tolist()]
            self.full[index] = full
        return union_of(rows, snapshot.n_nodes)

    def failures(self, pod: PodView, supposed: Supposition) -> Iterator[int]:
        """The numbers of the reasons why constraints, in order, fail on a supposed node."""
        snapshot, row = supposed.snapshot, supposed.row
        for index, constraint in enumerate(self.constraints):
            domain = int(snapshot.domain(constraint.topology_key)[0][row])
            if domain < 0:
                yield 1
                continue
            counts = self.counts(index, pod, snapshot)
            more = supposed.difference(partial(_selected, constraint, pod.namespace)) if self._looked_at(index, row) else 0
            lowest = least(constraint, counts) if not more else least(constraint, counts, domain, more)
            if counts.counts[domain] + more + constraint.counts_itself - lowest > constraint.max_skew:
                yield 0

    def _looked_at(self, index: int, row: int) -> bool:
        """Whether the pods of a node count for a constraint."""
        mask = self.eligible[index].mask
        return mask is None or bool(mask[row])

    def _full(self, index: int, pod: PodView, snapshot: Snapshot) -> Mask:
        constraint, counts = self.constraints[index], self.counts(index, pod, snapshot)
        return counts.counts + constraint.counts_itself - least(constraint, counts) > constraint.max_skew


class SoftSpread(Spread):
    """ScheduleAnyway: per constraint the counts as they were scored, and the weight of its topology."""

    __slots__ = ("counted", "required", "weights")

    def __init__(self, constraints: tuple[Constraint, ...], pod: PodView, snapshot: Snapshot, *, required: bool) -> None:
        super().__init__(constraints, pod, snapshot, all_keys=required)
        self.required = required  # whether a node that lacks a key is left out altogether
        self.weights: tuple[float, ...] = ()
        self.counted: list[NDArray[np.float64]] = [self._count(index, pod, snapshot) for index in range(len(constraints))]

    def weigh(self, snapshot: Snapshot, feasible: Mask) -> None:
        """Set the weights, which grow with the number of domains among the feasible nodes (`topologyNormalizingWeight`)."""
        domains = [snapshot.domain(constraint.topology_key)[0] for constraint in self.constraints]
        scored = feasible & np.logical_and.reduce([ids >= 0 for ids in domains]) if self.required else feasible
        n_scored = int(np.count_nonzero(scored))
        self.weights = tuple(
            math.log((n_scored if constraint.topology_key == spread.HOSTNAME else _distinct(ids[scored])) + 2)
            for constraint, ids in zip(self.constraints, domains, strict=True)
        )

    def advance(self, pod: PodView, snapshot: Snapshot) -> Rows | None:
        """Follow the counts; the rows that have another one now."""
        rows: list[NDArray[np.intp]] = []
        for index, constraint in enumerate(self.constraints):
            counted = self._count(index, pod, snapshot)
            changed = np.flatnonzero(counted != self.counted[index])
            if not len(changed):
                continue
            topology = snapshot.topology(constraint.topology_key)
            per_node = constraint.topology_key == spread.HOSTNAME
            rows += [changed] if per_node else [topology.rows_of(domain) for domain in changed.tolist()]
            self.counted[index] = counted
        return union_of(rows, snapshot.n_nodes)

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores of some rows: the weighted number of similar pods around each, rounded."""
        total: Any = 0.0
        missing: Any = False
        for constraint, counted, weight in zip(self.constraints, self.counted, self.weights, strict=True):
            ids = snapshot.domain(constraint.topology_key)[0][rows]
            found = counted[rows] if constraint.topology_key == spread.HOSTNAME else counted[ids]
            total = total + np.where(ids >= 0, found * weight + float(constraint.max_skew - 1), 0.0)
            missing = missing | (ids < 0)
        raw = np.floor(total + 0.5).astype(np.int64)
        return np.where(missing, IGNORED, raw) if self.required else raw

    def _count(self, index: int, pod: PodView, snapshot: Snapshot) -> NDArray[np.float64]:
        """The counts that scores are made of: per node for the host name, per domain (and 0 for no domain, at −1) for other keys."""
        constraint = self.constraints[index]
        if constraint.topology_key == spread.HOSTNAME:
            return constraint.selection(snapshot, pod.namespace).by_node.copy()
        return np.append(self.counts(index, pod, snapshot).counts, 0.0)


class PodTopologySpread(FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/podtopologyspread`, Kubernetes 1.36."""

    name = "PodTopologySpread"
    arguments_model = PodTopologySpreadArguments
    filter_volatility = Volatility.GLOBAL
    score_volatility = Volatility.GLOBAL
    default_weight = 2
    normalization = SpreadNormalize()

    def __init__(self, arguments: PodTopologySpreadArguments | None = None) -> None:
        super().__init__(arguments)
        self.system_defaulted = self.arguments.defaulting_type == "System"
        listed = msgspec.convert(self.arguments.default_constraints, tuple[objects.TopologySpreadConstraint, ...])
        self.defaults = spread.SYSTEM_DEFAULTS if self.system_defaulted else listed

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:
        """Skip without DoNotSchedule constraints; rejected where a selector cannot be read."""
        kept: HardSpread | None = cycle.get((self.name, "hard"))
        if kept is not None and kept.stands(snapshot):
            return None
        try:
            constraints = self._constraints(pod, snapshot, spread.DO_NOT_SCHEDULE)
            self._constraints(pod, snapshot, spread.SCHEDULE_ANYWAY)  # PreScore cannot refuse a pod, so its part is read here already
        except InvalidObject as error:
            return Rejected((Reason(f"topology spread constraints cannot be read: {error}", resolvable=False),))
        if not constraints:
            cycle.pop((self.name, "hard"), None)
            return SKIP
        cycle[self.name, "hard"] = HardSpread(constraints, pod, snapshot)
        return None

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:  # noqa: ARG002 — the extension point
        """The verdicts for `rows`, each by the first constraint that fails: bit 0 for too many, bit 1 for a missing key."""
        hard: HardSpread = cycle[self.name, "hard"]
        bits: Any = 0
        for constraint, full in zip(reversed(hard.constraints), reversed(hard.full), strict=True):
            ids = snapshot.domain(constraint.topology_key)[0][rows]
            bits = np.where(np.append(full, False)[ids], SKEWED, bits)
            bits = np.where(ids < 0, KEYLESS, bits)
        return Verdicts(REASONS, bits.astype(np.uint8))

    def filter_if(self, cycle: CycleState, pod: PodView, supposed: Supposition) -> tuple[Reason, ...]:
        """The reason against the supposed node, by the first constraint that fails."""
        hard: HardSpread = cycle[self.name, "hard"]
        return next(((REASONS[reason],) for reason in hard.failures(pod, supposed)), ())

    def filter_changes(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:  # noqa: ARG002 — the extension point
        """The rows of the domains that have become full, or ceased to be."""
        hard: HardSpread | None = cycle.get((self.name, "hard"))
        if hard is None:
            return ALL if self._may_get_constraints(pod, spread.DO_NOT_SCHEDULE) else None
        return hard.advance(pod, snapshot) if hard.stands(snapshot) else ALL

    def pre_score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, feasible: Mask) -> PreScoreAnswer:
        """Skip without ScheduleAnyway constraints."""
        soft: SoftSpread | None = cycle.get((self.name, "soft"))
        if soft is None or not soft.stands(snapshot):
            constraints = self._constraints(pod, snapshot, spread.SCHEDULE_ANYWAY)
            if not constraints:
                cycle.pop((self.name, "soft"), None)
                return SKIP
            required = bool(pod.object.spec.topology_spread_constraints) or not self.system_defaulted
            soft = cycle[self.name, "soft"] = SoftSpread(constraints, pod, snapshot, required=required)
        soft.advance(pod, snapshot)
        soft.weigh(snapshot, feasible)
        return None

    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:  # noqa: ARG002 — the extension point
        """Raw scores for `rows`: the more similar pods are around, the higher; −1 where a key is missing."""
        soft: SoftSpread = cycle[self.name, "soft"]
        return soft.raw(snapshot, rows)

    def score_changes(
        self,
        cycle: CycleState,
        pod: PodView,
        snapshot: Snapshot,
        since: int,  # noqa: ARG002 — the extension point
        flipped: NDArray[np.intp],
    ) -> Rows | None:
        """The rows whose count has changed; all if the feasible set has, because that weighs the topologies."""
        soft: SoftSpread | None = cycle.get((self.name, "soft"))
        if soft is None:
            return ALL if self._may_get_constraints(pod, spread.SCHEDULE_ANYWAY) else None
        if len(flipped) or not soft.stands(snapshot):
            return ALL
        return soft.advance(pod, snapshot)

    def _constraints(self, pod: PodView, snapshot: Snapshot, when_unsatisfiable: str) -> tuple[Constraint, ...]:
        own = pod.object.spec.topology_spread_constraints
        if own:
            return spread.parse(own, pod, when_unsatisfiable)
        return spread.parse_default(self.defaults, pod, snapshot, when_unsatisfiable)

    def _may_get_constraints(self, pod: PodView, when_unsatisfiable: str) -> bool:
        """Whether a pod that has no constraint of a kind now could get one when Services and controllers change."""
        if pod.object.spec.topology_spread_constraints:
            return False
        return any(constraint.when_unsatisfiable == when_unsatisfiable for constraint in self.defaults)


def least(constraint: Constraint, counts: DomainCounts, domain: int = 0, more: int = 0) -> float:
    """The count of the emptiest domain that counts, if there were `more` in one of them; 0 while there are fewer than `minDomains`."""
    n_domains = len(counts.counts) if counts.mask is None else int(np.count_nonzero(counts.nodes))
    if n_domains < constraint.min_domains:
        return 0
    if more:
        supposed = counts.counts.copy()
        supposed[domain] += more
        return float((supposed if counts.mask is None else supposed[counts.nodes > 0]).min(initial=MAX_INT32))
    lowest = counts.lowest()
    return MAX_INT32 if lowest is None else lowest


def _selected(constraint: Constraint, namespace: str, placed: PodView) -> bool:
    """Whether a pod that comes or goes counts; Kubernetes does not ask here whether it is on its way out already (`updateWithPod`)."""
    return placed.namespace == namespace and constraint.selector.matches(placed.labels)


def _distinct(ids: NDArray[np.int32]) -> int:
    """How many different domains occur; no domain at all counts as one."""
    return int(np.count_nonzero(np.bincount(ids + 1)))
