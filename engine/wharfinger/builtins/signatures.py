"""What builtins have in common in their signatures: parameter shapes, result types and intervals.

Result functions look at kinds only; shape and optionality of the arguments are joined by the checker. A result that is
`optional` says that the function itself can be missing even when all its arguments are there (`ratio` of something to zero).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wharfinger.language.catalogue import ArgumentMismatch, Parameter
from wharfinger.language.types import DIMENSIONLESS, NUMERIC, Kind, Shape, Type

type_of = Callable[[tuple[Type, ...]], Type]
Interval = tuple[float, float]

UNBOUNDED: Interval = (-math.inf, math.inf)
POINTS: Interval = (0.0, 100.0)
NOT_NEGATIVE: Interval = (0.0, math.inf)


def numeric(name: str) -> Parameter:
    """A parameter that takes any number, whatever it measures."""
    return Parameter(name=name, kinds=NUMERIC)


def plain(name: str) -> Parameter:
    """A parameter that takes a number without a dimension."""
    return Parameter(name=name, kinds=DIMENSIONLESS)


def text(name: str, *, literal: bool = False, validate: Callable[[object], str | None] | None = None, steps: int = 1) -> Parameter:
    """A parameter that takes a string; checking a literal one takes as long as so many steps of the check."""
    return Parameter(name=name, kinds=frozenset({Kind.STRING}), literal=literal, validate=validate, steps=steps)


def always(kind: Kind, *, optional: bool = False, shape: Shape = Shape.CONST) -> type_of:
    """A result function that gives the same type for all arguments."""
    return lambda _types: Type(kind, shape=shape, optional=optional)


def common(types: tuple[Type, ...]) -> Kind:
    """The kind that values of all these types share; count, percent and number together are a number.

    Raises `ArgumentMismatch` naming the first argument that measures something else.
    """
    kinds = [t.kind for t in types]
    for index, kind in enumerate(kinds):
        if Kind.UNKNOWN in (kind, kinds[0]) or kind is kinds[0]:
            continue
        if not {kind, kinds[0]} <= DIMENSIONLESS:
            raise ArgumentMismatch(index, f"{kinds[0].value} and {kind.value} cannot be taken together")
    known = {kind for kind in kinds if kind is not Kind.UNKNOWN}
    return Kind.UNKNOWN if not known else known.pop() if len(known) == 1 else Kind.NUMBER


def same_dimension(types: tuple[Type, ...]) -> Type:
    """The type of something taken from among its arguments, which must all measure the same."""
    return Type(common(types))


def quotient(types: tuple[Type, ...]) -> Type:
    """The type of one argument in relation to another of the same dimension: a percent, missing where there is nothing to relate to."""
    common(types)
    return Type(Kind.PERCENT, optional=True)


def corners(operation: Callable[[float, float], float], a: Interval, b: Interval) -> Interval:
    """The interval of an operation that is monotone in each operand, from the four corners."""
    found = [operation(x, y) for x in a for y in b]
    return (-math.inf, math.inf) if any(math.isnan(f) for f in found) else (min(found), max(found))
