"""Versions, compared as Semantic Versioning 2.0.0 (semver.org §11) orders them.

Kubernetes and its nodes write versions loosely (`v1.28`, `5.15.0-105-generic`), so a leading `v` and missing minor or patch
numbers are accepted. Build metadata (`+…`) does not count.
"""

from __future__ import annotations

import re
from functools import lru_cache

from wharfinger.builtins import by_code
from wharfinger.builtins.signatures import always, text
from wharfinger.language.catalogue import Function
from wharfinger.language.types import Kind

VERSION = re.compile(r"v?([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)

Identifier = tuple[int, int, str]
Ordered = tuple[int, int, int, bool, tuple[Identifier, ...]]


@lru_cache(maxsize=1024)
def ordered(version: str) -> Ordered | None:
    """A tuple that orders as the version does, or None when the text is not a version."""
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
    """What is wrong with a version written in a policy, or None."""
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
        vector=by_code.Kernel(_compare, float),
        interval=lambda *_: (-1.0, 1.0),
    ),
    Function(
        name="version_at_least",
        parameters=(text("version"), text("minimum", literal=True, validate=version_fault)),
        result=always(Kind.BOOL, optional=True),
        doc="Whether `version` is `minimum` or newer (Semantic Versioning); missing where it is not a version.",
        example='version_at_least(node.labels["driver"], "535.104") ?? false',
        scalar=_at_least,
        vector=by_code.Kernel(_at_least, bool),
    ),
)
