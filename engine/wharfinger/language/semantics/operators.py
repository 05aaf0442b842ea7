"""The operators of the language: one record each.

The checker, the compiler and the interpreter all read these records. A record defines its operator three times:

- `meaning`: the reference, for the interpreter
- `source`: Python source, for generated code and for plain values
- `vector`: a function of NumPy, for columns; by name, because the language does not import NumPy

Property tests compare the three.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from wharfinger.language.semantics import bounds
from wharfinger.language.semantics.bounds import Interval, Magnitude
from wharfinger.language.semantics.typed import Op
from wharfinger.language.semantics.types import PLAIN, Kind, unified


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of one operator: its types, its evaluation, and the interval of its result.

    `meaning` takes and returns plain Python values; it may return None (missing), and unless the operator is `strict` it may be given None.
    A strict operator is missing where an operand is missing. `decided_by` is the operand that alone decides a condition whatever the other
    one is, missing included (Kleene's logic): False for `and`, True for `or`.

    `source` is a Python expression on present operands `{0}` and `{1}`, with the name `nan` for NaN. It must not fail on any operand, and
    is arbitrary where `meaning` is None. `vector` is the name of the NumPy function that does the same for columns. Either is None where
    the compiler has its own form. A `may_warn` operator may divide by zero or overflow, of which NumPy would warn.

    `kind`, `interval` and `magnitude` of the result are computed from those of numeric operands; None for operators that are not
    arithmetic. A `kind` of None means that the operation has no meaning, such as the sum of memory and cpu.
    """

    meaning: Callable[..., Any]
    source: str | None = None
    vector: str | None = None
    strict: bool = True
    decided_by: bool | None = None
    may_warn: bool = False
    kind: Callable[..., Kind | None] | None = None
    interval: Callable[..., Interval] | None = None
    magnitude: Callable[..., Magnitude] | None = None


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: bool | None, b: bool | None) -> bool | None:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


# A percentage is a fraction with its own unit: it multiplies anything (`10% * node.allocatable.memory` is memory), but is neither added to
# nor compared with a bare number, where `50` and `50%` would be a hundredfold apart.


def _kind_of_sum(a: Kind, b: Kind) -> Kind | None:
    if {a, b} == {Kind.TIME, Kind.DURATION}:
        return Kind.TIME
    return None if a is b is Kind.TIME else unified(a, b)


def _kind_of_difference(a: Kind, b: Kind) -> Kind | None:
    if a is Kind.TIME:
        return {Kind.TIME: Kind.DURATION, Kind.DURATION: Kind.TIME}.get(b)
    return unified(a, b)


def _kind_of_product(a: Kind, b: Kind) -> Kind | None:
    if Kind.TIME in (a, b):
        return None
    if a in PLAIN and b in PLAIN:
        return unified(a, b)
    if a is b is Kind.PERCENT:
        return Kind.PERCENT
    measures = {a, b} - PLAIN - {Kind.PERCENT}
    if not measures:
        return Kind.NUMBER
    return measures.pop() if len(measures) == 1 and {a, b} & (PLAIN | {Kind.PERCENT}) else None


def _kind_of_quotient(a: Kind, b: Kind) -> Kind | None:
    if Kind.TIME in (a, b):
        return None
    if b in PLAIN and a not in PLAIN:
        return a
    if a is b or (a in PLAIN and b in PLAIN | {Kind.PERCENT}):
        return Kind.NUMBER
    return a if b is Kind.PERCENT else None


OPERATORS: Mapping[Op, Operator] = {
    Op.NOT: Operator(meaning=operator.not_, source="not {0}", vector="logical_not"),
    Op.AND: Operator(meaning=_and, source="{0} and {1}", vector="logical_and", strict=False, decided_by=False),
    Op.OR: Operator(meaning=_or, source="{0} or {1}", vector="logical_or", strict=False, decided_by=True),
    Op.EQ: Operator(meaning=operator.eq, source="{0} == {1}", vector="equal"),
    Op.LT: Operator(meaning=operator.lt, source="{0} < {1}", vector="less"),
    Op.LE: Operator(meaning=operator.le, source="{0} <= {1}", vector="less_equal"),
    Op.GT: Operator(meaning=operator.gt, source="{0} > {1}", vector="greater"),
    Op.GE: Operator(meaning=operator.ge, source="{0} >= {1}", vector="greater_equal"),
    Op.IN: Operator(meaning=lambda a, members: a in members, source="{0} in {1}"),
    Op.COALESCE: Operator(
        meaning=lambda a, b: b if a is None else a,
        strict=False,
        interval=lambda a, b: bounds.union((a, b)),
        magnitude=bounds.either,
    ),
    Op.NEG: Operator(
        meaning=operator.neg,
        source="-{0}",
        vector="negative",
        kind=lambda a: None if a is Kind.TIME else a,
        interval=lambda a: (-a[1], -a[0]),
        magnitude=lambda a: a,
    ),
    Op.ADD: Operator(
        meaning=operator.add,
        source="{0} + {1}",
        vector="add",
        kind=_kind_of_sum,
        interval=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        magnitude=operator.add,
    ),
    Op.SUB: Operator(
        meaning=operator.sub,
        source="{0} - {1}",
        vector="subtract",
        kind=_kind_of_difference,
        interval=lambda a, b: (a[0] - b[1], a[1] - b[0]),
        magnitude=operator.add,
    ),
    Op.MUL: Operator(
        meaning=operator.mul,
        source="{0} * {1}",
        vector="multiply",
        may_warn=True,
        kind=_kind_of_product,
        interval=bounds.product,
        magnitude=operator.mul,
    ),
    Op.DIV: Operator(
        meaning=lambda a, b: a / b if b != 0 else None,
        source="{0} / {1} if {1} else nan",
        vector="divide",
        may_warn=True,
        kind=_kind_of_quotient,
        interval=bounds.quotient,
        magnitude=operator.truediv,
    ),
}
