"""The proof that a score stays within 0..100 points, and what to say when there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wharfinger.language import ast, typed
from wharfinger.language.bounds import Interval
from wharfinger.language.check.context import Context
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Label
from wharfinger.language.types import NUMERIC, Kind
from wharfinger.language.units import readable

LEAST, MOST = 0.0, 100.0
TOLERANCE = 1e-9  # rounding of float64 on the way to exactly 0 or 100


def within_points(context: Context, item: ast.Score, value: typed.Expr, conditions: Sequence[typed.Expr]) -> bool:
    """Whether the interval of a score lies within 0..100 where some conditions are true; reports which values are possible otherwise."""
    intervals = context.intervals
    for condition in conditions:
        intervals = intervals.where(condition)
    low, high = intervals.of(value)
    if low >= LEAST - TOLERANCE and high <= MOST + TOLERANCE:
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
    """An interval for people: "0 or more", "−20 to 130", "any number"."""
    low, high = interval
    if math.isinf(low) and math.isinf(high):
        return "any number"
    if math.isinf(high):
        return f"{_end(low, kind)} or more"
    if math.isinf(low):
        return f"{_end(high, kind)} or less"
    return f"always {_end(low, kind)}" if low == high else f"{_end(low, kind)} to {_end(high, kind)}"


def _end(value: float, kind: Kind) -> str:
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
