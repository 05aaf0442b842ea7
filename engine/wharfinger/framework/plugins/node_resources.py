"""NodeResourcesFit and NodeResourcesBalancedAllocation: requests compared with the resources of nodes.

A node must have the resources that the pod requests; fuller or emptier nodes are preferred, and nodes whose use of resources becomes more
balanced with the pod. The filter compares exact requests with allocatable amounts; the scores use default requests for containers without
requests. Resources are lanes of one array, so the check of cpu and memory is one comparison of two lanes.

Since Kubernetes 1.35 the score for balance is not the balance after the placement but its change by the pod, so that the imbalance caused
by other pods does not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import FilterPlugin, GroupedHints, ScorePlugin
from wharfinger.framework.plugins.devices.extended_resources import backed
from wharfinger.framework.plugins.resource_columns import (
    Lanes,
    ResourceScore,
    ResourceSpec,
    ScoredLanes,
    scored_lanes,
    volatility,
)
from wharfinger.framework.prepared import SKIP_ALWAYS, Attempt, Mask, PreparedFilter, PreparedScore, Reason, Rejected, Rows, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.objects.requests import MAX_AMOUNT, NATIVE, is_extended, is_scalar, listing_order

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

TOO_MANY_PODS = Reason("Too many pods")
MAX_RESOURCES = 31  # of a pod: each has two bits in the answer for a node
MAX_UTILIZATION = 100
MAX_CUSTOM_SCORE = 10  # shape scores are 0..10, node scores 0..100


class UtilizationShapePoint(BuiltInArguments, frozen=True, kw_only=True):
    """One point of the function from utilization in percent to a score of 0..10."""

    utilization: Annotated[int, Meta(ge=0, le=MAX_UTILIZATION)]
    score: Annotated[int, Meta(ge=0, le=MAX_CUSTOM_SCORE)]


class RequestedToCapacityRatio(BuiltInArguments, frozen=True, kw_only=True):
    """The shape that RequestedToCapacityRatio scores by."""

    shape: Annotated[tuple[UtilizationShapePoint, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if any(left.utilization >= right.utilization for left, right in itertools.pairwise(self.shape)):
            raise ValueError("the utilizations of a shape must ascend")


class ScoringStrategy(BuiltInArguments, frozen=True, kw_only=True):
    """The preferred utilization of nodes, and the weights of resources."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    def __post_init__(self) -> None:
        if self.type == "RequestedToCapacityRatio" and self.requested_to_capacity_ratio is None:
            raise ValueError("the strategy RequestedToCapacityRatio needs requestedToCapacityRatio with a shape")


_SHORT = frozenset({"strategy", "resources", "shape"})


class NodeResourcesFitArguments(BuiltInArguments, frozen=True, kw_only=True):
    """NodeResourcesFitArgs: extended resources to leave unchecked, and the scoring strategy."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()

    @classmethod
    def written_out(cls, values: Any) -> Any:
        """The arguments as policies write them: `strategy`, `resources` and `shape` of scoringStrategy, a resource as `cpu: 1`."""
        if not isinstance(values, dict) or not values.keys() & _SHORT:
            return values
        others = {name: value for name, value in values.items() if name not in _SHORT}
        written = values.get("scoringStrategy", {})
        if not isinstance(written, dict):  # refused by its type
            return others
        strategy = dict(written)
        if "strategy" in values:
            strategy["type"] = values["strategy"]
        if "resources" in values:
            weights = values["resources"]
            listed = [{"name": name, "weight": weight} for name, weight in weights.items()] if isinstance(weights, dict) else weights
            strategy["resources"] = listed
        if "shape" in values:
            strategy["requestedToCapacityRatio"] = {"shape": values["shape"]}
        return {**others, "scoringStrategy": strategy}


class NodeResourcesFit(GroupedHints, FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/noderesources/fit.go`, Kubernetes 1.36."""

    name = "NodeResourcesFit"
    arguments_model = NodeResourcesFitArguments
    filter_volatility = Volatility.ROW
    wakes_on = (
        ClusterEvent.NODE_ADD
        | ClusterEvent.NODE_ALLOCATABLE
        | ClusterEvent.POD_REMOVED
        | ClusterEvent.POD_CHANGED
        | ClusterEvent.DEVICE_CLASS
    )
    same_hints = True

    def __init__(self, arguments: NodeResourcesFitArguments | None = None) -> None:
        super().__init__(arguments)
        self.score_volatility = volatility(self.arguments.scoring_strategy.resources)

    def object_identity(self, pod: PodView, store: ObjectStore) -> Hashable:
        """The requested resources that a device class backs; nodes that do not have them leave them to claims for devices."""
        return backed(pod, store) or None

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Rejected:
        """Never skips: every pod takes one of the pods that a node may have. `Rejected` for more than `MAX_RESOURCES` resources."""
        checked = self._checked(attempt.pod)
        if len(checked) > MAX_RESOURCES:
            too_many = f"the pod requests {len(checked):,} different resources; at most {MAX_RESOURCES} are supported"
            return Rejected((Reason(too_many, resolvable=False),))
        return Fit(checked, backed(attempt.pod, attempt.snapshot.objects))

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore:  # noqa: ARG002 — the extension point
        """Never skips."""
        strategy = self.arguments.scoring_strategy
        lanes = scored_lanes(strategy.resources, attempt, exact=False)
        if strategy.type == "RequestedToCapacityRatio":
            return Ratio(lanes, attempt.snapshot, strategy.requested_to_capacity_ratio.shape)
        return Allocated(lanes, attempt.snapshot, least=strategy.type == "LeastAllocated")

    def hint_group(self, pod: PodView) -> Hashable:
        """The pod's requests and its priority."""
        return pod.priority, tuple(sorted(pod.requests.items()))

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if the pod would fit the node of the change if pods of lower priority left it. A pod marked as deleted is still there."""
        if change.only_marked:
            return False
        row = None if change.node is None else snapshot.row(change.node)
        if row is None:
            return change.node is None
        staying = [placed.requests for placed in snapshot.pods_on(row) if placed.priority >= pod.priority]
        checked = self._checked(pod)
        if len(staying) >= snapshot.allowed_pods[row] or len(checked) > MAX_RESOURCES:
            return False
        left = backed(pod, snapshot.objects)
        return all(
            (name in left and not _allocatable(snapshot, name, row))
            or amount <= _allocatable(snapshot, name, row) - sum(placed.get(name, 0) for placed in staying)
            for name, amount in checked
        )

    def _checked(self, pod: PodView) -> list[tuple[str, int]]:
        """The requests that the filter checks."""
        return [(name, amount) for name, amount in pod.requests.items() if amount > 0 and self.checks(name)]

    def checks(self, name: str) -> bool:
        """True if the filter checks a resource: all resources that nodes count but ignored extended ones."""
        if name in NATIVE:
            return True
        if not is_extended(name):
            return is_scalar(name)
        return name not in self.arguments.ignored_resources and name.partition("/")[0] not in self.arguments.ignored_resource_groups


class Fit(PreparedFilter):
    """Bit 0 for a node at its limit of pods, two bits for each resource: too full, and too small even when empty."""

    def __init__(self, requests: Sequence[tuple[str, int]], left_to_claims: Sequence[str]) -> None:
        """The filter of these requests; `left_to_claims` are not checked on nodes without them."""
        ordered = sorted(requests, key=lambda request: listing_order(request[0]))
        self._lanes = Lanes([name for name, _ in ordered])
        self._left = np.array([name in left_to_claims for name, _ in ordered], np.bool_) if left_to_claims else None
        self._needs = [amount for _, amount in ordered]
        self._amounts = np.array(self._needs, np.int64).reshape(-1, 1)
        reasons = [TOO_MANY_PODS]
        for name in self._lanes.names:
            reasons += [Reason(f"Insufficient {name}"), Reason(f"Insufficient {name}", resolvable=False)]
        self.reasons = tuple(reasons)
        self._short_bits = np.uint64(1) << np.arange(1, len(reasons), 2, dtype=np.uint64)

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.unsignedinteger[Any]] | Mask:
        """The verdicts."""
        crowded = snapshot.pod_count[rows] >= snapshot.allowed_pods[rows]
        if not self._needs:
            return crowded
        allocatable, requested = self._lanes.amounts(snapshot, rows)
        short = self._amounts > allocatable - requested
        if self._left is not None:
            short[self._left] &= allocatable[self._left] > 0
        if not np.count_nonzero(short):
            return crowded
        never = self._amounts > allocatable
        if self._left is not None:
            never &= short
        found: NDArray[np.uint64] = self._short_bits @ np.add(short, never, dtype=np.uint64) | crowded  # twice the bit is the next one
        return found

    def bits_at(self, snapshot: Snapshot, row: int) -> int:
        """The verdict for one node."""
        bits = int(snapshot.pod_count.item(row) >= snapshot.allowed_pods.item(row))
        allocatable, requested = snapshot.allocatable, snapshot.requested
        for lane, (place, amount) in enumerate(zip(self._lanes.places(snapshot), self._needs, strict=True)):
            offered = 0 if place is None else allocatable.item(place, row)
            if self._left is not None and self._left[lane] and not offered:
                continue
            if amount > offered:
                bits |= 1 << 2 * lane + 2
            elif amount > offered - (0 if place is None else requested.item(place, row)):
                bits |= 1 << 2 * lane + 1
        return bits

    @property
    def needs(self) -> Mapping[str, int]:
        """The amounts that a pod of the template needs, by resource."""
        return dict(zip(self._lanes.names, self._needs, strict=True))

    def room(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The number of pods of the template that requests allow on each row, `(n_rows,)`."""
        room = snapshot.allowed_pods[rows] - snapshot.pod_count[rows]
        if self._needs:
            allocatable, requested = self._lanes.amounts(snapshot, rows)
            each = (allocatable - requested) // self._amounts
            if self._left is not None:
                each[self._left] = np.where(allocatable[self._left] > 0, each[self._left], MAX_AMOUNT)
            room = np.minimum(room, each.min(axis=0))
        fitting: NDArray[np.int64] = np.maximum(room, 0)
        return fitting

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons against the supposed node."""
        places_left, resources = supposed.once(self, lambda: self._room(supposed.snapshot, supposed.row))
        found = [TOO_MANY_PODS] if supposed.count >= places_left else []
        for lane, (name, amount, allocatable, free) in enumerate(resources):
            if amount > free - supposed.requests.get(name, 0):
                found.append(self.reasons[1 + 2 * lane + (amount > allocatable)])
        return tuple(found)

    def _room(self, snapshot: Snapshot, row: int) -> tuple[int, list[tuple[str, int, int, int]]]:
        """The number of pods that still fit a node, and per resource its name, the needed, the allocatable and the free amount."""
        resources: list[tuple[str, int, int, int]] = []
        for name, lane, amount in zip(self._lanes.names, self._lanes.places(snapshot), self._needs, strict=True):
            allocatable = 0 if lane is None else int(snapshot.allocatable[lane, row])
            if self._left is not None and self._left[len(resources)] and not allocatable:
                allocatable = MAX_AMOUNT  # claims for devices are not counted here
            requested = 0 if lane is None else int(snapshot.requested[lane, row])
            if requested >= MAX_AMOUNT:  # what is shown of a larger sum; some of its pods may be supposed to leave
                requested = sum(placed.requests.get(name, 0) for placed in snapshot.pods_on(row))
            resources.append((name, amount, allocatable, allocatable - requested))
        return int(snapshot.allowed_pods[row] - snapshot.pod_count[row]), resources


class Allocated(ResourceScore):
    """LeastAllocated or MostAllocated: points for free or used resources including the pod; resources that the node lacks do not count."""

    def __init__(self, lanes: ScoredLanes, snapshot: Snapshot, *, least: bool) -> None:
        super().__init__(lanes, snapshot)
        self._least = least
        self._weights: list[int] = lanes.weights[:, 0].tolist()

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The points, 0..100."""
        allocatable, requested, weights = self._lanes.columns(snapshot, rows)
        counted = np.maximum(allocatable - requested, 0) if self._least else np.minimum(requested, allocatable)
        weight: Any = max(sum(self._weights), 1)
        if np.count_nonzero(allocatable) == allocatable.size:  # the usual case: the nodes have all resources
            totals = weights[:, 0].dot(counted * 100 // allocatable)
        else:
            present = weights * (allocatable > 0)
            totals = (counted * 100 // np.maximum(allocatable, 1) * present).sum(axis=0)
            weight = np.maximum(present.sum(axis=0), 1)
        mean: NDArray[np.int64] = totals // weight
        return mean

    def raw_at(self, snapshot: Snapshot, row: int) -> float:
        """The points of one node."""
        total = weights = 0
        for (allocatable, requested), weight in zip(self._lanes.at(snapshot, row), self._weights, strict=True):
            if allocatable:
                counted = max(allocatable - requested, 0) if self._least else min(requested, allocatable)
                total += counted * 100 // allocatable * weight
                weights += weight
        return total // max(weights, 1)


class Ratio(ResourceScore):
    """RequestedToCapacityRatio: the shape at each resource's utilization; resources that score 0 do not count."""

    def __init__(self, lanes: ScoredLanes, snapshot: Snapshot, shape: Sequence[UtilizationShapePoint]) -> None:
        super().__init__(lanes, snapshot)
        self._shape = shape

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The points, 0..100."""
        allocatable, requested, weights = self._lanes.columns(snapshot, rows)
        utilization = requested * MAX_UTILIZATION // np.maximum(allocatable, 1)
        points = _broken_linear(np.where(requested > allocatable, MAX_UTILIZATION, utilization), self._shape)
        counted = weights * ((allocatable > 0) & (points > 0))
        total = counted.sum(axis=0)
        return np.asarray(np.floor((points * counted).sum(axis=0) / np.maximum(total, 1) + 0.5).astype(np.int64))


def _allocatable(snapshot: Snapshot, name: str, row: int) -> int:
    lane = snapshot.resource_index(name)
    return 0 if lane is None else int(snapshot.allocatable[lane, row])


def _broken_linear(utilization: NDArray[np.int64], shape: Sequence[UtilizationShapePoint]) -> NDArray[np.int64]:
    """The piecewise linear function through the shape's points, in integers (`buildBrokenLinearFunction`)."""
    scale = 100 // MAX_CUSTOM_SCORE
    points = np.full(utilization.shape, shape[-1].score * scale, np.int64)
    for left, right in reversed(list(itertools.pairwise(shape))):
        rise, run = (right.score - left.score) * scale, right.utilization - left.utilization
        # The integers are small, so the float division is exact enough.
        climbed = np.trunc(rise * (utilization - left.utilization) / run).astype(np.int64)
        points = np.where(utilization <= right.utilization, left.score * scale + climbed, points)
    return np.where(utilization <= shape[0].utilization, shape[0].score * scale, points)


class BalancedAllocationArguments(BuiltInArguments, frozen=True, kw_only=True):
    """NodeResourcesBalancedAllocationArgs: the resources to balance; weights are accepted and not used, as in Kubernetes."""

    resources: Annotated[tuple[ResourceSpec, ...], Meta(min_length=1)] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class NodeResourcesBalancedAllocation(ScorePlugin):
    """`pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`, Kubernetes 1.36."""

    name = "NodeResourcesBalancedAllocation"
    arguments_model = BalancedAllocationArguments

    def __init__(self, arguments: BalancedAllocationArguments | None = None) -> None:
        super().__init__(arguments)
        self.score_volatility = volatility(self.arguments.resources)

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore | Skip:  # noqa: ARG002 — the extension point
        """Skip for a pod that requests none of the resources."""
        lanes = scored_lanes(self.arguments.resources, attempt, exact=True)
        return Balance(lanes, attempt.snapshot) if lanes.added.any() else SKIP_ALWAYS


class Balance(ResourceScore):
    """Points for the change of balance, 50..100: 75 if the pod does not change the balance of a node, more if it improves it."""

    def __init__(self, lanes: ScoredLanes, snapshot: Snapshot) -> None:
        super().__init__(lanes, snapshot)
        self._left_out = np.stack((np.zeros_like(lanes.added), lanes.added), axis=1)  # (n_resources, 2, 1): nothing, and the pod

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The points."""
        allocatable, requested, _ = self._lanes.columns(snapshot, rows)
        with_pod, without = _balance(requested[:, np.newaxis] - self._left_out, allocatable[:, np.newaxis])
        return np.asarray(50 + (50 + with_pod - without) // 2)

    def raw_at(self, snapshot: Snapshot, row: int) -> float:
        """The points of one node."""
        amounts = self._lanes.at(snapshot, row)
        if len(amounts) != 2 or not (amounts[0][0] and amounts[1][0]):
            return super().raw_at(snapshot, row)
        (first, first_used), (second, second_used) = amounts
        first_added, second_added = self._lanes.amounts
        with_pod = _balance_of_two(first, first_used, second, second_used)
        without = _balance_of_two(first, first_used - first_added, second, second_used - second_added)
        return 50 + (50 + with_pod - without) // 2


def _balance_of_two(first: int, first_used: int, second: int, second_used: int) -> int:
    """`_balance` for one node that has both of two resources, from the allocatable and the requested amount of each."""
    difference = min(float(first_used) / float(first), 1.0) - min(float(second_used) / float(second), 1.0)
    return int((1.0 - abs(difference / 2)) * 100.0)


def _balance(requested: NDArray[np.int64], allocatable: NDArray[np.int64]) -> NDArray[np.int64]:
    """The balance of the used resources, int64 50..100: one minus the standard deviation of the used fractions, in percent.

    Resources are the first axis of both arrays, which are of one shape or broadcast to one; the result has the other axes.
    """
    if len(allocatable) == 2 and np.count_nonzero(allocatable) == allocatable.size:
        fractions = np.minimum(requested / allocatable, 1.0)
        return np.asarray(((1.0 - np.abs((fractions[0] - fractions[1]) / 2)) * 100.0).astype(np.int64))
    present = allocatable != 0
    fractions = np.where(present, np.minimum(requested / np.where(present, allocatable, 1), 1.0), 0.0)
    return ((1.0 - _deviation(fractions, present)) * 100.0).astype(np.int64)


def _deviation(fractions: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The standard deviation over the resources that a node has; 0 for one resource, half the difference for two.

    Resources are added in sequence, as in Kubernetes: the order of NumPy's own sum differs between one node and all nodes.
    """
    count = present.sum(axis=0)
    mean = reduce(np.add, fractions) / np.maximum(count, 1)
    deviations = [np.where(there, np.square(fraction - mean), 0.0) for fraction, there in zip(fractions, present, strict=True)]
    spread = np.sqrt(reduce(np.add, deviations) / np.maximum(count, 1))
    high = np.where(present, fractions, -1.0).max(axis=0)
    low = np.where(present, fractions, 2.0).min(axis=0)
    return np.where(count == 2, np.abs((high - low) / 2), np.where(count > 2, spread, 0.0))
