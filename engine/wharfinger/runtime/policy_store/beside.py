"""Building beside the event loop, in a thread.

A thread that computes gives Python's lock away every few milliseconds, and a decision gives it away with every array it works on: it would
stand in line for it dozens of times. While something is built, the lock is asked for sooner. A busy scheduler would still take half of all
time, and whoever waits for a policy would wait twice as long; so for a while it rests between two slices of deciding, shorter than anybody
notices.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock

PATIENCE = 0.0002
"""Seconds after which the lock is asked for; Python's own 0.005 would make a decision of 1 ms last 40."""
REST = 0.005
"""Seconds that whoever decides leaves to the building between two slices."""
LONGEST = 3.0
"""Seconds of building after which nobody rests for it any more: what takes that long is not waited for."""

P = ParamSpec("P")
T = TypeVar("T")


class Beside:
    """Runs one function at a time in a thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns; somebody waits for it."""
        self._began = self._clock.monotonic()
        try:
            return await self.unhurried(function, *args, **kwargs)
        finally:
            self._began = None

    async def unhurried(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns; nobody rests for it."""
        with _giving_way():
            return await asyncio.to_thread(function, *args, **kwargs)

    def rest(self) -> float:
        """For how many seconds to leave the time to what is being built; 0 if nothing is, or for too long."""
        return 0.0 if self._began is None or self._clock.monotonic() - self._began > LONGEST else REST


def let_go(former: list[object]) -> None:
    """None; taking 200 policies apart takes 20 ms, in which nobody else has a turn if it is done in one go."""
    while former:
        former.pop()


@contextmanager
def _giving_way() -> Iterator[None]:
    """A context in which threads give way to others soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(PATIENCE, before))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
