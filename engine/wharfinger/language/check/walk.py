"""Going through typed expressions."""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.language import typed


def parts(expr: typed.Expr) -> tuple[typed.Expr, ...]:
    """The operands of an expression, in order."""
    if isinstance(expr, typed.Operation):
        return expr.operands
    if isinstance(expr, typed.If):
        return (expr.condition, expr.then, expr.otherwise)
    if isinstance(expr, typed.Curve):
        return (expr.x, *(e for point in expr.points for e in point))
    if isinstance(expr, typed.Call):
        return (*expr.arguments, *expr.named.values())
    if isinstance(expr, typed.Aggregate):
        return (expr.selection, expr.value) if expr.value is not None else (expr.selection,)
    found = {typed.Has: "operand", typed.Matches: "labels", typed.Select: "where", typed.AttributeRef: "key"}.get(type(expr))
    part = getattr(expr, found) if found else None
    return (part,) if part is not None else ()


def walk(expr: typed.Expr) -> Iterator[typed.Expr]:
    """An expression and everything in it, outside in; lets are not entered."""
    pending = [expr]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(parts(current)))


def height(expr: typed.Expr, lets: dict[str, int]) -> int:
    """How deep an expression is, lets included; `lets` holds their heights."""
    deepest = 0
    pending = [(expr, 1)]
    while pending:
        current, depth = pending.pop()
        deepest = max(deepest, depth + (lets.get(current.name, 0) if isinstance(current, typed.LetRef) else 0))
        pending.extend((part, depth + 1) for part in parts(current))
    return deepest
