"""Functions of strings, and of versions as Semantic Versioning 2.0.0 (semver.org, section 11) orders them.

Each is one plain Python function; its kernel evaluates it once per distinct text (`text_kernels`). Regular expressions run on RE2, whose
matching time is linear in the length of the text, so no policy can block the scheduler with one.

Kubernetes and its nodes write versions loosely (`v1.28`, `5.15.0-105-generic`): a leading `v` and missing minor or patch numbers are
accepted, and build metadata (`+…`) is ignored.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import re2

from wharfinger.builtins import text_kernels
from wharfinger.builtins.signature import always, text
from wharfinger.language.semantics.catalogue import Function
from wharfinger.language.semantics.types import Kind

REGEX_MEMORY = 256 * 1024  # bytes RE2 may spend on one expression: thousands of states, microseconds to match a label value
REGEX_STEPS = 800  # of a check, for one expression: up to four milliseconds of RE2
DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?", re.ASCII)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The compiled expression; raises re2.error if it is invalid or too costly."""
    options = re2.Options()
    options.max_mem = REGEX_MEMORY
    options.log_errors = False
    return re2.compile(pattern, options)


def regex_fault(pattern: object) -> str | None:
    """What is wrong with a regular expression (no RE2 syntax, or too costly), None if nothing."""
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
        vector=text_kernels.Kernel(str.startswith, bool),
    ),
    Function(
        name="ends_with",
        parameters=(text("text"), text("suffix")),
        result=always(Kind.BOOL),
        doc="Whether `text` ends with `suffix`.",
        example='ends_with(pod.namespace, "-prod")',
        scalar=str.endswith,
        vector=text_kernels.Kernel(str.endswith, bool),
    ),
    Function(
        name="contains",
        parameters=(text("text"), text("part")),
        result=always(Kind.BOOL),
        doc="Whether `part` occurs in `text`.",
        example='contains(node.name, "spot")',
        scalar=_contains,
        vector=text_kernels.Kernel(_contains, bool),
    ),
    Function(
        name="lower",
        parameters=(text("text"),),
        result=always(Kind.STRING),
        doc="`text` in lower case.",
        example='lower(node.name) == "a100"',
        scalar=str.lower,
        vector=text_kernels.Kernel(str.lower, str),
    ),
    Function(
        name="upper",
        parameters=(text("text"),),
        result=always(Kind.STRING),
        doc="`text` in upper case.",
        example='upper(pod.namespace) == "TEAM-A"',
        scalar=str.upper,
        vector=text_kernels.Kernel(str.upper, str),
    ),
    Function(
        name="matches_regex",
        parameters=(text("text"), text("pattern", literal=True, validate=regex_fault, steps=REGEX_STEPS)),
        result=always(Kind.BOOL),
        doc="Whether the RE2 regular expression `pattern` matches somewhere in `text`; write `^…$` to match all of it.",
        example='matches_regex(node.name, "^rack-[0-9]+-")',
        scalar=_matches_regex,
        vector=text_kernels.Kernel(_matches_regex, bool),
    ),
    Function(
        name="number",
        parameters=(text("text"),),
        result=always(Kind.NUMBER, optional=True),
        doc="The decimal number that `text` spells; missing where it does not spell one.",
        example='(number(node.labels["gpu-generation"]) ?? 0) >= 8',
        scalar=_number,
        vector=text_kernels.Kernel(_number, float),
        never_nan=True,
    ),
)


VERSION = re.compile(r"v?([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)

Identifier = tuple[int, int, str]
Ordered = tuple[int, int, int, bool, tuple[Identifier, ...]]


@lru_cache(maxsize=1024)
def ordered(version: str) -> Ordered | None:
    """A tuple that orders as the version does; None if the text is not a version."""
    found = VERSION.fullmatch(version)
    if found is None:
        return None
    major, minor, patch, pre = found.groups()
    identifiers = tuple(_identifier(part) for part in pre.split(".")) if pre else ()
    return (int(major), int(minor or 0), int(patch or 0), pre is None, identifiers)


def _identifier(part: str) -> Identifier:
    """Numeric identifiers order by value and before the others, which order by their characters."""
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


def version_fault(version: object) -> str | None:
    """What is wrong with a version written in a policy, None if nothing."""
    return None if ordered(str(version)) else 'not a version; write it as "1.28" or "1.28.3-rc.1"'


def _compare(a: str, b: str) -> float | None:
    left, right = ordered(a), ordered(b)
    if left is None or right is None:
        return None
    return float((left > right) - (left < right))


def _at_least(version: str, minimum: str) -> bool | None:
    order = _compare(version, minimum)
    return None if order is None else order >= 0


VERSIONS = (
    Function(
        name="version_compare",
        parameters=(text("a"), text("b")),
        result=always(Kind.NUMBER, optional=True),
        doc="-1, 0 or 1 as version `a` is older than, equal to or newer than `b` (Semantic Versioning); missing where one is no version.",
        example='(version_compare(node.labels["driver"], "535.104") ?? -1) >= 0',
        scalar=_compare,
        vector=text_kernels.Kernel(_compare, float),
        interval=lambda *_: (-1.0, 1.0),
    ),
    Function(
        name="version_at_least",
        parameters=(text("version"), text("minimum", literal=True, validate=version_fault)),
        result=always(Kind.BOOL, optional=True),
        doc="Whether `version` is `minimum` or newer (Semantic Versioning); missing where it is not a version.",
        example='version_at_least(node.labels["driver"], "535.104") ?? false',
        scalar=_at_least,
        vector=text_kernels.Kernel(_at_least, bool),
    ),
)
