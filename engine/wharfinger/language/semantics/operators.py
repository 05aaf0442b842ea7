"""The operators of the language: one record each.

The checker, the compiler and the interpreter all read these records. An operator is defined three times there, side by side: as the
reference for the interpreter (`meaning`), as Python source for generated code and for plain values (`source`), and as a function of NumPy
for columns (`vector`, by name, because the language does not import NumPy). Property tests compare the three.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.language.semantics import bounds
from wharfinger.language.semantics.bounds import Interval, Magnitude
from wharfinger.language.semantics.typed import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What one operator means, and what is known of its result.

    `meaning` takes and returns plain Python values; it may return None (missing), and unless the operator is `strict` it may be given None.
    A strict operator is missing where an operand is missing. `decided_by` is the operand that alone decides a condition whatever the other
    one is, missing included (Kleene's logic): False for `and`, True for `or`.

    `source` is a Python expression on present operands `{0}` and `{1}`, with the name `nan` for NaN. It must not fail on any operand, and
    is arbitrary where `meaning` is None. `vector` is the name of the NumPy function that does the same for columns. Either is None where
    the compiler has its own form. A `hazardous` operator may divide by zero or overflow, of which NumPy would warn.

    `interval` and `magnitude` of the result are computed from those of the operands; None for operators that give no number.
    """

    meaning: Callable[..., Any]
    source: str | None = None
    vector: str | None = None
    strict: bool = True
    decided_by: bool | None = None
    hazardous: bool = False
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
    Op.NEG: Operator(meaning=operator.neg, source="-{0}", vector="negative", interval=lambda a: (-a[1], -a[0]), magnitude=lambda a: a),
    Op.ADD: Operator(
        meaning=operator.add,
        source="{0} + {1}",
        vector="add",
        interval=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        magnitude=operator.add,
    ),
    Op.SUB: Operator(
        meaning=operator.sub,
        source="{0} - {1}",
        vector="subtract",
        interval=lambda a, b: (a[0] - b[1], a[1] - b[0]),
        magnitude=operator.add,
    ),
    Op.MUL: Operator(
        meaning=operator.mul,
        source="{0} * {1}",
        vector="multiply",
        hazardous=True,
        interval=bounds.product,
        magnitude=operator.mul,
    ),
    Op.DIV: Operator(
        meaning=lambda a, b: a / b if b != 0 else None,
        source="{0} / {1} if {1} else nan",
        vector="divide",
        hazardous=True,
        interval=bounds.quotient,
        magnitude=operator.truediv,
    ),
}
