"""The answers of filters and scores, as values.

A filter evaluates many nodes at once, so its answer is one small integer per node: 0 lets the pod through, and each set bit is one reason.
The texts of reasons exist once per pod, not once per node; a diagnosis counts bits and builds no strings for nodes.

A score's points are 0..100. Kubernetes normalises in integer arithmetic as in Go (division truncates toward zero), because a total that
is off by one picks another node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = slice | NDArray[np.intp]
"""Rows of the columns: `slice(None)` for all nodes, or an index array `(n_rows,) intp`."""

Mask: TypeAlias = NDArray[np.bool_]
Bits: TypeAlias = NDArray[np.unsignedinteger[Any]]

MAX_REASONS = 64


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a node is rejected, in Kubernetes' words.

    `resolvable`: removing pods from the node could change the answer (Kubernetes' `Unschedulable`); otherwise preemption does not help
    there (`UnschedulableAndUnresolvable`).
    """

    text: str
    resolvable: bool = True

    def __str__(self) -> str:
        return self.text


MAX_NODE_SCORE = 100


@dataclass(frozen=True, slots=True)
class DefaultNormalize:
    """`DefaultNormalizeScore` (pkg/scheduler/framework/plugins/helper/normalize_score.go, 1.36): the highest raw score becomes 100.

    With `reverse` the lowest is best: 100 minus that. Raw scores are not negative.
    """

    reverse: bool = False
    least: float = -math.inf

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:  # noqa: ARG002 — `low` is part of the contract
        """The points `(n_rows,) int64`; where the highest raw score is 0, all 100 (reverse) or unchanged."""
        top = int(high)
        if top == 0:
            return np.full(len(scores), MAX_NODE_SCORE, np.int64) if self.reverse else scores.astype(np.int64)
        scaled = scores.astype(np.int64) * MAX_NODE_SCORE // top
        return MAX_NODE_SCORE - scaled if self.reverse else scaled
