"""What users give: numbers in texts, and standard input.

Numbers are written as in JSON: `5`, `-5`, `0.5`, `1e-3`. Python itself also reads `1_000`, ` 5 `, `+5`, `inf`, `nan` and the digits of all
scripts, which are mistakes in a flag or a request.
"""

from __future__ import annotations

import math
import re
import sys
from typing import BinaryIO
from weakref import WeakSet

from wharfinger.errors import UsageError

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_taken: WeakSet[object] = WeakSet()


def whole_number(text: str) -> int | None:
    """The whole number of up to 18 digits that a text is; None for any other text."""
    return int(text) if _WHOLE.fullmatch(text) else None


def decimal_number(text: str) -> float | None:
    """The number that a text is; None for any other text, and for a number that float64 does not have."""
    found = float(text) if _DECIMAL.fullmatch(text) else math.nan
    return found if math.isfinite(found) else None


def standard_input() -> BinaryIO:
    """Standard input, for one reader. UsageError for a second one, which would find it empty."""
    if sys.stdin in _taken:
        raise UsageError("standard input can be read only once: give all but one of the `-` as files")
    _taken.add(sys.stdin)
    return sys.stdin.buffer
