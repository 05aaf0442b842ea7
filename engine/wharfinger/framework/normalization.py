"""How Kubernetes turns a plugin's raw scores into points of 0..100.

Integer arithmetic as in Go (division truncates toward zero), because a total that is off by one picks another node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
