"""A typed expression as text, in the language's own syntax.

Used for an expression that its author did not write in this form: an explanation shows the value under each sub-expression, a
diagnostic names the sub-expression that is always false. The text is canonical (equal expressions have equal text), so it also serves as
a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import ESCAPES, Kind, literal

# How tightly an operator binds, loosest first; an operand that binds less is put in parentheses.
_IF, _OR, _AND, _NOT, _COMPARE, _COALESCE, _ADD, _MULTIPLY, _NEGATE, _ATOM = range(10)

_LEVELS: Mapping[typed.Op, int] = {
    typed.Op.OR: _OR,
    typed.Op.AND: _AND,
    typed.Op.NOT: _NOT,
    typed.Op.EQ: _COMPARE,
    typed.Op.LT: _COMPARE,
    typed.Op.LE: _COMPARE,
    typed.Op.GT: _COMPARE,
    typed.Op.GE: _COMPARE,
    typed.Op.IN: _COMPARE,
    typed.Op.COALESCE: _COALESCE,
    typed.Op.ADD: _ADD,
    typed.Op.SUB: _ADD,
    typed.Op.MUL: _MULTIPLY,
    typed.Op.DIV: _MULTIPLY,
    typed.Op.NEG: _NEGATE,
}
_NEGATED = {typed.Op.EQ: "!=", typed.Op.IN: "not in"}
_SIGNS = {typed.SelectorOp.IN: "in", typed.SelectorOp.NOT_IN: "notin", typed.SelectorOp.GT: ">", typed.SelectorOp.LT: "<"}


def describe(expr: typed.Expr) -> str:
    """The expression as text of the language."""
    return _text(expr, _IF)


_ESCAPED = {
    quote: str.maketrans({char: f"\\{letter}" for letter, char in ESCAPES.items() if char == quote or char not in {'"', "'"}})
    for quote in ('"', "'")
}


@lru_cache(maxsize=4096)
def quoted(text: str, quote: str = '"') -> str:
    """A string literal of the language, in double or single quotes."""
    return f"{quote}{text.translate(_ESCAPED[quote])}{quote}"


def value_text(value: Any, kind: Kind) -> str:
    """A plain value of a kind as a literal: `true`, `"web"`, `2Gi`, `["a", "b"]`, `semver("1.30.0")`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"semver({quoted(value)})" if kind is Kind.VERSION else quoted(value)
    if isinstance(value, frozenset):
        return _set_text(value, kind)
    if isinstance(value, typed.Entries):
        return _table_text(value)
    if isinstance(value, typed.Workload):
        return value.name
    return literal(float(value), kind) if value is not None else "missing"


@lru_cache(maxsize=64)  # sets may be long, and an expression is described once for every expression around it
def _set_text(members: frozenset[Any], kind: Kind) -> str:
    return "[" + ", ".join(sorted(value_text(v, kind) for v in members)) + "]"


def _table_text(table: typed.Entries) -> str:
    return table.name if table.name is not None else table.once("text", _entries_text)


def _entries_text(table: typed.Entries) -> str:
    return "{ " + ", ".join(f"{_key_text(key)}: {value_text(value, table.kind)}" for key, value in _pairs(table)) + " }"


def _pairs(table: typed.Entries) -> Iterable[tuple[str | float, Any]]:
    return zip(table.keys, table.values, strict=True)


def _key_text(key: str | float) -> str:
    return quoted(key) if isinstance(key, str) else literal(key, Kind.COUNT)


def _text(expr: typed.Expr, around: int) -> str:
    level, text = _WRITERS[type(expr)](expr)
    return f"({text})" if level < around else text


def _const(expr: typed.Const) -> tuple[int, str]:
    kind = expr.type.element or expr.type.kind
    text = value_text(expr.value, kind)
    return (_NEGATE if text.startswith("-") else _ATOM), text


def _name(expr: typed.ParamRef | typed.LetRef | typed.MetricRef) -> tuple[int, str]:
    return _ATOM, expr.name


def _subject(expr: typed.SubjectRef) -> tuple[int, str]:
    return _ATOM, expr.subject.word


def _attribute(expr: typed.AttributeRef) -> tuple[int, str]:
    key = f"[{_text(expr.key, _IF)}]" if expr.key and not expr.attribute.by_group else ""
    return _ATOM, f"{expr.attribute.subject.word}.{expr.attribute.path}{key}"


def _operation(expr: typed.Operation) -> tuple[int, str]:
    level = _LEVELS[expr.op]
    if len(expr.operands) == 1:
        return _prefix(expr, level)
    left, right = expr.operands
    # `??` and comparisons nest to the right or not at all, everything else to the left.
    sides = (level + 1, level) if expr.op is typed.Op.COALESCE else (level, level + 1)
    if level == _COMPARE:
        sides = (level + 1, level + 1)
    return level, f"{_text(left, sides[0])} {expr.op.value} {_text(right, sides[1])}"


def _prefix(expr: typed.Operation, level: int) -> tuple[int, str]:
    operand = expr.operands[0]
    if expr.op is typed.Op.NOT and isinstance(operand, typed.Operation) and operand.op in _NEGATED:
        left, right = operand.operands
        return _COMPARE, f"{_text(left, _COALESCE)} {_NEGATED[operand.op]} {_text(right, _COALESCE)}"
    sign = "not " if expr.op is typed.Op.NOT else "-"
    return level, sign + _text(operand, level)


def _if(expr: typed.If) -> tuple[int, str]:
    return _IF, f"if {_text(expr.condition, _IF)} then {_text(expr.then, _IF)} else {_text(expr.otherwise, _IF)}"


def _has(expr: typed.Has) -> tuple[int, str]:
    return _ATOM, f"has({_text(expr.operand, _IF)})"


def _curve(expr: typed.Curve) -> tuple[int, str]:
    points = ", ".join(f"{_text(x, _IF)} -> {_text(y, _IF)}" for x, y in expr.points)
    return _ATOM, f"curve({_text(expr.x, _IF)}, {points})"


def _lookup(expr: typed.Lookup) -> tuple[int, str]:
    return _ATOM, f"{_table_text(expr.entries)}[{_text(expr.key, _IF)}]"


def _matches(expr: typed.Matches) -> tuple[int, str]:
    return _COMPARE, f"{_text(expr.labels, _COALESCE)} matches {quoted(selector_text(expr.requirements))}"


def _select(expr: typed.Select) -> tuple[int, str]:
    what = expr.type.kind.value
    return _IF, f"{what} where {_text(expr.where, _IF)}" if expr.where else what


def _aggregate(expr: typed.Aggregate) -> tuple[int, str]:
    parts = [_text(expr.selection, _IF)] + ([_text(expr.value, _IF)] if expr.value else [])
    if expr.per is typed.Per.NODE:
        parts.append("on: node")
    if expr.topology_key is not None:
        parts.append(f"within: {quoted(expr.topology_key)}")
    return _ATOM, f"{expr.reduction.value}({', '.join(parts)})"


def _call(expr: typed.Call) -> tuple[int, str]:
    name, dot, member = expr.function.name.partition(".")
    parts = [_text(a, _IF) for a in expr.arguments]
    parts += [f"{key if key.isidentifier() else quoted(key)}: {_text(value, _IF)}" for key, value in expr.named.items()]
    return _ATOM, f"{name}({', '.join(parts)}){dot}{member}"


def selector_text(requirements: tuple[typed.Requirement, ...]) -> str:
    """Requirements as the label selector they were read from."""
    return ",".join(_requirement(r) for r in requirements)


def _requirement(requirement: typed.Requirement) -> str:
    key, op, values = requirement.key, requirement.op, requirement.values
    if op is typed.SelectorOp.EXISTS:
        return key
    if op is typed.SelectorOp.DOES_NOT_EXIST:
        return f"!{key}"
    if op in (typed.SelectorOp.GT, typed.SelectorOp.LT):
        return f"{key}{_SIGNS[op]}{values[0]}"
    if len(values) == 1:
        return f"{key}{'=' if op is typed.SelectorOp.IN else '!='}{values[0]}"
    return f"{key} {_SIGNS[op]} ({','.join(values)})"


_WRITERS: Mapping[type[typed.Expr], Callable[[Any], tuple[int, str]]] = {
    typed.Const: _const,
    typed.ParamRef: _name,
    typed.LetRef: _name,
    typed.MetricRef: _name,
    typed.SubjectRef: _subject,
    typed.AttributeRef: _attribute,
    typed.Operation: _operation,
    typed.If: _if,
    typed.Has: _has,
    typed.Curve: _curve,
    typed.Lookup: _lookup,
    typed.Matches: _matches,
    typed.Select: _select,
    typed.Aggregate: _aggregate,
    typed.Call: _call,
}
