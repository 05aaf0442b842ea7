"""Filters and scores: shorthand expanded, missing values accounted for, points proved to lie within 0..100."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from wharfinger.language import ast
from wharfinger.language.ast import MissingAction, Normalize, ScoreForm
from wharfinger.language.check.context import DEVICE_PREFERENCE, Context, condition, constant, infer, is_unknown, type_text
from wharfinger.language.check.expressions.values import SCALAR, literal_of, negated, of_kind, unit_help
from wharfinger.language.check.missing import Facts, Presence, unhandled
from wharfinger.language.parse.parser import parse_message
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.bounds import MAX_POINTS, MIN_POINTS, Interval
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.types import NUMERIC, PLAIN, Kind, Type, readable

TOLERANCE = 1e-9  # rounding of float64 on the way to exactly 0 or 100
READ_PLACEHOLDER = 20  # steps that reading one placeholder of a message takes
HIGHEST_TIER = 100


class RuleContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context in which rules are checked: the values that may be missing, and the guarantees of the policy's scope."""

    context: Context
    presence: Presence
    scope: typed.Expr | None
    known: Facts

    def given(self, when: typed.Expr | None) -> Facts:
        """The expressions that have a value in a rule with this guard."""
        return self.known | self.presence.where_true(when) if when is not None else self.known


# ── filters ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def filter_of(rules: RuleContext, item: ast.Filter | ast.Permit) -> typed.Filter | None:
    """The typed filter (of a `permit`: its conditions for the chosen node), or None when something in it is wrong."""
    rules.context.work.at = item.name_span
    when = condition(rules.context, item.when, "`when`") if item.when else None
    facts = rules.given(when) if when is not None and not is_unknown(when) else rules.known
    clauses: list[typed.Clause] = []
    for clause in item.clauses:
        rules.context.work.at = clause.span
        found = _clause(rules, item, clause, facts)
        if found is not None:
            clauses.append(found)
            rules.context.work.count_building(len(facts))
            facts |= rules.presence.not_false(found.condition) if found.missing_passes else rules.presence.where_true(found.condition)
    whole = len(clauses) == len(item.clauses) and not (when is not None and is_unknown(when))
    return typed.Filter(name=item.name, span=item.name_span, when=when, clauses=tuple(clauses)) if whole and clauses else None


def _clause(rules: RuleContext, item: ast.Filter | ast.Permit, clause: ast.Clause, facts: Facts) -> typed.Clause | None:
    word = "require" if clause.is_require else "reject"
    asked = condition(rules.context, clause.condition, f"`{word}`")
    message = (
        message_of(rules.context, clause.message, asked, is_require=clause.is_require) if not is_unknown(asked) or clause.message else None
    )
    if is_unknown(asked) or message is None:
        return None
    causes = rules.presence.causes(asked, facts)
    if causes and clause.on_missing is None:
        unhandled(rules.context, Code.P401, f"{'filter' if isinstance(item, ast.Filter) else 'permit'} `{item.name}`", asked, causes)
        return None
    return typed.Clause(
        span=clause.span,
        condition=asked if clause.is_require else negated(asked, asked.span),
        message=message,
        missing_passes=clause.on_missing.action is MissingAction.PASS if clause.on_missing else None,
    )


def message_of(context: Context, message: ast.String | None, condition: typed.Expr, *, is_require: bool) -> typed.Message:
    """The typed message of a clause; without one, the condition itself is the message."""
    if message is None:
        return typed.Message(parts=(f"{'requires' if is_require else 'rejects'} {describe(condition)}",))
    parts: list[str | typed.Expr] = []
    for part in parse_message(message, context.diagnostics):
        context.work.spend(READ_PLACEHOLDER)
        found = part if isinstance(part, str) else _placeholder(context, part)
        if found is not None:
            parts.append(found)
    return typed.Message(parts=tuple(parts))


def _placeholder(context: Context, expr: ast.Expr) -> typed.Expr | None:
    found = infer(context, expr)
    if is_unknown(found):
        return None
    if found.type.kind in SCALAR | {Kind.SET}:
        return found
    help_ = f"write `{{{found.span.text}.name}}`" if found.type.kind in (Kind.POD, Kind.NODE) else None
    if found.type.kind is Kind.PODS:
        help_ = f"write `{{count({found.span.text})}}`"
    context.error(Code.P213, f"{type_text(found.type)} cannot be printed", found.span, label=type_text(found.type), help=help_)
    return None


# ── scores ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def score_of(rules: RuleContext, item: ast.Score) -> typed.Score | None:
    """The typed score, or None when something in it is wrong."""
    context = rules.context
    context.work.at = item.name_span
    when = condition(context, item.when, "`when`") if item.when else None
    value = _value(context, item)
    weight = weight_of(context, item.weight, item)
    tier = tier_of(context, item.tier)
    spread = _min_spread(context, item, value)
    handled = _handled(rules, item, value, when)
    points = _missing_points(context, item)
    if (
        is_unknown(value, weight, *((when,) if when is not None else ()))
        or tier is None
        or not handled
        or is_unknown(*filter(None, (spread, points)))
    ):
        return None
    normalize = item.normalize or Normalize.NONE
    conditions = [condition for condition in (rules.scope, when) if condition is not None]
    if normalize is Normalize.NONE and not within_points(context, item, value, conditions):
        return None
    return typed.Score(
        name=item.name,
        span=item.name_span,
        tier=tier,
        weight=weight,
        when=when,
        value=value,
        normalize=normalize,
        min_spread=spread,
        on_missing=item.on_missing.action if item.on_missing else None,
        missing_points=points,
    )


def device_preference_of(rules: RuleContext, item: ast.DevicePreference) -> typed.DevicePreference | None:
    """The typed preference, or None when something in it is wrong."""
    context = rules.context
    context.work.at = item.name_span
    when = condition(context, item.when, "`when`") if item.when else None
    value = of_kind(infer(context.at(DEVICE_PREFERENCE), item.value), Kind.NUMBER)
    if is_unknown(value, *((when,) if when is not None else ())):
        return None
    if value.type.kind not in NUMERIC | {Kind.BOOL}:
        context.error(
            Code.P502,
            f"a preference of devices is a number or a condition, not {type_text(value.type)}",
            value.span,
            label=type_text(value.type),
            help='for example `prefer device tight = -it.free["milli"]`, or `prefer device fast = it.attributes["model"] == "H100"`',
        )
        return None
    return typed.DevicePreference(name=item.name, span=item.name_span, when=when, value=value)


def _value(context: Context, item: ast.Score) -> typed.Expr:
    if item.form is ScoreForm.SCORE:
        value = infer(context, item.value)
        return _in_points(context, item, value) if not is_unknown(value) else value
    asked = condition(context, item.value, f"`{item.form.value}`")
    if is_unknown(asked):
        return asked
    liked, other = (100.0, 0.0) if item.form is ScoreForm.PREFER else (0.0, 100.0)
    then, otherwise = (typed.Const(span=asked.span, type=Type(Kind.COUNT), value=points) for points in (liked, other))
    return typed.If(
        span=asked.span, type=Type(Kind.COUNT, asked.type.shape, asked.type.optional), condition=asked, then=then, otherwise=otherwise
    )


def _in_points(context: Context, item: ast.Score, value: typed.Expr) -> typed.Expr:
    """The value if it can become points: a plain number, or any number where `normalize` brings it onto the scale."""
    kind = value.type.kind
    if kind in PLAIN or (kind in NUMERIC and item.normalize in (Normalize.MINMAX, Normalize.MAX)):
        return value
    text = value.span.text
    help_: str | None
    if kind is Kind.BOOL:
        help_ = f"write `prefer {item.name} = {text}`: 100 points where it is true, 0 where it is false"
    elif kind is Kind.PERCENT:
        help_ = f"write `{text} * 100` for one point per percent, or `curve({text}, 0% -> 0, 100% -> 100)`"
    else:
        help_ = "add `normalize minmax` to rank the nodes, or draw a `curve`" if kind in NUMERIC else None
    return context.error(
        Code.P502, f"points are a plain number, not {type_text(value.type)}", value.span, label=type_text(value.type), help=help_
    )


def _min_spread(context: Context, item: ast.Score, value: typed.Expr) -> typed.Expr | None:
    if item.spread is None:
        return None
    found = infer(context.at(constant("the spread of `minmax`")), item.spread)
    if is_unknown(found, value):
        return found
    if found.type.kind is not value.type.kind and not {found.type.kind, value.type.kind} <= PLAIN:
        message = f"the spread of `minmax` is in the unit of the score, {type_text(value.type)}"
        return context.error(Code.P208, message, found.span, label=type_text(found.type), help=unit_help(value.type.kind, found))
    if context.intervals.of(found)[0] < 0:
        return context.error(Code.P505, "the spread of `minmax` may be negative", found.span, label="may be below 0")
    return found


def _handled(rules: RuleContext, item: ast.Score, value: typed.Expr, when: typed.Expr | None) -> bool:
    if is_unknown(value, *((when,) if when is not None else ())) or item.on_missing is not None:
        return True
    causes = rules.presence.causes(value, rules.given(when))
    if causes:
        unhandled(rules.context, Code.P402, f"{item.form.value} `{item.name}`", value, causes)
    return not causes


def _missing_points(context: Context, item: ast.Score) -> typed.Expr | None:
    if item.on_missing is None or item.on_missing.points is None:
        return None
    points = infer(context.at(constant("`on missing`")), item.on_missing.points)
    if is_unknown(points):
        return points
    if points.type.kind not in PLAIN:
        return context.error(
            Code.P502, f"points are a plain number, not {type_text(points.type)}", points.span, label=type_text(points.type)
        )
    low, high = context.intervals.of(points)
    if low < 0 or high > 100 or points.type.optional:
        return context.error(
            Code.P506, "points are between 0 and 100", points.span, label="may be outside", help="for example `on missing 0`"
        )
    return points


# ── points ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def within_points(context: Context, item: ast.Score, value: typed.Expr, conditions: Sequence[typed.Expr]) -> bool:
    """True if the interval of a score lies within 0..100 where the conditions are true; otherwise reports the possible values."""
    intervals = context.intervals
    for known in conditions:
        intervals = intervals.where(known)
    low, high = intervals.of(value)
    if low >= MIN_POINTS - TOLERANCE and high <= MAX_POINTS + TOLERANCE:
        return True
    text = value.span.text
    short = text if len(text) <= 40 and "\n" not in text else "…"
    context.error(
        Code.P501,
        f"score `{item.name}` may be {possible((low, high), Kind.NUMBER)}, and points are 0 to 100",
        value.span,
        label=possible((low, high), Kind.NUMBER),
        others=tuple(_wide(context, value))[:2],
        help=f"cut it off, `clamp({short}, 0, 100)`; or rank the nodes against each other, `normalize minmax`; or draw a `curve`",
        suggestion=f"clamp({text}, 0, 100)",
    )
    return False


def possible(interval: Interval, kind: Kind) -> str:
    """An interval as text: "0 or more", "−20 to 130", "any number"."""
    low, high = interval
    if math.isinf(low) and math.isinf(high):
        return "any number"
    if math.isinf(high):
        return f"{_bound_text(low, kind)} or more"
    if math.isinf(low):
        return f"{_bound_text(high, kind)} or less"
    return f"always {_bound_text(low, kind)}" if low == high else f"{_bound_text(low, kind)} to {_bound_text(high, kind)}"


def _bound_text(value: float, kind: Kind) -> str:
    return readable(value, kind).replace("-", "−")


def _wide(context: Context, value: typed.Expr) -> list[Label]:
    """Labels on the smallest parts without a limit: they are why the whole has none."""
    found: list[Label] = []
    pending = [value]
    while pending:
        expr = pending.pop(0)
        if expr.type.kind not in NUMERIC:
            continue
        interval = context.intervals.of(expr)
        parts = _parts(expr)
        if parts and any(math.isinf(end) for part in parts for end in context.intervals.of(part)):
            pending.extend(parts)
        elif any(map(math.isinf, interval)) and expr is not value and expr.span != value.span:
            found.append(Label(expr.span, possible(interval, expr.type.kind)))
    return found


def _parts(expr: typed.Expr) -> tuple[typed.Expr, ...]:
    if isinstance(expr, typed.Operation):
        return expr.operands
    if isinstance(expr, typed.If):
        return (expr.then, expr.otherwise)
    return expr.arguments if isinstance(expr, typed.Call) else ()


# ── weights and tiers ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def weight_of(context: Context, expr: ast.Expr | None, owner: ast.Score | ast.BaseEntry) -> typed.Expr:
    """The typed weight, 1 when none is given."""
    if expr is None:
        span = owner.name_span if isinstance(owner, ast.Score) else owner.plugin_span
        return typed.Const(span=span, type=Type(Kind.COUNT), value=1.0)
    found = infer(context.at(constant("a weight")), expr)
    if is_unknown(found):
        return found
    if found.type.kind not in PLAIN:
        return context.error(Code.P502, f"a weight is a plain number, not {type_text(found.type)}", found.span, label=type_text(found.type))
    if found.type.optional:
        return context.error(
            Code.P403, "this weight may be missing", found.span, label="may be missing", help="make sure that nothing is divided by 0"
        )
    low = context.intervals.of(found)[0]
    if low < 0:
        certain = isinstance(found, typed.Const)
        return context.error(
            Code.P503,
            "a weight is 0 or more" if certain else "this weight may be negative",
            found.span,
            label="negative" if certain else f"{'any number' if low == float('-inf') else f'as low as {low:g}'}",
            help="to prefer the opposite, turn the points around: `100 - …`, or `avoid` for `prefer`"
            if certain
            else "give the param a `range` that begins at 0",
        )
    return found


def tier_of(context: Context, expr: ast.Expr | None) -> int | None:
    """The tier, 1 when none is given; None after reporting why it cannot be one."""
    if expr is None:
        return 1
    found = literal_of(context, expr, Type(Kind.NUMBER), "a tier", Code.P505)
    if found is None:
        return None
    if found.value != int(found.value) or not 1 <= found.value <= HIGHEST_TIER:
        context.error(Code.P505, f"a tier is a whole number from 1 to {HIGHEST_TIER}", expr.span, label="not a tier")
        return None
    return int(found.value)
