"""Functions of strings.

Each is one plain Python function; its kernel evaluates it per distinct text (`by_code`). Regular expressions run on RE2, whose
matching time grows with the text only linearly: a policy cannot hang the scheduler.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import re2

from wharfinger.builtins import by_code
from wharfinger.builtins.signatures import always, text
from wharfinger.language.catalogue import Function
from wharfinger.language.types import Kind

REGEX_MEMORY = 256 * 1024  # bytes RE2 may spend on one expression: thousands of states, microseconds to match a label value
REGEX_STEPS = 800  # of a check, for one expression: up to four milliseconds of RE2
DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?", re.ASCII)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The expression, ready to match; re2.error if it is none, or too costly."""
    options = re2.Options()
    options.max_mem = REGEX_MEMORY
    options.log_errors = False
    return re2.compile(pattern, options)


def regex_fault(pattern: object) -> str | None:
    """What is wrong with a regular expression (not RE2 syntax, or too costly), or None."""
    try:
        compiled(str(pattern))
    except re2.error as error:
        reason = error.args[0] if error.args else "not understood"
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        return f"too costly: {said}" if "too large" in said or "repetition" in said else f"not a regular expression: {said}"
    return None


def _matches_regex(value: str, pattern: str) -> bool:
    return compiled(pattern).search(value) is not None


def _number(value: str) -> float | None:
    if DECIMAL.fullmatch(value) is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _contains(value: str, part: str) -> bool:
    return part in value


STRINGS = (
    Function(
        name="starts_with",
        parameters=(text("text"), text("prefix")),
        result=always(Kind.BOOL),
        doc="Whether `text` begins with `prefix`.",
        example='starts_with(node.name, "gpu-")',
        scalar=str.startswith,
        vector=by_code.Kernel(str.startswith, bool),
    ),
    Function(
        name="ends_with",
        parameters=(text("text"), text("suffix")),
        result=always(Kind.BOOL),
        doc="Whether `text` ends with `suffix`.",
        example='ends_with(pod.namespace, "-prod")',
        scalar=str.endswith,
        vector=by_code.Kernel(str.endswith, bool),
    ),
    Function(
        name="contains",
        parameters=(text("text"), text("part")),
        result=always(Kind.BOOL),
        doc="Whether `part` occurs in `text`.",
        example='contains(node.name, "spot")',
        scalar=_contains,
        vector=by_code.Kernel(_contains, bool),
    ),
    Function(
        name="lower",
        parameters=(text("text"),),
        result=always(Kind.STRING),
        doc="`text` in lower case.",
        example='lower(node.name) == "a100"',
        scalar=str.lower,
        vector=by_code.Kernel(str.lower, str),
    ),
    Function(
        name="upper",
        parameters=(text("text"),),
        result=always(Kind.STRING),
        doc="`text` in upper case.",
        example='upper(pod.namespace) == "TEAM-A"',
        scalar=str.upper,
        vector=by_code.Kernel(str.upper, str),
    ),
    Function(
        name="matches_regex",
        parameters=(text("text"), text("pattern", literal=True, validate=regex_fault, steps=REGEX_STEPS)),
        result=always(Kind.BOOL),
        doc="Whether the RE2 regular expression `pattern` matches somewhere in `text`; write `^…$` to match all of it.",
        example='matches_regex(node.name, "^rack-[0-9]+-")',
        scalar=_matches_regex,
        vector=by_code.Kernel(_matches_regex, bool),
    ),
    Function(
        name="number",
        parameters=(text("text"),),
        result=always(Kind.NUMBER, optional=True),
        doc="The decimal number that `text` spells; missing where it does not spell one.",
        example='(number(node.labels["gpu-generation"]) ?? 0) >= 8',
        scalar=_number,
        vector=by_code.Kernel(_number, float),
    ),
)
