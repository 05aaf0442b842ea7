"""PodTopologySpread: keeps the number of matching pods per zone, rack or node even.

The cluster's state keeps the counts per topology domain up to date; a decision reads them. `spread_counts` keeps the answer per domain for
each pod template, so that after a placement only nodes of domains whose answer changed are evaluated again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator, model_validator

from wharfinger.errors import InvalidObject
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.configuration import object_arguments
from wharfinger.framework.evaluation.question import CycleState
from wharfinger.framework.extension import Arguments, FilterPlugin, GroupedHints, ScorePlugin
from wharfinger.framework.plugins import node_affinity
from wharfinger.framework.plugins.pods import spread_counts as spread
from wharfinger.framework.plugins.pods.spread_counts import Constraint, HardSpread, SoftSpread
from wharfinger.framework.verdict import SKIP, Mask, PreFilterAnswer, PreScoreAnswer, Reason, Rejected, Rows, Verdicts
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.supposition import Supposition
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

REASONS = (
    Reason("node(s) didn't match pod topology spread constraints"),
    Reason("node(s) didn't match pod topology spread constraints (missing required label)", resolvable=False),
)
UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
ALL = slice(None)


class PodTopologySpreadArguments(Arguments):
    """PodTopologySpreadArgs: the default constraints for pods without their own."""

    default_constraints: tuple[dict[str, Any], ...] = ()
    defaulting_type: Literal["System", "List"] = "System"

    @field_validator("default_constraints")
    @classmethod
    def _readable(cls, value: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        if any("labelSelector" in constraint for constraint in value):
            raise ValueError("default constraints must not have a labelSelector: it is made from Services and controllers")
        for constraint in object_arguments.read(value, tuple[objects.TopologySpreadConstraint, ...]):
            if constraint.max_skew <= 0 or not constraint.topology_key or constraint.when_unsatisfiable not in UNSATISFIABLE:
                raise ValueError(
                    f"a default constraint needs a maxSkew above 0, a topologyKey, and whenUnsatisfiable {' or '.join(UNSATISFIABLE)}"
                )
        return value

    @model_validator(mode="after")
    def _consistent(self) -> PodTopologySpreadArguments:
        if self.default_constraints and self.defaulting_type == "System":
            raise ValueError("defaultConstraints need defaultingType List")
        return self


@dataclass(frozen=True, slots=True)
class SpreadNormalize:
    """`NormalizeScore` of the plugin: the node with the fewest matching pods gets 100; nodes that lack a key get 0."""

    least: float = 0

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """`100·(high + low − raw)/high` in integers, all 100 where the highest is 0."""
        raw = scores.astype(np.int64)
        top = int(high)
        spread_points = np.full(len(raw), 100, np.int64) if top == 0 else 100 * (top + int(low) - raw) // top
        return np.where(raw < 0, 0, spread_points)


class PodTopologySpread(GroupedHints, FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/podtopologyspread`, Kubernetes 1.36."""

    name = "PodTopologySpread"
    arguments_model = PodTopologySpreadArguments
    filter_volatility = Volatility.GLOBAL
    wakes_on = (
        ClusterEvent.NODE_ADD
        | ClusterEvent.NODE_DELETE
        | ClusterEvent.NODE_LABEL
        | ClusterEvent.NODE_TAINT
        | ClusterEvent.POD_PLACED
        | ClusterEvent.POD_CHANGED
        | ClusterEvent.POD_REMOVED
    )
    score_volatility = Volatility.GLOBAL
    default_weight = 2
    normalization = SpreadNormalize()

    def __init__(self, arguments: PodTopologySpreadArguments | None = None) -> None:
        super().__init__(arguments)
        self.system_defaulted = self.arguments.defaulting_type == "System"
        listed = msgspec.convert(self.arguments.default_constraints, tuple[objects.TopologySpreadConstraint, ...])
        self.defaults = spread.SYSTEM_DEFAULTS if self.system_defaulted else listed

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if the change may change the counts or the domains of the rejected pod's constraints.

        As `isSchedulableAfterPodChange` and `isSchedulableAfterNodeChange` (plugins/podtopologyspread/plugin.go, 1.36).
        """
        own = pod.object.spec.topology_spread_constraints
        try:
            constraints = (
                spread.parse(own, pod, spread.DO_NOT_SCHEDULE)
                if own
                else spread.parse_default(self.defaults, pod, snapshot, spread.DO_NOT_SCHEDULE)
            )
        except InvalidObject:
            return False  # no event makes them readable
        if change.pod is not None:
            return _counts_change(constraints, pod.namespace, change, change.pod)
        if change.events & ClusterEvent.NODE_DELETE or change.now is None:
            return True
        if change.events & ClusterEvent.NODE_TAINT and any(constraint.honor_taints for constraint in constraints):
            return True
        keys = {constraint.topology_key for constraint in constraints}
        if change.events & ClusterEvent.NODE_ADD:
            return keys <= change.now.metadata.labels.keys()
        # Labels also decide which nodes are eligible if the pod has a node selector or affinity.
        chooses = any(constraint.honor_affinity for constraint in constraints) and node_affinity.required(pod.object) is not None
        return bool(change.events & ClusterEvent.NODE_LABEL) and (chooses or not keys.isdisjoint(change.keys))

    def hint_group(self, pod: PodView) -> Hashable:
        """The pod's own constraints with the labels they use, and whether it has a node selector or affinity; the template without own."""
        spec = pod.object.spec
        own = spec.topology_spread_constraints
        if not own:
            return pod.template
        labels = {key: pod.labels.get(key) for constraint in own for key in constraint.match_label_keys}
        return msgspec.json.encode([pod.namespace, own, labels, node_affinity.required(pod.object) is not None])

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:
        """Skip without DoNotSchedule constraints; `Rejected` if a selector cannot be read."""
        kept: HardSpread | None = cycle.get((self.name, "hard"))
        if kept is not None and kept.stands(snapshot):
            kept.advance(snapshot)
            return None
        try:
            constraints = self._constraints(cycle, pod, snapshot, spread.DO_NOT_SCHEDULE)
            self._constraints(
                cycle, pod, snapshot, spread.SCHEDULE_ANYWAY
            )  # PreScore cannot reject a pod, so its constraints are parsed here too
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
        return Verdicts(REASONS, hard.bits(snapshot, rows))

    def filter_if(self, cycle: CycleState, pod: PodView, supposed: Supposition) -> tuple[Reason, ...]:  # noqa: ARG002 — the extension point
        """The reason against the supposed node, by the first constraint that fails; empty if it passes."""
        hard: HardSpread = cycle[self.name, "hard"]
        return next(((REASONS[bit - 1],) for bit in hard.failures(supposed)), ())

    def filter_changes(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:  # noqa: ARG002 — the extension point
        """The rows of the domains that became full or are full no longer."""
        hard: HardSpread | None = cycle.get((self.name, "hard"))
        if hard is None:
            return ALL if self._may_get_constraints(cycle, pod, snapshot, spread.DO_NOT_SCHEDULE) else None
        return hard.advance(snapshot) if hard.stands(snapshot) else ALL

    def pre_score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, feasible: Mask) -> PreScoreAnswer:
        """Skip without ScheduleAnyway constraints."""
        soft: SoftSpread | None = cycle.get((self.name, "soft"))
        if soft is None or not soft.stands(snapshot):
            constraints = self._constraints(cycle, pod, snapshot, spread.SCHEDULE_ANYWAY)
            if not constraints:
                cycle.pop((self.name, "soft"), None)
                return SKIP
            required = bool(pod.object.spec.topology_spread_constraints) or not self.system_defaulted
            soft = cycle[self.name, "soft"] = SoftSpread(constraints, pod, snapshot, required=required)
        soft.advance(snapshot)
        soft.weigh(snapshot, feasible)
        return None

    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:  # noqa: ARG002 — the extension point
        """Raw scores for `rows`: the more matching pods in the node's domains, the higher; −1 where a required key is missing."""
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
        """The rows whose count changed; all rows if the feasible set changed, because the weights of topologies depend on it."""
        soft: SoftSpread | None = cycle.get((self.name, "soft"))
        if soft is None:
            return ALL if self._may_get_constraints(cycle, pod, snapshot, spread.SCHEDULE_ANYWAY) else None
        if len(flipped) or not soft.stands(snapshot):
            return ALL
        return soft.advance(snapshot)

    def score_domains(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> Sequence[str]:  # noqa: ARG002 — the extension point
        """The topology keys of the constraints, sorted."""
        soft: SoftSpread = cycle[self.name, "soft"]
        return sorted({constraint.topology_key for constraint in soft.constraints})

    def _constraints(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, when_unsatisfiable: str) -> tuple[Constraint, ...]:
        own = pod.object.spec.topology_spread_constraints
        if own:
            return spread.parse(own, pod, when_unsatisfiable)
        cycle[self.name, when_unsatisfiable] = _selecting_revision(snapshot)
        return spread.parse_default(self.defaults, pod, snapshot, when_unsatisfiable)

    def _may_get_constraints(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, when_unsatisfiable: str) -> bool:
        """True if a pod without constraints of a kind may have got default ones by a change of Services or controllers."""
        if pod.object.spec.topology_spread_constraints or cycle.get((self.name, when_unsatisfiable)) == _selecting_revision(snapshot):
            return False
        return any(constraint.when_unsatisfiable == when_unsatisfiable for constraint in self.defaults)


def _counts_change(constraints: Sequence[Constraint], namespace: str, change: Change, placed: PodView) -> bool:
    """True if some constraint counts a pod that was placed or removed, or counts a changed pod only before or only after the change."""
    if not change.events & ClusterEvent.POD_CHANGED:
        return placed.namespace == namespace and any(constraint.selector.matches(placed.labels) for constraint in constraints)
    was = change.was
    return was is None or any(constraint.counts(was, namespace) != constraint.counts(placed, namespace) for constraint in constraints)


def _selecting_revision(snapshot: Snapshot) -> int:
    """The revision of the objects that the selectors of default constraints are made from."""
    return snapshot.objects.revision_of(objects.Service, objects.ReplicationController, objects.ReplicaSet, objects.StatefulSet)
