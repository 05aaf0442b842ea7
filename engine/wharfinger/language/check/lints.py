"""Warnings about valid policies that probably do not do what their author intends.

Unused names, rules that never apply, conditions that are always true, scores without influence. Only a policy without errors is looked at,
because an error is often the reason why a name is not used. `@allow("L301")` before a rule or declaration keeps a warning away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from wharfinger.language import ast
from wharfinger.language.check.conflicts import Tier, dominated, same_for_all, tiers
from wharfinger.language.check.constant_conditions import (
    ALWAYS,
    NEVER,
    STEPS_PER_QUESTION,
    ConditionTruth,
    Domain,
    Known,
    conjuncts,
    known_from,
    own_domain,
    restriction,
)
from wharfinger.language.check.context import MAX_STEPS, Binding, Context, EnoughFindings, TooMuchWork
from wharfinger.language.check.expressions.functions import DeclaredFunction
from wharfinger.language.check.missing import Facts, Presence, default_text, guard_text, subject_of
from wharfinger.language.check.rules import possible
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.typed import walk
from wharfinger.language.semantics.types import NUMERIC


class Lints(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the lints of a policy."""

    context: Context
    presence: Presence
    truths: ConditionTruth
    policy: typed.Policy
    allowed: Mapping[Span, frozenset[str]]  # codes kept away, by the span of the name of a rule or declaration
    everywhere: frozenset[str]  # codes kept away from the whole policy

    def warn(self, code: Code, message: str, span: Span, owner: Span | None = None, **more: object) -> None:
        """Report a warning about something that belongs to a rule, unless the rule keeps it away."""
        if code.name not in self.allowed.get(owner or span, self.everywhere):
            self.context.error(code, message, span, **more)


def lint(context: Context, presence: Presence, policy: typed.Policy, syntax: ast.Policy) -> None:
    """Report warnings about a policy without errors; not all of them if there are hundreds, or if the policy is too complex."""
    context.work.steps = 0
    try:
        _lint(context, presence, policy, syntax)
    except TooMuchWork:
        help_ = "the policy has no errors; warnings about the rest of it are not reported"
        message = f"looking for warnings in this policy takes more than {MAX_STEPS:,} steps"
        context.diagnostics.error(Code.L103, message, context.work.at or syntax.name.span, label="the check stopped here", help=help_)
    except EnoughFindings:
        pass


def _lint(context: Context, presence: Presence, policy: typed.Policy, syntax: ast.Policy) -> None:
    truths = ConditionTruth(context.lets, context.intervals, context.work)
    lints = Lints(
        context=context,
        presence=presence,
        truths=truths,
        policy=policy,
        allowed=allowed_by(syntax),
        everywhere=_codes(syntax.annotations),
    )
    unused_names(lints, context.names)
    if not (
        policy.filters
        or policy.scores
        or policy.base
        or policy.tie_break
        or policy.quantum
        or policy.victims
        or policy.group
        or policy.permits
        or policy.device_preferences
    ):
        lints.warn(Code.L102, f"policy `{policy.name}` decides nothing", syntax.name.span, help="give it a `filter` or a `score`")
    known = _scope(lints)
    for rule in policy.filters:
        context.work.at = rule.span
        _filter(lints, rule, known)
    by_number = tiers(context.intervals, policy.scores)
    for score in policy.scores:
        context.work.at = score.span
        _when(lints, score.when, score.span, known)
        _influence(lints, score, by_number[score.tier])
    needless_handling(lints)


def allowed_by(policy: ast.Policy) -> dict[Span, frozenset[str]]:
    """The codes that `@allow("…")` keeps away, by the span of the name they are about; those before the policy count for all of it."""
    everywhere = _codes(policy.annotations)
    return {getattr(item, "name_span", item.span): _codes(item.annotations) | everywhere for item in policy.items}


def allowed_within(policy: ast.Policy) -> tuple[tuple[Span | None, frozenset[str]], ...]:
    """The codes that `@allow("…")` keeps away, by the span of the whole annotated statement; None for all of the policy."""
    spans = [(None, _codes(policy.annotations)), *((item.span, _codes(item.annotations)) for item in policy.items)]
    return tuple((span, codes) for span, codes in spans if codes)


def _codes(annotations: Iterable[ast.Annotation]) -> frozenset[str]:
    values = (a.value for a in annotations if a.name == "allow" and a.value is not None)
    return frozenset(text for value in values for text in _texts(value))


def _texts(value: ast.Expr) -> Iterator[str]:
    if isinstance(value, ast.String):
        yield value.value
    elif isinstance(value, ast.SetLiteral):
        for item in value.items:
            yield from _texts(item)


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def unused_names(lints: Lints, names: Mapping[str, Binding]) -> None:
    """Report declarations that nothing refers to."""
    for binding in names.values():
        if not binding.used:
            help_ = "remove it, or use it in a rule"
            lints.warn(Code.L101, f"{binding.what} `{binding.name}` is never used", binding.span, label="not used", help=help_)
        for parameter in binding.function.unused if isinstance(binding.function, DeclaredFunction) else ():
            message, help_ = f"parameter `{parameter.name}` is never used", "remove it, or use it in the function"
            lints.warn(Code.L101, message, parameter.span, binding.span, label="not used", help=help_)


# ── conditions ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _scope(lints: Lints) -> Known:
    """The facts known of governed pods."""
    scope = lints.policy.scope
    if scope is None:
        return {}
    negations(lints, scope, scope.span, "the policy does not govern pods")
    if lints.truths.of(scope) == NEVER:
        reason = lints.truths.reason(scope)
        lints.warn(Code.L202, "this policy governs no pod", reason.span, label=explained(lints, reason, {}, NEVER))
    return known_from(lints.context.intervals, conjuncts(scope, lints.context.lets), {})


def _when(lints: Lints, when: typed.Expr | None, rule: Span, known: Known) -> Known:
    """The facts known where a rule applies."""
    if when is None:
        return known
    facts = lints.presence.where_true(lints.policy.scope) if lints.policy.scope is not None else frozenset[str]()
    negations(lints, when, rule, "the rule does not apply", facts)
    if lints.truths.of(when, known) == NEVER:
        reason = lints.truths.reason(when, known)
        label = explained(lints, reason, known, NEVER)
        lints.warn(Code.L203, "this rule never applies", reason.span, rule, label=label, others=(Label(rule, "dead"),))
    return {**known, **known_from(lints.context.intervals, conjuncts(when, lints.context.lets), known)}


def _filter(lints: Lints, rule: typed.Filter, known: Known) -> None:
    known = _when(lints, rule.when, rule.span, known)
    demanded = Demanded(lints)
    for clause in rule.clauses:
        truth = lints.truths.of(clause.condition, known)
        if truth in (ALWAYS, NEVER):
            reason = lints.truths.reason(clause.condition, known)
            label = explained(lints, reason, known, truth)
            code, verdict = (Code.L201, f"this clause of `{rule.name}` rejects no node")
            if truth == NEVER:
                code, verdict = (Code.L202, f"filter `{rule.name}` rejects every node")
            lints.warn(code, verdict, reason.span, rule.span, label=label)
        elif (first := demanded.implying(clause)) is not None:
            others = (Label(first, "already demanded here"),)
            message = f"this clause of `{rule.name}` rejects no further node"
            lints.warn(Code.L204, message, clause.condition.span, rule.span, label="implied by an earlier clause", others=others)
        demanded.add(clause)


class Demanded:
    """The demands of the earlier clauses of a filter: conditions by their text, and the remaining intervals of quantities."""

    def __init__(self, lints: Lints) -> None:
        self.lints = lints
        self.conditions: dict[str, Span] = {}
        self.quantities: dict[str, Domain] = {}
        self.spans: dict[str, Span] = {}  # of the last clause about a quantity

    def add(self, clause: typed.Clause) -> None:
        """Add the demands of a clause; it has none where it is missing and passes."""
        if clause.missing_passes:
            return
        span = clause.condition.span
        conditions = self._conjuncts(clause)
        for condition in conditions:
            self.conditions.setdefault(describe(condition), span)
        found = known_from(self.lints.context.intervals, conditions, self.quantities)
        self.quantities |= found
        self.spans |= dict.fromkeys(found, span)

    def _conjuncts(self, clause: typed.Clause) -> list[typed.Expr]:
        found = conjuncts(clause.condition, self.lints.context.lets)
        self.lints.context.work.spend(STEPS_PER_QUESTION * len(found))
        return found

    def implying(self, clause: typed.Clause) -> Span | None:
        """The clause that already demands all that this one does; None when it demands more."""
        found: Span | None = None
        for condition in self._conjuncts(clause):
            found = self.conditions.get(describe(condition)) or self._bounded(condition)
            if found is None:
                return None
        return found

    def _bounded(self, condition: typed.Expr) -> Span | None:
        opposite = restriction(self.lints.context.intervals, condition, truth=False)
        if opposite is None:
            return None
        text = describe(opposite[0])
        return self.spans[text] if text in self.quantities and self.quantities[text].without(opposite[1]) else None


def explained(lints: Lints, reason: typed.Expr, known: Known, truth: frozenset[bool]) -> str:
    """The explanation of a condition that is always true or false: "always true: `count(…)` is 0 or more"."""
    word = "always true" if truth == ALWAYS else "never true"
    restricted = restriction(lints.context.intervals, reason)
    if restricted is None or restricted[0].type.kind not in NUMERIC or isinstance(restricted[0], typed.Const):
        return word
    domain = known.get(describe(restricted[0])) or own_domain(lints.context.intervals, restricted[0])
    values = possible((domain.low, domain.high), restricted[0].type.kind)
    return f"{word}: `{describe(restricted[0])}` is {values}" if values != "any number" else word


def negations(lints: Lints, condition: typed.Expr, rule: Span, consequence: str, facts: Facts = frozenset()) -> None:
    """Report `!=`, `not` and `not in` of something that may be missing, where missing means "does not apply"."""
    if isinstance(condition, typed.Operation) and condition.op in (typed.Op.AND, typed.Op.OR):
        left, right = condition.operands
        known = lints.presence.not_false if condition.op is typed.Op.AND else lints.presence.not_true
        negations(lints, left, rule, consequence, lints.presence.with_more(left, facts, known(right)))
        negations(lints, right, rule, consequence, lints.presence.with_more(right, facts, known(left)))
    elif isinstance(condition, typed.Operation) and condition.op is typed.Op.NOT:
        causes = lints.presence.causes(condition, facts)
        if causes:
            message = f"where {subject_of(causes[0])} is missing, {consequence}"
            help_ = f"say what is meant: `({default_text(causes[0])})`, or `not {guard_text(causes[0])} or …`"
            lints.warn(Code.L402, message, condition.span, rule, label="missing is not true either", help=help_)


# ── scores ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _influence(lints: Lints, score: typed.Score, tier: Tier) -> None:
    why = same_for_all(lints.context.intervals, score)
    if why is not None:
        span, label = why
        lints.warn(Code.L301, f"score `{score.name}` never changes which node wins", span, score.span, label=label)
        return
    found = dominated(lints.context.intervals, lints.context.catalogue.score_plugins(), lints.policy, score, tier)
    if found is not None:
        message, help_ = found
        lints.warn(Code.L302, message, score.span, label="dominates", help=help_)


# ── missing values ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def needless_handling(lints: Lints) -> None:
    """Report `??`, `has` and `on missing` for values that are never missing."""
    for expr, owner in expressions(lints.policy):
        for part in walk(expr):
            if part.span.source is lints.policy.source:
                _part_without_effect(lints, part, owner)
    for rule in (*lints.policy.filters, *lints.policy.permits):
        for clause in rule.clauses:
            if clause.missing_passes is not None and not clause.condition.type.optional:
                _action_without_effect(lints, "condition", clause.condition.span, rule.span)
    for score in lints.policy.scores:
        if score.on_missing is not None and not score.value.type.optional:
            _action_without_effect(lints, "score", score.value.span, score.span)


def _part_without_effect(lints: Lints, part: typed.Expr, owner: Span) -> None:
    if isinstance(part, typed.Operation) and part.op is typed.Op.COALESCE and not part.operands[0].type.optional:
        left, right = part.operands
        message = f"`{describe(left)}` is never missing"
        lints.warn(Code.L401, message, right.span, owner, label="never used", help="leave `?? …` out")
    elif isinstance(part, typed.Has) and not part.operand.type.optional:
        message = f"`{describe(part.operand)}` is never missing"
        lints.warn(Code.L401, message, part.span, owner, label="always true")


def _action_without_effect(lints: Lints, what: str, span: Span, owner: Span) -> None:
    lints.warn(Code.L401, f"this {what} is never missing", span, owner, help="leave `on missing …` out")


def expressions(policy: typed.Policy) -> Iterator[tuple[typed.Expr, Span]]:
    """Every expression of a policy's own text with the span of the name it belongs to."""
    for let in policy.lets:
        if (
            let.written and let.span.source is policy.source
        ):  # a condition that has no effect in one call of a function may have one in another
            yield let.value, let.span
    if policy.scope is not None:
        yield policy.scope, policy.scope.span
    if policy.group is not None:
        yield from ((e, policy.group.span) for e in (policy.group.by, policy.group.min_count) if e is not None)
    for rule in (*policy.filters, *policy.permits):
        yield from ((e, rule.span) for e in (rule.when, *(clause.condition for clause in rule.clauses)) if e is not None)
        yield from ((p, rule.span) for clause in rule.clauses for p in clause.message.parts if isinstance(p, typed.Expr))
    for score in policy.scores:
        yield from ((e, score.span) for e in (score.when, score.value, score.weight) if e is not None)
    for preference in policy.device_preferences:
        yield from ((e, preference.span) for e in (preference.when, preference.value) if e is not None)
    yield from ((victim.condition, victim.span) for victim in policy.victims)
    for key in policy.tie_break:
        yield key.value, key.value.span
