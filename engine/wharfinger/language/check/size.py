"""How much a policy calculates: what compiling it and each decision with it take time in proportion to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wharfinger.language import typed
from wharfinger.language.check.context import Context
from wharfinger.language.check.walk import parts
from wharfinger.language.codes import Code
from wharfinger.language.source import Span

MOST_OPERATIONS = 10_000


def small_enough(context: Context, policy: typed.Policy) -> bool:
    """Whether the rules of a policy together calculate no more than they may; reports the rule with which it becomes too much."""
    lets = {let.name: let.value for let in policy.lets}
    total = operations([let.value for let in policy.lets], {})
    for span, exprs in _rules(policy):
        total += operations(exprs, lets)
        if total > MOST_OPERATIONS:
            context.error(
                Code.P009,
                f"the rules of this policy need more than {MOST_OPERATIONS:,} operations",
                span,
                label="with this one it is too much",
                help="split the policy into several; test membership with `in […]` and not with a chain of `or`",
            )
            return False
    return True


def _rules(policy: typed.Policy) -> Iterator[tuple[Span, list[typed.Expr]]]:
    """The expressions of each rule, with where the rule stands."""
    if policy.scope is not None:
        yield policy.scope.span, [policy.scope]
    for rule in policy.filters:
        holes = [part for clause in rule.clauses for part in clause.message.parts if isinstance(part, typed.Expr)]
        yield rule.span, [*_given(rule.when), *(clause.condition for clause in rule.clauses), *holes]
    for score in policy.scores:
        yield score.span, [*_given(score.when), score.value, score.weight]
    for victim in policy.victims:
        yield victim.span, [victim.condition]
    for key in policy.tie_break:
        yield key.value.span, [key.value]


def _given(expr: typed.Expr | None) -> list[typed.Expr]:
    return [] if expr is None else [expr]


def operations(exprs: Sequence[typed.Expr], lets: Mapping[str, typed.Expr]) -> int:
    """The reads, operators and calls in some expressions; each of `lets` that they use counts once, however often it is used."""
    count = 0
    pending, followed = list(exprs), set[str]()
    while pending:
        inner = pending.pop()
        if isinstance(inner, typed.LetRef):
            if inner.name in lets and inner.name not in followed:
                followed.add(inner.name)
                pending.append(lets[inner.name])
            continue
        if not isinstance(inner, (typed.Const, typed.ParamRef, typed.SubjectRef)):
            count += 1 + (len(inner.requirements) if isinstance(inner, typed.Matches) else 0)
        pending.extend(parts(inner))
    return count
