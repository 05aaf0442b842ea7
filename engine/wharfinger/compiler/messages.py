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
MOST_LETTERS = 1000  # of a message: what an event holds


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
    """The text of a message, each hole being what `value_of` says; cut where it is longer than anybody reads.

    A hole takes three letters in the policy and may stand for an annotation of 256 KiB, so the values of further holes are not asked for.
    """
    said: list[str] = []
    room = MOST_LETTERS
    for part in message.parts:
        text = part if isinstance(part, str) else value_of(part)
        said.append(text)
        room -= len(text)
        if room < 0:
            return "".join(said)[: MOST_LETTERS - 1] + OPEN
    return "".join(said)


def missing_text(condition: typed.Expr, lets: Mapping[str, typed.Expr]) -> str:
    """Why a condition can be neither true nor false: `node.labels["zone"] is missing`."""
    absent = [describe(expr) for expr in reads.possibly_absent(condition, lets)] or [describe(condition)]
    shown_ = absent if len(absent) <= MOST_NAMED else [*absent[: MOST_NAMED - 1], "another value"]
    return f"{' or '.join(shown_)} is missing"
