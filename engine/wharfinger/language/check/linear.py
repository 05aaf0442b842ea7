"""Whether one constant expression is larger than another for every value of the params.

Intervals alone cannot tell that `target + 10%` is larger than `target`, because they forget that both mean the same param. So differences
are brought into the form `c0 + c1·p1 + c2·p2 …` first, where what both sides have in common cancels.
"""

from __future__ import annotations

import math

from wharfinger.language import typed
from wharfinger.language.intervals import Intervals

Linear = dict[str, float]
ONE = ""  # the coefficient without a param


def increases(intervals: Intervals, before: typed.Expr, after: typed.Expr) -> bool:
    """Whether `after` is larger than `before` for all values that the params can take."""
    left, right = linear(before), linear(after)
    if left is None or right is None:
        return intervals.of(after)[0] > intervals.of(before)[1]
    low = 0.0
    for name in {*left, *right}:
        factor = right.get(name, 0.0) - left.get(name, 0.0)
        ends = (1.0, 1.0) if name == ONE else intervals.params.get(name, (-math.inf, math.inf))
        low += 0.0 if factor == 0 else min(factor * ends[0], factor * ends[1])
    return low > 0


def linear(expr: typed.Expr) -> Linear | None:
    """The coefficients of a linear expression over params, or None when it is not linear."""
    if isinstance(expr, typed.Const) and isinstance(expr.value, (int, float)):
        return {ONE: float(expr.value)}
    if isinstance(expr, typed.ParamRef):
        return {expr.name: 1.0}
    if not isinstance(expr, typed.Operation):
        return None
    parts = [linear(operand) for operand in expr.operands]
    known = [part for part in parts if part is not None]
    return _combined(expr.op, known) if len(known) == len(parts) else None


def _combined(op: typed.Op, parts: list[Linear]) -> Linear | None:
    if op is typed.Op.NEG:
        return _scaled(parts[0], -1.0)
    if op in (typed.Op.ADD, typed.Op.SUB):
        right = parts[1] if op is typed.Op.ADD else _scaled(parts[1], -1.0)
        return {name: parts[0].get(name, 0.0) + right.get(name, 0.0) for name in {*parts[0], *right}}
    if op is typed.Op.MUL:
        for factor, rest in (parts, parts[::-1]):
            if set(factor) <= {ONE}:
                return _scaled(rest, factor.get(ONE, 0.0))
    if op is typed.Op.DIV and set(parts[1]) <= {ONE} and parts[1].get(ONE):
        return _scaled(parts[0], 1 / parts[1][ONE])
    return None


def _scaled(part: Linear, factor: float) -> Linear:
    return {name: value * factor for name, value in part.items()}
