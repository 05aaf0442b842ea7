"""The last hour of a scheduler as a few numbers every ten seconds, for the live page; it takes some tens of kilobytes at most.

Durations are read from the recent decisions, so nothing is counted while a pod is placed. Where the records of an interval were dropped
already, because very many pods were tried, the percentiles are those of the newest ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice, takewhile
from typing import NamedTuple

import numpy as np

from wharfinger.framework.ports import Clock
from wharfinger.telemetry.recent_decisions import RecentDecisions

INTERVAL = 10.0
"""Seconds between two points."""
MAX_POINTS = 360
"""Points that are kept: an hour."""
MAX_DECISIONS = 5000
"""Decisions of an interval whose durations are looked at."""


class Reading(NamedTuple):
    """What a scheduler is asked for: how many pods wait, and the requested fraction of each resource by name."""

    pending: int
    used: Mapping[str, float]


class Point(NamedTuple):
    """The interval that ended at `at` (seconds since 1970).

    `rate` is attempts per second; `p50` and `p99` are the seconds of a decision, None where none was made.
    """

    at: float
    rate: float
    p50: float | None
    p99: float | None
    pending: int
    used: Mapping[str, float]


class SchedulingHistory:
    """The points of the last hour, newest last."""

    def __init__(self, recent: RecentDecisions, clock: Clock) -> None:
        self._recent = recent
        self._clock = clock
        self._seen = recent.n_seen
        self._since = clock.now()
        self._began = clock.monotonic()
        self.points: deque[Point] = deque(maxlen=MAX_POINTS)

    async def run(self, read: Callable[[], Reading]) -> None:
        """Adds a point every `INTERVAL` seconds; never returns."""
        while True:
            await self._clock.sleep(INTERVAL)
            self.add(read())

    def add(self, reading: Reading) -> None:
        """Adds the point of the interval that ends now."""
        now, monotonic, seen = self._clock.now(), self._clock.monotonic(), self._recent.n_seen
        latest = takewhile(lambda record: record.at >= self._since, self._recent.latest())
        spent = [record.seconds["decide"] for record in islice(latest, MAX_DECISIONS) if "decide" in record.seconds]
        p50, p99 = np.percentile(spent, (50, 99)).tolist() if spent else (None, None)
        rate = (seen - self._seen) / max(monotonic - self._began, 1e-9)
        self.points.append(Point(now, rate, p50, p99, reading.pending, reading.used))
        self._seen, self._since, self._began = seen, now, monotonic
