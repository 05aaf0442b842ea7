"""Rules that fight: a score that prefers exactly what a filter rejects, in one policy or between two.

Several policies may govern one pod and their authors may not know of each other. Filters are joined with `and`, so the preference loses,
always. Only rules that say exactly the same thing are told apart here, which is what happens when a rule is copied and turned around.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wharfinger.language import typed
from wharfinger.language.check.walk import walk
from wharfinger.language.codes import Code
from wharfinger.language.describe import describe
from wharfinger.language.diagnostics import Diagnostics, Label
from wharfinger.language.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rejection:
    """A clause that rejects some nodes; for all pods, or for those of its own policy only."""

    policy: str
    span: Span
    for_all: bool


def report_fights(policies: Sequence[typed.Policy], allowed: Mapping[Span, frozenset[str]], diagnostics: Diagnostics) -> None:
    """Reports each score that prefers what some filter of these policies rejects, unless `allowed` keeps that away from the score."""
    rejected = {text: rejection for policy in policies for text, rejection in _rejected(policy)}
    for policy in policies:
        for score in policy.scores:
            found = rejected.get(_preferred(policy, score) or "")
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
    for rule in policy.filters:
        for clause in rule.clauses if rule.when is None else ():
            text = _text(policy, clause.condition, opposite=True)
            if text is not None:
                yield text, _Rejection(policy=policy.name, span=clause.span, for_all=policy.scope is None)


def _preferred(policy: typed.Policy, score: typed.Score) -> str | None:
    """The condition under which a score with two values gives more points, as text."""
    value = score.value
    if not isinstance(value, typed.If) or not isinstance(value.then, typed.Const) or not isinstance(value.otherwise, typed.Const):
        return None
    return _text(policy, value.condition, opposite=value.then.value < value.otherwise.value)


def _text(policy: typed.Policy, condition: typed.Expr, *, opposite: bool) -> str | None:
    """A condition as text that means the same in every policy; None where it has names of its own policy in it."""
    lets = {let.name: let.value for let in policy.lets}
    while isinstance(condition, typed.LetRef):
        condition = lets[condition.name]
    if any(isinstance(part, (typed.ParamRef, typed.LetRef, typed.MetricRef)) for part in walk(condition)):
        return None
    if not opposite:
        return describe(condition)
    if isinstance(condition, typed.Operation) and condition.op is typed.Op.NOT:
        return _text(policy, condition.operands[0], opposite=False)
    return describe(typed.Operation(span=condition.span, type=condition.type, op=typed.Op.NOT, operands=(condition,)))
