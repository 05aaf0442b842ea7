"""Counts the work of a call instead of timing it: the number is the same on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

MOST = 20_000_000


class TooMuchWork(Exception):
    """A call that does far more than any test should."""


def calls(function: Callable[[], Any], limit: int = MOST) -> int:
    """The number of functions that a call enters, in Python and in C; raises `TooMuchWork` beyond `limit`, so endless calls fail soon.

    The garbage collector rests meanwhile: what it calls (hypothesis and the scheduler register functions) would be counted too.
    """
    count = 0

    def each(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        if event in {"call", "c_call"}:
            count += 1
            if count > limit:
                raise TooMuchWork(f"more than {limit:,} calls")

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(each)
    try:
        function()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count
