"""PodTopologySpread: keeps the number of matching pods per zone, rack or node even.

The cluster's state keeps the counts per topology domain up to date; a decision reads them. `spread_counts` keeps the answer per domain for
each pod template, so that after a placement only nodes of domains whose answer changed are evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.framework.arguments import BuiltInArguments, checked
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import CountingPlugin, FilterPlugin, GroupedHints, ScorePlugin, object_argument
from wharfinger.framework.plugins.pods import spread_counts as spread
from wharfinger.framework.plugins.pods.spread_counts import Constraint, HardSpread, SoftSpread
from wharfinger.framework.prepared import SKIP_ALWAYS, Attempt, Mask, ObjectRevision, PreparedFilter, PreparedScore, Reason, Rejected, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.state import node_selection

if TYPE_CHECKING:
    from wharfinger.model.columns.pod_table import ReadInSteps
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

UNSATISFIABLE = (spread.DO_NOT_SCHEDULE, spread.SCHEDULE_ANYWAY)


def _check_constraints(value: tuple[dict[str, Any], ...]) -> None:
    """Raise ValueError for default constraints that cannot be used."""
    if len(value) > spread.MAX_CONSTRAINTS:
        raise ValueError(f"there are {len(value):,}; at most {spread.MAX_CONSTRAINTS} are supported")
    if any("labelSelector" in constraint for constraint in value):
        raise ValueError("default constraints must not have a labelSelector: it is made from Services and controllers")
    for constraint in object_argument(value, tuple[objects.TopologySpreadConstraint, ...]):
        if constraint.max_skew <= 0 or not constraint.topology_key or constraint.when_unsatisfiable not in UNSATISFIABLE:
            raise ValueError(
                f"a default constraint needs a maxSkew above 0, a topologyKey, and whenUnsatisfiable {' or '.join(UNSATISFIABLE)}"
            )


class PodTopologySpreadArguments(BuiltInArguments, frozen=True, kw_only=True):
    """PodTopologySpreadArgs: the default constraints for pods without their own."""

    default_constraints: Annotated[tuple[dict[str, Any], ...], checked(_check_constraints)] = ()
    defaulting_type: Literal["System", "List"] = "System"

    def __post_init__(self) -> None:
        if self.default_constraints and self.defaulting_type == "System":
            raise ValueError("defaultConstraints need defaultingType List")


class SpreadNormalize(Struct, frozen=True):
    """`NormalizeScore` of the plugin: the node with the fewest matching pods gets 100; nodes that lack a key get 0."""

    least: float = 0

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """`100·(high + low − raw)/high` in integers, all 100 where the highest is 0."""
        raw = scores.astype(np.int64)
        top = int(high)
        spread_points = np.full(len(raw), 100, np.int64) if top == 0 else 100 * (top + int(low) - raw) // top
        return np.where(raw < 0, 0, spread_points)


class PodTopologySpread(GroupedHints, CountingPlugin, FilterPlugin, ScorePlugin):
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
        try:
            constraints = self._constraints(pod, snapshot, spread.DO_NOT_SCHEDULE)
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
        chooses = any(constraint.honor_affinity for constraint in constraints) and node_selection.required(pod.object) is not None
        return bool(change.events & ClusterEvent.NODE_LABEL) and (chooses or not keys.isdisjoint(change.keys))

    def hint_group(self, pod: PodView) -> Hashable:
        """The pod's own constraints with the labels they use, and whether it has a node selector or affinity; the template without own."""
        spec = pod.object.spec
        own = spec.topology_spread_constraints
        if not own:
            return pod.template
        labels = {key: pod.labels.get(key) for constraint in own for key in constraint.match_label_keys}
        return msgspec.json.encode([pod.namespace, own, labels, node_selection.required(pod.object) is not None])

    def counting(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Iterator[ReadInSteps]:
        """Yield the pods that each constraint counts."""
        now = snapshot()
        for constraint in (each for kind in UNSATISFIABLE for each in self._constraints(pod, now, kind)):
            yield constraint.selection(snapshot(), pod.namespace)

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip without DoNotSchedule constraints; `Rejected` if a selector cannot be read."""
        try:
            constraints = self._constraints(attempt.pod, attempt.snapshot, spread.DO_NOT_SCHEDULE)
            # A score cannot reject a pod, so its constraints are parsed here too.
            self._constraints(attempt.pod, attempt.snapshot, spread.SCHEDULE_ANYWAY)
        except InvalidObject as error:
            return Rejected((Reason(f"topology spread constraints cannot be read: {error}", resolvable=False),))
        return HardSpread(constraints, attempt.pod, attempt.snapshot) if constraints else self._without(attempt, spread.DO_NOT_SCHEDULE)

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore | Skip:
        """Skip without ScheduleAnyway constraints."""
        constraints = self._constraints(attempt.pod, attempt.snapshot, spread.SCHEDULE_ANYWAY)
        if not constraints:
            return self._without(attempt, spread.SCHEDULE_ANYWAY)
        required = bool(attempt.pod.object.spec.topology_spread_constraints) or not self.system_defaulted
        return SoftSpread(constraints, attempt.pod, attempt.snapshot, feasible, required=required)

    def _constraints(self, pod: PodView, snapshot: Snapshot, when_unsatisfiable: str) -> tuple[Constraint, ...]:
        own = pod.object.spec.topology_spread_constraints
        if own:
            return spread.parse(own, pod, when_unsatisfiable)
        return spread.parse_default(self.defaults, pod, snapshot, when_unsatisfiable)

    def _without(self, attempt: Attempt, when_unsatisfiable: str) -> Skip:
        """The answer for a pod without constraints of a kind: it may get default ones by a change of Services or controllers."""
        own = attempt.pod.object.spec.topology_spread_constraints
        if own or all(constraint.when_unsatisfiable != when_unsatisfiable for constraint in self.defaults):
            return SKIP_ALWAYS
        return Skip(ObjectRevision(attempt.snapshot, *spread.OWNERS).unchanged)


def _counts_change(constraints: Sequence[Constraint], namespace: str, change: Change, placed: PodView) -> bool:
    """True if some constraint counts a pod that was placed or removed, or counts a changed pod only before or only after the change."""
    if not change.events & ClusterEvent.POD_CHANGED:
        return placed.namespace == namespace and any(constraint.selector.matches(placed.labels) for constraint in constraints)
    was = change.was
    return was is None or any(constraint.counts(was, namespace) != constraint.counts(placed, namespace) for constraint in constraints)
