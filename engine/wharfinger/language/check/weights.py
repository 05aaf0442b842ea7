"""Whether a score can change which node wins, and whether it alone decides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wharfinger.language import typed
from wharfinger.language.bounds import Interval
from wharfinger.language.intervals import Intervals
from wharfinger.language.source import Span
from wharfinger.language.types import Shape

# Weights of kube-scheduler 1.36 (pkg/scheduler/apis/config/v1/default_plugins.go); these scores are in tier 1.
BASE_WEIGHTS: Mapping[str, float] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
MOST = 100.0


def same_for_all(intervals: Intervals, score: typed.Score) -> tuple[Span, str] | None:
    """Where one sees that a score is the same for every node, and a few words; None when it can differ."""
    if intervals.of(score.weight) == (0, 0):
        return score.weight.span, "weight 0"
    if score.when is not None and score.when.type.shape is Shape.NODE:
        return None
    low, high = intervals.of(score.value)
    constant = low == high and not score.value.type.optional
    if score.value.type.shape is Shape.NODE and not constant:
        return None
    return score.value.span, "the same for every node"


@dataclass(slots=True)
class Tier:
    """The scores of one tier: how many there are, the sum of their largest weights, and how many have no largest one."""

    scores: int = 0
    weights: float = 0.0
    unlimited: int = 0

    def beside(self, most: float) -> float:
        """The sum of the largest weights of all others but a score whose own is `most`."""
        if math.isinf(most):
            return self.weights if self.unlimited == 1 else math.inf
        return math.inf if self.unlimited else self.weights - most


def tiers(intervals: Intervals, scores: Sequence[typed.Score]) -> dict[int, Tier]:
    """The tiers of some scores by their numbers, added up once for all of them."""
    found: dict[int, Tier] = {}
    for score in scores:
        tier, most = found.setdefault(score.tier, Tier()), intervals.of(score.weight)[1]
        tier.scores += 1
        tier.unlimited += math.isinf(most)
        tier.weights += 0.0 if math.isinf(most) else most
    return found


def dominated(intervals: Intervals, policy: typed.Policy, score: typed.Score, tier: Tier) -> tuple[str, str] | None:
    """A message and a help when one step of a two-valued score outweighs everything else in its tier; None otherwise."""
    step = _step(intervals, score)
    own, most = intervals.of(score.weight)
    others = tier.beside(most)
    if not step or tier.scores == 1 or math.isinf(others):
        return None
    base = _base(intervals, policy) if score.tier == 1 else 0.0
    rest = base + others * MOST
    least = own * step
    if least <= rest:
        return None
    share = f"{least:g} points against at most {rest:g}" + (f", {base:g} of them Kubernetes' own" if base else "")
    message = f"`{score.name}` outweighs everything else in its tier: {share}"
    return message, f"if the others are meant to have a say, a weight of at most {math.floor(rest / step):g} leaves them one"


def _step(intervals: Intervals, score: typed.Score) -> float:
    """The difference between the two values of a score that has two; 0 for any other."""
    value = score.value
    if not isinstance(value, typed.If) or score.when is not None or score.normalize.value != "none":
        return 0.0
    ends: list[Interval] = [intervals.of(value.then), intervals.of(value.otherwise)]
    return abs(ends[0][0] - ends[1][0]) if all(low == high for low, high in ends) else 0.0


def _base(intervals: Intervals, policy: typed.Policy) -> float:
    """The points that Kubernetes' own scores can give in total."""
    weights = dict(BASE_WEIGHTS)
    for override in policy.base:
        if override.weight is not None:
            weights[override.plugin] = intervals.of(override.weight)[1]
    return sum(weights.values()) * MOST
