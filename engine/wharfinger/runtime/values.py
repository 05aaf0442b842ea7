"""What each part of an expression was worth, laid out under the text the author wrote.

    require here < max_per_node
            |      |
            3      2

A failed expectation or a rejection is understood at once when the operands stand under the operator; a bare `false` is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wharfinger.compiler import reads
from wharfinger.language import typed
from wharfinger.language.source import Source
from wharfinger.language.types import Kind, Shape

MISSING = "missing"
NO_VALUE = frozenset({Kind.PODS, Kind.LABELS, Kind.POD, Kind.NODE})
"""Kinds whose values are too big to stand under an operand."""

Evaluate = Callable[[typed.Expr], str]


@dataclass(frozen=True, slots=True)
class Value:
    """The printed value of the sub-expression that starts at a 1-based line and column."""

    line: int
    column: int
    text: str


def values(expression: typed.Expr, evaluate: Evaluate) -> tuple[Value, ...]:
    """The values of the sub-expressions whose value is not already in the text, outermost first where two start at one place."""
    found: dict[tuple[int, int], Value] = {}
    for part in _walk(expression):
        if isinstance(part, typed.Const) or part.type.kind in NO_VALUE or part.type.shape is Shape.ITEM or _is_sugar(part):
            continue
        place = _anchor(part)
        if place not in found:
            found[place] = Value(*place, evaluate(part))
    return tuple(found[place] for place in sorted(found))


def lets(expression: typed.Expr) -> tuple[str, ...]:
    """Names of the lets that an expression reads itself, in the order of the text."""
    names = [part.name for part in _walk(expression) if isinstance(part, typed.LetRef)]
    return tuple(dict.fromkeys(names))


def lay_out(source: Source, found: tuple[Value, ...]) -> list[str]:
    """The source lines that have values, each followed by its pipes and values, without common indentation."""
    lines: list[str] = []
    for number in dict.fromkeys(value.line for value in found):
        text = source.line(number)
        margin = len(text) - len(text.lstrip())
        here = [(value.column - 1 - margin, value.text) for value in found if value.line == number]
        lines += [text[margin:].rstrip(), *_under(here)]
    return lines


def _under(marks: list[tuple[int, str]]) -> list[str]:
    """Pipes under the columns, then the values from the right, each on the first line where it does not touch its neighbour."""
    rows = [_write([(column, "|") for column, _ in marks])]
    left = list(marks)
    while left:
        shown: list[tuple[int, str]] = []
        limit: int | None = None
        for column, text in reversed(left):
            if limit is None or column + len(text) < limit:
                shown.append((column, text))
                limit = column
            else:
                limit = column
        left = [mark for mark in left if mark not in shown]
        rows.append(_write([*shown, *((column, "|") for column, _ in left)]))
    return rows


def _write(marks: list[tuple[int, str]]) -> str:
    line = ""
    for column, text in sorted(marks):
        line = line.ljust(column) + text
    return line


def _walk(expression: typed.Expr) -> Iterator[typed.Expr]:
    """The expression and its operands, outside in; what stands inside `pods where …` has no value of its own and is left out."""
    yield expression
    if not isinstance(expression, typed.Select):
        for part in reads.children(expression):
            yield from _walk(part)


def _is_sugar(part: typed.Expr) -> bool:
    """Whether the author did not write this part: the `x == y` inside `x != y`, or the `not` that `reject` became."""
    if not isinstance(part, typed.Operation):
        return False
    if part.op is typed.Op.NOT:
        inner = part.operands[0]
        return inner.span == part.span and not _is_negated(inner)
    return _is_negated(part)


def _is_negated(part: typed.Expr) -> bool:
    if not isinstance(part, typed.Operation) or part.op not in (typed.Op.EQ, typed.Op.IN):
        return False
    start = _operator(part)
    return part.span.source.text.startswith(("!=", "not"), start)


def _operator(part: typed.Operation) -> int:
    """The offset of a binary operator."""
    left, right = part.operands[0].span, part.operands[1].span
    between = left.source.text[left.end : right.start]
    return left.end + len(between) - len(between.lstrip(" )\n\t"))


def _anchor(part: typed.Expr) -> tuple[int, int]:
    """Where a value hangs: under the operator of an operation, under the first letter of anything else."""
    span = part.span
    if isinstance(part, typed.Operation) and part.op is typed.Op.NOT and part.operands[0].span == span:
        part = part.operands[0]
    if isinstance(part, typed.Operation) and len(part.operands) == 2:
        return span.position(_operator(part))
    return span.line, span.column
