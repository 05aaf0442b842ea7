"""`preemption { … }`: which placed pods may have to leave for a governed pod.

Kubernetes lets a pod evict any pod of lower priority. The rules here can only take pods away from those: every rule of every policy that
governs the pod has to agree before another is evicted for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.language import ast, typed
from wharfinger.language.ast import MissingAction
from wharfinger.language.check.context import VICTIM, is_unknown
from wharfinger.language.check.forms import condition
from wharfinger.language.check.missing import Causes
from wharfinger.language.check.operations import negated
from wharfinger.language.check.rules import RuleContext
from wharfinger.language.check.verdicts import subject_of, ways_out, why
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Label


def victims_of(rules: RuleContext, items: Sequence[ast.Preemption]) -> tuple[typed.VictimRule, ...]:
    """The rules about victims that are right, in order; several blocks are one."""
    found = (_victim_rule(rules, rule) for item in items for rule in item.rules)
    return tuple(rule for rule in found if rule is not None)


def _victim_rule(rules: RuleContext, rule: ast.VictimRule) -> typed.VictimRule | None:
    context = rules.context.at(VICTIM)
    context.work.at = rule.span
    asked = condition(context, rule.condition, f"`{_word(rule)}`")
    if is_unknown(asked):
        return None
    causes = rules.presence.causes(asked, rules.known)
    if causes and rule.on_missing is None:
        _unhandled(rules, rule, asked, causes)
        return None
    return typed.VictimRule(
        span=rule.span,
        condition=asked if rule.is_only else negated(asked, asked.span),
        missing_evicts=rule.on_missing.action is MissingAction.EVICT if rule.on_missing else None,
    )


def _word(rule: ast.VictimRule) -> str:
    return "only_evict" if rule.is_only else "never_evict"


def _unhandled(rules: RuleContext, rule: ast.VictimRule, asked: typed.Expr, causes: Causes) -> None:
    """Reports that the condition may be missing, naming the innermost cause and the three ways out."""
    cause = causes[0]
    within = asked.span.source is cause.span.source and asked.span.start <= cause.span.start and cause.span.end <= asked.span.end
    rules.context.error(
        Code.P404,
        f"`{_word(rule)}` says nothing about pods where {subject_of(cause)} is missing",
        cause.span if within else asked.span,
        label=why(cause) if within else "may be missing",
        others=() if within else (Label(cause.span, why(cause)),),
        help=f"{ways_out(cause)}; or end the rule with `on missing keep` or `on missing evict`",
    )
