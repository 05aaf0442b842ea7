"""NodeResourcesBalancedAllocation: prefers nodes whose use of resources becomes more balanced with the pod.

Since Kubernetes 1.35 the score is not the balance after the placement but its change by the pod, so that the imbalance caused by other pods
does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wharfinger.framework.extension import Arguments, ScorePlugin
from wharfinger.framework.plugins.resources.resource_columns import ResourceScore, ResourceSpec, ScoredLanes, scored_lanes, volatility
from wharfinger.framework.prepared import SKIP_ALWAYS, Attempt, Mask, PreparedScore, Rows, Skip

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot


class BalancedAllocationArguments(Arguments):
    """NodeResourcesBalancedAllocationArgs: the resources to balance; weights are accepted and not used, as in Kubernetes."""

    resources: tuple[ResourceSpec, ...] = Field(default=(ResourceSpec(name="cpu"), ResourceSpec(name="memory")), min_length=1)


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
        self._added: list[int] = lanes.added[:, 0].tolist()

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The points."""
        allocatable, requested, _ = self._lanes.columns(snapshot, rows)
        change = _balance(requested, allocatable) - _balance(requested - self._lanes.added, allocatable)
        return np.asarray(50 + (50 + change) // 2)

    def raw_at(self, snapshot: Snapshot, row: int) -> float:
        """The points of one node."""
        amounts = self._lanes.at(snapshot, row)
        if len(amounts) != 2 or not (amounts[0][0] and amounts[1][0]):
            return super().raw_at(snapshot, row)
        before = [(allocatable, requested - added) for (allocatable, requested), added in zip(amounts, self._added, strict=True)]
        return 50 + (50 + _balance_of_two(amounts) - _balance_of_two(before)) // 2


def _balance_of_two(amounts: Sequence[tuple[int, int]]) -> int:
    """`_balance` for one node that has both of two resources, from (allocatable, requested) of each."""
    (first, first_used), (second, second_used) = amounts
    difference = min(float(first_used) / float(first), 1.0) - min(float(second_used) / float(second), 1.0)
    return int((1.0 - abs(difference / 2)) * 100.0)


def _balance(requested: NDArray[np.int64], allocatable: NDArray[np.int64]) -> NDArray[np.int64]:
    """The balance of the used resources, `(n_rows,) int64` 50..100: one minus the standard deviation of the used fractions, in percent."""
    if len(allocatable) == 2 and allocatable.all():
        fractions = np.minimum(requested / allocatable, 1.0)
        return np.asarray(((1.0 - np.abs((fractions[0] - fractions[1]) / 2)) * 100.0).astype(np.int64))
    present = allocatable != 0
    fractions = np.where(present, np.minimum(requested / np.where(present, allocatable, 1), 1.0), 0.0)
    return ((1.0 - _deviation(fractions, present)) * 100.0).astype(np.int64)


def _deviation(fractions: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The standard deviation over the resources that a node has; 0 for one resource, half the difference for two.

    Resources are added one after the other, as in Kubernetes: the order of NumPy's own sum differs between one node and all nodes.
    """
    count = present.sum(axis=0)
    mean = reduce(np.add, fractions) / np.maximum(count, 1)
    deviations = [np.where(there, np.square(fraction - mean), 0.0) for fraction, there in zip(fractions, present, strict=True)]
    spread = np.sqrt(reduce(np.add, deviations) / np.maximum(count, 1))
    high = np.where(present, fractions, -1.0).max(axis=0)
    low = np.where(present, fractions, 2.0).min(axis=0)
    return np.where(count == 2, np.abs((high - low) / 2), np.where(count > 2, spread, 0.0))
