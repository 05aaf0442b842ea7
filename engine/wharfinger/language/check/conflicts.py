"""Scores that cannot change which node wins, and scores that prefer exactly what a filter rejects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Label, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.bounds import MAX_POINTS, Interval
from wharfinger.language.semantics.catalogue import PluginRecord
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.intervals import Intervals
from wharfinger.language.semantics.typed import walk
from wharfinger.language.semantics.types import Shape


def same_for_all(intervals: Intervals, score: typed.Score) -> tuple[Span, str] | None:
    """(place, reason in a few words) of a score that is the same for every node; None when it can differ."""
    if intervals.of(score.weight) == (0, 0):
        return score.weight.span, "weight 0"
    if score.when is not None and score.when.type.shape is Shape.NODE:
        return None
    low, high = intervals.of(score.value)
    constant = low == high and not score.value.type.optional
    if score.value.type.shape is Shape.NODE and not constant:
        return None
    return score.value.span, "the same for every node"


class Tier(msgspec.Struct):
    """The scores of one tier: how many there are, the sum of their largest weights, and how many have no largest one."""

    scores: int = 0
    weights: float = 0.0
    unlimited: int = 0

    def sum_of_others(self, most: float) -> float:
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


def dominated(
    intervals: Intervals, plugins: Mapping[str, PluginRecord], policy: typed.Policy, score: typed.Score, tier: Tier
) -> tuple[str, str] | None:
    """A message and a help when one step of a two-valued score outweighs everything else in its tier; None otherwise.

    `plugins` are Kubernetes' own scores, which are in tier 1.
    """
    step = _step(intervals, score)
    own, most = intervals.of(score.weight)
    others = tier.sum_of_others(most)
    if not step or tier.scores == 1 or math.isinf(others):
        return None
    base = _base(intervals, plugins, policy) if score.tier == 1 else 0.0
    rest = base + others * MAX_POINTS
    least = own * step
    if least <= rest:
        return None
    share = f"{least:g} points against at most {rest:g}" + (f", {base:g} of them Kubernetes' own" if base else "")
    message = f"`{score.name}` outweighs everything else in its tier: {share}"
    return message, f"for the others to have an influence, use a weight of at most {math.floor(rest / step):g}"


def _step(intervals: Intervals, score: typed.Score) -> float:
    """The difference between the two values of a score that has two; 0 for any other."""
    value = score.value
    if not isinstance(value, typed.If) or score.when is not None or score.normalize.value != "none":
        return 0.0
    ends: list[Interval] = [intervals.of(value.then), intervals.of(value.otherwise)]
    return abs(ends[0][0] - ends[1][0]) if all(low == high for low, high in ends) else 0.0


def _base(intervals: Intervals, plugins: Mapping[str, PluginRecord], policy: typed.Policy) -> float:
    """The points that Kubernetes' own scores can give in total."""
    weights = {name: plugin.weight or 0.0 for name, plugin in plugins.items()}
    for override in policy.base:
        if override.weight is not None:
            weights[override.plugin] = intervals.of(override.weight)[1]
    return sum(weights.values()) * MAX_POINTS


class _Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A clause that rejects some nodes; for all pods, or for those of its own policy only."""

    policy: str
    span: Span
    for_all: bool


def report_conflicts(policies: Sequence[typed.Policy], allowed: Mapping[Span, frozenset[str]], diagnostics: Diagnostics) -> None:
    """Report each score that prefers what some filter of these policies rejects, unless `allowed` keeps that away from the score."""
    rejected = {text: rejection for policy in policies for text, rejection in _rejected(policy)}
    for policy in policies:
        lets = {let.name: let.value for let in policy.lets}
        for score in policy.scores:
            found = rejected.get(_preferred(lets, score) or "")
            relevant = found is not None and (found.for_all or found.policy == policy.name)
            if found is not None and relevant and Code.L303.name not in allowed.get(score.span, frozenset()):
                _report(diagnostics, score, found.span)


def _report(diagnostics: Diagnostics, score: typed.Score, rejection: Span) -> None:
    same = rejection.source is score.span.source
    diagnostics.error(
        Code.L303,
        f"`{score.name}` prefers exactly the nodes that a filter rejects",
        score.span,
        label="can never be followed",
        others=(Label(rejection, "rejects them"),) if same else (),
        help=None if same else f"the filter is at {rejection}",
    )


def _rejected(policy: typed.Policy) -> Iterator[tuple[str, _Rejection]]:
    """Conditions of nodes that are always rejected, as text."""
    lets = {let.name: let.value for let in policy.lets}
    for rule in policy.filters:
        for clause in rule.clauses if rule.when is None else ():
            text = _text(lets, clause.condition, opposite=True)
            if text is not None:
                yield text, _Rejection(policy=policy.name, span=clause.span, for_all=policy.scope is None)


def _preferred(lets: Mapping[str, typed.Expr], score: typed.Score) -> str | None:
    """The condition under which a score with two values gives more points, as text."""
    value = score.value
    if not isinstance(value, typed.If) or not isinstance(value.then, typed.Const) or not isinstance(value.otherwise, typed.Const):
        return None
    return _text(lets, value.condition, opposite=value.then.value < value.otherwise.value)


def _text(lets: Mapping[str, typed.Expr], condition: typed.Expr, *, opposite: bool) -> str | None:
    """A condition as text with the same meaning in every policy; None if it contains names of its policy."""
    while isinstance(condition, typed.LetRef):
        condition = lets[condition.name]
    if any(isinstance(part, (typed.ParamRef, typed.LetRef, typed.MetricRef)) for part in walk(condition)):
        return None
    if not opposite:
        return describe(condition)
    if isinstance(condition, typed.Operation) and condition.op is typed.Op.NOT:
        return _text(lets, condition.operands[0], opposite=False)
    return describe(typed.Operation(span=condition.span, type=condition.type, op=typed.Op.NOT, operands=(condition,)))
