"""The operations of the intermediate representation that read nothing but their operands.

Each is given for plain Python values and for arrays, as the same IEEE operation, so that a subexpression has the same value whether or
not it is computed once for all rows. Operands that are not present hold arbitrary values: no operation may fail on them (division by zero
included).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from wharfinger.builtins import text_kernels
from wharfinger.compiler.graph.ir import Op, Rep
from wharfinger.language import typed


def _divide(a: float, b: float) -> float:
    return a / b if b else math.nan


def _where(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


ADD = Op(name="add", scalar=operator.add, vector=np.add)
SUB = Op(name="sub", scalar=operator.sub, vector=np.subtract)
MUL = Op(name="mul", scalar=operator.mul, vector=np.multiply, hazardous=True)
DIV = Op(name="div", scalar=_divide, vector=np.divide, hazardous=True)
NEG = Op(name="neg", scalar=operator.neg, vector=np.negative)
EQ = Op(name="eq", scalar=operator.eq, vector=np.equal)
NE = Op(name="ne", scalar=operator.ne, vector=np.not_equal)
LT = Op(name="lt", scalar=operator.lt, vector=np.less)
LE = Op(name="le", scalar=operator.le, vector=np.less_equal)
GT = Op(name="gt", scalar=operator.gt, vector=np.greater)
GE = Op(name="ge", scalar=operator.ge, vector=np.greater_equal)
AND = Op(name="and", scalar=lambda a, b: a and b, vector=np.logical_and)
OR = Op(name="or", scalar=lambda a, b: a or b, vector=np.logical_or)
NOT = Op(name="not", scalar=operator.not_, vector=np.logical_not)
WHERE = Op(name="where", scalar=_where, vector=np.where)
MEMBER = Op(name="member", scalar=lambda x, members: x in members, vector=lambda x, members: np.isin(x, sorted(members)))

ARITHMETIC = {typed.Op.ADD: ADD, typed.Op.SUB: SUB, typed.Op.MUL: MUL, typed.Op.DIV: DIV}
COMPARISONS = {typed.Op.EQ: EQ, typed.Op.LT: LT, typed.Op.LE: LE, typed.Op.GT: GT, typed.Op.GE: GE}

SELECT = Op(name="select")  # operands: which placed pods are selected, and for sums also the value and where it is present

# ── something that may be absent, as attributes and builtins return it (None), taken apart ───────────────────────────────────────────────

ARBITRARY = {Rep.FLOAT: 0.0, Rep.BOOL: False, Rep.TEXT: "", Rep.CODE: -1, Rep.OBJECT: frozenset()}

KNOWN = Op(name="known", scalar=lambda maybe: maybe is not None, vector=operator.itemgetter(1), row=operator.itemgetter(1))


def given(rep: Rep) -> Op:
    """The operation that takes the value out of something that may be absent."""
    arbitrary = ARBITRARY[rep]
    first = operator.itemgetter(0)
    return Op(name="given", scalar=lambda maybe: arbitrary if maybe is None else maybe, vector=first, row=first, key=rep)


# ── texts as codes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

CODE = Op(name="code", scalar=lambda strings, text: strings.code(text))
LOOKUP = Op(name="lookup", vector=lambda table, codes: table.values(codes), row=lambda table, code: table.values(code).item())
LOOKUP_PRESENT = Op(
    name="lookup_present", vector=lambda table, codes: table.present(codes), row=lambda table, code: bool(table.present(code))
)


def table(name: str, test: Callable[[str], bool], key: Hashable) -> Op:
    """The operation that makes a lookup table of a test of texts, given the string table."""
    return Op(name=f"table {name}", scalar=lambda strings: text_kernels.CodeTable(strings, test, bool), key=key)


MEMBERSHIP = Op(name="table member", scalar=lambda strings, members: text_kernels.CodeTable(strings, members.__contains__, bool))

# ── piecewise linear ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _segments(x: float, *points: float) -> float:
    xs, ys = points[::2], points[1::2]
    if x <= xs[0]:
        return ys[0]
    for left in range(len(xs) - 1):
        if x < xs[left + 1]:
            return _divide(ys[left + 1] - ys[left], xs[left + 1] - xs[left]) * (x - xs[left]) + ys[left]
    return ys[-1]


def _segment_columns(x: Any, *points: Any) -> Any:
    """The curve where its points are columns themselves: the flat ends, then one segment after the other."""
    xs, ys = points[::2], points[1::2]
    result = ys[-1]
    for left in range(len(xs) - 2, -1, -1):
        slope = np.divide(ys[left + 1] - ys[left], xs[left + 1] - xs[left])
        result = np.where(np.less(x, xs[left + 1]), slope * (x - xs[left]) + ys[left], result)
    return np.where(np.less_equal(x, xs[0]), ys[0], result)


CURVE = Op(name="curve", scalar=_segments, vector=_segment_columns, hazardous=True)


def fixed_curve(points: Sequence[float]) -> Op:
    """A curve through known points.

    `np.interp` is not used: a compiler may join its product and its sum into one rounding, and then the last bit is another one elsewhere.
    """
    xs, ys = np.array(points[::2], dtype=np.float64), np.array(points[1::2], dtype=np.float64)
    with np.errstate(all="ignore"):
        slopes = np.diff(ys) / np.diff(xs)

    def evaluate(x: Any) -> Any:
        left = np.searchsorted(xs[1:-1], x, side="right")
        inside = slopes[left] * (x - xs[left]) + ys[left]
        return np.where(np.less_equal(x, xs[0]), ys[0], np.where(np.less(x, xs[-1]), inside, ys[-1]))

    return Op(
        name="curve " + ", ".join(f"{x:g} -> {y:g}" for x, y in zip(xs, ys, strict=True)),
        scalar=lambda x: _segments(x, *points),
        vector=evaluate,
        hazardous=True,
        key=tuple(points),
    )


# ── label selector requirements, on the value of one label (None when absent) ────────────────────────────────────────────────────────────


def requirement_test(requirement: typed.Requirement) -> Callable[[str], bool]:
    """Whether the value of a present label satisfies a requirement; for NotIn, whether it is among the values.

    `Gt` and `Lt` compare whole numbers, and a value that is none satisfies neither (apimachinery `labels.Requirement.Matches`, 1.36).
    """
    if requirement.op in (typed.SelectorOp.IN, typed.SelectorOp.NOT_IN):
        return frozenset(requirement.values).__contains__
    compare = operator.gt if requirement.op is typed.SelectorOp.GT else operator.lt
    bound = whole(requirement.values[0])
    return lambda value: bound is not None and (number := whole(value)) is not None and compare(number, bound)


def whole(text: str) -> int | None:
    """The int64 that a text spells as Go's `strconv.ParseInt(text, 10, 64)` reads it, or None."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text) if len(digits) <= 19 else 2**64
    return number if -(2**63) <= number < 2**63 else None


INLINE: dict[Op, str] = {
    ADD: "{0} + {1}",
    SUB: "{0} - {1}",
    MUL: "{0} * {1}",
    DIV: "{0} / {1} if {1} else nan",
    NEG: "-{0}",
    EQ: "{0} == {1}",
    NE: "{0} != {1}",
    LT: "{0} < {1}",
    LE: "{0} <= {1}",
    GT: "{0} > {1}",
    GE: "{0} >= {1}",
    AND: "{0} and {1}",
    OR: "{0} or {1}",
    NOT: "not {0}",
    WHERE: "{1} if {0} else {2}",
}
"""The operations that Python has a word for, on plain values; `nan` has to be a name."""


@lru_cache(maxsize=1000)
def byte_code(source: str) -> CodeType:
    """The byte code of a text: policies of one shape, and editions of one policy that differ in numbers, have the same."""
    return compile(source, "<policy>", "exec")
