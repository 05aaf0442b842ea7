"""Which dimensions go together, and what comes out: the arithmetic of units.

`number` and `count` mix freely. A percentage is a fraction with a unit of its own: it multiplies anything (`10% *
node.allocatable.memory` is memory), but is not compared with a bare number, where `50` and `50%` would be a hundredfold apart.
"""

from __future__ import annotations

from wharfinger.language.ast import BinaryOp
from wharfinger.language.types import NUMERIC, Kind, Type

PLAIN = frozenset({Kind.NUMBER, Kind.COUNT})
SCALAR = NUMERIC | {Kind.BOOL, Kind.STRING}  # kinds of single values, which can be alternatives of each other


def unified(a: Kind, b: Kind) -> Kind | None:
    """The one kind of two alternatives, or None when they have nothing in common."""
    if a is b:
        return a
    if Kind.UNKNOWN in (a, b):
        return Kind.UNKNOWN
    return Kind.NUMBER if {a, b} <= PLAIN else None


def assignable(value: Type, wanted: Type) -> bool:
    """Whether a value of one type may stand where the other is declared; a whole number is also a number."""
    if value.kind is Kind.UNKNOWN or wanted.kind is Kind.UNKNOWN:
        return True
    if value.kind is Kind.SET and wanted.kind is Kind.SET:
        return value.element is None or wanted.element is None or fits(value.element, wanted.element)
    return fits(value.kind, wanted.kind)


def fits(kind: Kind, wanted: Kind) -> bool:
    """Whether one kind is the other or a special case of it."""
    return kind is wanted or Kind.UNKNOWN in (kind, wanted) or (kind is Kind.COUNT and wanted is Kind.NUMBER)


def calculated(op: BinaryOp, a: Kind, b: Kind) -> Kind | None:
    """The kind of `a op b` for an arithmetic operator, or None when that has no meaning."""
    if not {a, b} <= NUMERIC:
        return None
    rule = {BinaryOp.ADD: _sum, BinaryOp.SUB: _difference, BinaryOp.MUL: _product, BinaryOp.DIV: _quotient}[op]
    return rule(a, b)


def _sum(a: Kind, b: Kind) -> Kind | None:
    if {a, b} == {Kind.TIME, Kind.DURATION}:
        return Kind.TIME
    return None if a is b is Kind.TIME else unified(a, b)


def _difference(a: Kind, b: Kind) -> Kind | None:
    if a is Kind.TIME:
        return {Kind.TIME: Kind.DURATION, Kind.DURATION: Kind.TIME}.get(b)
    return unified(a, b)


def _product(a: Kind, b: Kind) -> Kind | None:
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


def _quotient(a: Kind, b: Kind) -> Kind | None:
    if Kind.TIME in (a, b):
        return None
    if b in PLAIN and a not in PLAIN:
        return a
    if a is b or (a in PLAIN and b in PLAIN | {Kind.PERCENT}):
        return Kind.NUMBER
    return a if b is Kind.PERCENT else None
