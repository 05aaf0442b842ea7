"""What rejected nodes are told: messages with their holes filled in.

A hole of the pod or of a param has one value; a hole of the node has as many as there are nodes and prints as `…` where they are summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wharfinger.compiler import reads
from wharfinger.language import typed, units
from wharfinger.language.describe import describe
from wharfinger.language.types import Kind, Type

OPEN = "…"
NONE = "<none>"
MOST_NAMED = 3


def shown(value: Any, type_: Type) -> str:
    """A value as people read it in a message: `500m`, `2Gi`, `10%`, `web`; `<none>` when it is missing."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, bytes)):
        return str(value)
    if isinstance(value, frozenset):
        element = Type(type_.element or Kind.STRING)
        return "[" + ", ".join(shown(member, element) for member in sorted(value)) + "]"
    return units.readable(float(value), type_.kind)


def filled(message: typed.Message, value_of: Callable[[typed.Expr], str]) -> str:
    """The text of a message, each hole being what `value_of` says."""
    return "".join(part if isinstance(part, str) else value_of(part) for part in message.parts)


def missing_text(condition: typed.Expr, lets: Mapping[str, typed.Expr]) -> str:
    """Why a condition can be neither true nor false: `node.labels["zone"] is missing`."""
    absent = [describe(expr) for expr in reads.possibly_absent(condition, lets)] or [describe(condition)]
    shown_ = absent if len(absent) <= MOST_NAMED else [*absent[: MOST_NAMED - 1], "another value"]
    return f"{' or '.join(shown_)} is missing"
