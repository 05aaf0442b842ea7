"""Long computations in short slices, so that scheduling goes on beside them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from wharfinger.framework.ports import Clock

SLICE = 0.003
"""Seconds of work at a time."""

PAUSE = 0.003
"""Seconds between two slices: at most half of the time is taken from a scheduler that has much to do."""

T = TypeVar("T")


async def in_slices(steps: Generator[None, None, T], clock: Clock) -> T:
    """What the generator returns; it yields wherever it may be interrupted."""
    ends = clock.monotonic() + SLICE
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: T = finished.value
            return result
        if clock.monotonic() >= ends:
            await clock.sleep(PAUSE)
            ends = clock.monotonic() + SLICE
