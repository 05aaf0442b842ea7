"""What keeps one event loop responsive: the clock, waiting with a limit, backoffs, background tasks, long work in a thread, garbage.

A thread that computes gives Python's lock away every few milliseconds, and a decision gives it away with every array it works on: it would
wait for the lock dozens of times. So while something is built in a thread, threads switch sooner, and for a while the scheduler rests
between two slices of deciding.

Python looks for garbage with all threads standing still: at young objects every few hundred new ones, and at all of them, a tenth of a
second for a large cluster, whenever enough have survived, which is in the middle of a burst of pods or of a reload of policies. Modules,
policies and the first state of a cluster are a million objects that stay; looking through them was a tenth of the CPU of a burst. So what
exists at the start, and when the cluster is known, is left out for good; young objects are looked at in portions that take a few
milliseconds; and the look at everything else waits for a quiet moment. Python's middle generation is not used: a look at ten portions that
survived takes as long as ten looks, all at once, for objects that a quiet moment would find as well.
"""

from __future__ import annotations

import asyncio
import gc
import math
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from wharfinger.framework.ports import Clock

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux; elsewhere CLOCK_MONOTONIC goes on during a suspension


class SystemClock:
    """A `Clock` that the machine keeps."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some moment, those included in which the machine was suspended: whatever was promised for a time is over then."""
        return time.clock_gettime(_CLOCK)

    async def sleep(self, seconds: float) -> None:
        """None, after so many seconds."""
        await asyncio.sleep(seconds)


async def until(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Whether the event was set within so many seconds of the clock."""
    if event.is_set():
        return True
    happened = asyncio.ensure_future(event.wait())
    expired = asyncio.ensure_future(clock.sleep(max(seconds, 0.0)))
    try:
        await asyncio.wait({happened, expired}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        happened.cancel()
        expired.cancel()
    return event.is_set()


WINDOW = 1.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Seconds to wait: `initial` after the first failure, twice as long after each further one, never more than `most`."""

    initial: float = 1.0
    most: float = 10.0

    def seconds(self, failures: int) -> float:
        """The wait after so many failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        doublings = min(failures - 1, 63)  # beyond that only overflow would come
        return min(self.initial * 2.0**doublings, self.most)

    def ready_at(self, failed_at: float, failures: int) -> float:
        """The end of the wait: the end of the window in which it runs out. 0 failures end at once."""
        wait = self.seconds(failures)
        return failed_at if wait == 0 else (math.floor((failed_at + wait) / WINDOW) + 1) * WINDOW


class Background:
    """Tasks under way. `failed` is told what a task raised; a task that is cancelled has not failed."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """The task that does the work."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def drain(self) -> None:
        """None, when nothing is under way any more."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def cancel(self) -> None:
        """Stop everything at once."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)


PATIENCE = 0.0002
"""Seconds after which the lock is asked for; Python's own 0.005 would make a decision of 1 ms last 40."""
REST = 0.005
"""Seconds that whoever decides leaves to the building between two slices."""
LONGEST = 3.0
"""Seconds of building after which nobody rests for it any more: what takes that long is not waited for."""

P = ParamSpec("P")
T = TypeVar("T")


class BuildThread:
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


def free_one_by_one(former: list[object]) -> None:
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


YOUNG = 10_000
"""New objects per look at the young."""
NEVER = 1_000_000_000
LOOK = 1.0
"""Seconds between two looks whether it is quiet."""
WORTH_IT = 500_000
"""New objects that make a full collection worth while in a quiet moment."""
OVERDUE = 10 * WORTH_IT
"""New objects that make it due at any moment."""


@contextmanager
def rarely() -> Iterator[None]:
    """A context in which what is there already is left alone, and Python starts no full collection by itself."""
    usual = gc.get_threshold()
    gc.set_threshold(YOUNG, NEVER, NEVER)
    gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


async def collect_in_quiet(quiet: Callable[[], bool], clock: Clock, settled: Callable[[], Awaitable[None]]) -> None:
    """None, when cancelled: collects garbage when it is `quiet`, and in spite of that when there may be too much of it.

    What was there before `settled` returned is never looked at.
    """
    with rarely():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_freeze_when(settled))
            while True:
                await clock.sleep(LOOK)
                grown = _grown()
                if grown >= OVERDUE or (grown >= WORTH_IT and quiet()):
                    gc.collect()


async def _freeze_when(settled: Callable[[], Awaitable[None]]) -> None:
    await settled()
    gc.freeze()


def _grown() -> int:
    """About how many objects there are more than at the last full collection: as many as were looked at when they were young."""
    return gc.get_count()[1] * YOUNG
