"""Keys of objects that somebody should look at, each at most once at a time.

The rules are those of client-go's workqueue (util/workqueue/queue.go, Kubernetes 1.36): a key that is added while it waits is there once;
one that is added while somebody works on it waits until that is done, then comes again; so nobody ever works on a key that another worker
has, and no change goes unseen. Failures come back after ever longer waits, each key for itself.

          add                    get                     done
    (absent) ──▶ waiting (dirty) ──▶ being worked on ──▶ (absent)
                     ▲                   │ add: dirty again
                     └──────── done ─────┘
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from wharfinger.framework.ports import Clock
from wharfinger.runtime.waiting import until


class QueueObserver(Protocol):
    """Told what a queue does. Must be quick and must not fail."""

    def added(self, queue: str, depth: int) -> None:
        """None; a key was added, and so many wait now."""

    def taken(self, queue: str, depth: int, waited: float) -> None:
        """None; a key that had waited so many seconds was taken, and so many wait now."""

    def retried(self, queue: str) -> None:
        """None; a key will come back after a failure."""


class SilentQueueObserver:
    """An observer that makes nothing of it."""

    def added(self, queue: str, depth: int) -> None:
        """None."""

    def taken(self, queue: str, depth: int, waited: float) -> None:
        """None."""

    def retried(self, queue: str) -> None:
        """None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """The first and the longest wait after failures, in seconds; as client-go's DefaultTypedControllerRateLimiter but for the longest."""

    first: float = 0.005
    longest: float = 60.0


class WorkQueue:
    """A queue on one event loop. `stop` lets waiting workers go once what is being worked on is done."""

    def __init__(self, name: str, clock: Clock, observer: QueueObserver | None = None, limits: RetryLimits | None = None) -> None:
        self.name = name
        self._clock = clock
        self._observer = observer or SilentQueueObserver()
        self._limits = limits or RetryLimits()
        self._waiting: OrderedDict[str, float] = OrderedDict()  # in order of arrival, with the time of it
        self._working: set[str] = set()
        self._dirty: set[str] = set()  # added while being worked on
        self._failures: dict[str, int] = {}
        self._later: list[tuple[float, int, str]] = []
        self._due: dict[str, float] = {}
        self._order = itertools.count()
        self._news = asyncio.Event()
        self._stopped = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nobody works and nothing waits; what is due later does not count."""
        return not (self._waiting or self._working)

    def add(self, key: str) -> None:
        """None; the key waits, unless it does already."""
        if self._stopped or key in self._waiting or key in self._dirty:
            return
        if key in self._working:
            self._dirty.add(key)
        else:
            self._waiting[key] = self._clock.monotonic()
            self._news.set()
        self._observer.added(self.name, len(self._waiting))

    def add_after(self, key: str, seconds: float) -> None:
        """None; the key will wait in so many seconds, or sooner if it was to come sooner."""
        due = self._clock.monotonic() + seconds
        if seconds <= 0:
            self.add(key)
        elif not self._stopped and due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._later, (due, next(self._order), key))
            self._news.set()

    def retry(self, key: str) -> float:
        """Seconds until the key comes back: each failure in a row doubles them."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = min(self._limits.first * 2.0 ** min(failures, 60), self._limits.longest)
        self._observer.retried(self.name)
        self.add_after(key, wait)
        return wait

    def forget(self, key: str) -> None:
        """None; the next failure of the key is its first."""
        self._failures.pop(key, None)

    async def get(self) -> str | None:
        """A key to work on, for which `done` is to be called; None after `stop`."""
        while True:
            self._ripen()
            if self._stopped:
                return None
            if self._waiting:
                key, since = self._waiting.popitem(last=False)
                self._working.add(key)
                self._observer.taken(self.name, len(self._waiting), self._clock.monotonic() - since)
                return key
            await self._news_or(self._later[0][0] if self._later else None)

    def done(self, key: str) -> None:
        """None; nobody works on the key any more. If it was added meanwhile, it waits again."""
        self._working.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            if not self._stopped:
                self._waiting[key] = self._clock.monotonic()
        self._news.set()

    def stop(self) -> None:
        """None; nothing is taken or given out any more."""
        self._stopped = True
        self._waiting.clear()
        self._news.set()

    async def drained(self) -> None:
        """None, once nobody works on anything."""
        while self._working:
            await self._news_or(None)

    def _ripen(self) -> None:
        now = self._clock.monotonic()
        while self._later and self._later[0][0] <= now:
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)

    async def _news_or(self, moment: float | None) -> None:
        """None, when something has happened or the moment has come."""
        self._news.clear()
        if moment is None:
            await self._news.wait()
            return
        await until(self._news, self._clock, moment - self._clock.monotonic())
