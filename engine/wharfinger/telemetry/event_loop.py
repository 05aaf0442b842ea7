"""How long steps of the event loop block everything else.

Everything happens on one event loop, in steps: while one runs, nothing is watched, bound or answered, and the Lease is not renewed. A beat
that is due every few milliseconds is late by as much as the step that keeps it waiting, less the part of the step that lies before it was
due.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics

BEAT = 0.01
"""Seconds between two beats: a step that is shorter may not be seen, and any other is measured too short by at most that."""
RECENT = 60.0
"""Seconds for which the longest step is reported, at least."""


class LoopSteps:
    """Measures how late beats are; `timer` gives the seconds since any fixed moment, and `sleep` waits."""

    def __init__(self, metrics: Metrics, sleep: Callable[[float], Awaitable[None]], timer: Callable[[], float] = time.perf_counter) -> None:
        self._sleep = sleep
        self._timer = timer
        self._steps = metrics.histogram(Metric.LOOP_STEPS)
        self._longest = self._longest_before = 0.0
        self._since = timer()
        metrics.read(Metric.LOOP_LONGEST_STEP, lambda: {(): self.longest})

    @property
    def longest(self) -> float:
        """The longest step of the last minute or two, in seconds."""
        self._turn()
        return max(self._longest, self._longest_before)

    async def run(self) -> None:
        """Measures until cancelled."""
        while True:
            began = self._timer()
            await self._sleep(BEAT)
            self.late(max(0.0, self._timer() - began - BEAT))

    def late(self, seconds: float) -> None:
        """Records a beat that was late by so many seconds."""
        self._steps.observe(seconds)
        self._turn()
        self._longest = max(self._longest, seconds)

    def _turn(self) -> None:
        """Begins the next minute when one is over; what is older than two minutes is forgotten."""
        elapsed = self._timer() - self._since
        if elapsed >= RECENT:
            self._longest_before = self._longest if elapsed < 2 * RECENT else 0.0
            self._longest = 0.0
            self._since += elapsed
