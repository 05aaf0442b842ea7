"""Tools that keep one event loop responsive: clock, timeouts, backoffs, background tasks, long work in a thread or in slices.

A thread that computes gives Python's lock away every few milliseconds, and a decision gives it away with every array it works on: it would
wait for the lock dozens of times. So while something is built in a thread, threads switch sooner, and for a while the scheduler rests
between two slices of deciding.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from msgspec import Struct

from wharfinger.framework.ports import Clock
from wharfinger.steps import Steps

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux; on other systems CLOCK_MONOTONIC continues during a suspension


class SystemClock:
    """The `Clock` of the machine."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    monotonic = staticmethod(partial(time.clock_gettime, _CLOCK))
    """Seconds since some moment; the time in which the machine was suspended counts, so that leases and waits end then."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds."""
        await asyncio.sleep(seconds)


async def until(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """True if the event was set before the timeout, in seconds of the clock."""
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


BACKOFF_WINDOW = 1.0
"""Seconds to which the ends of backoffs are aligned, so that pods that become ready within one window are tried in order of priority."""


class Backoff(Struct, frozen=True, kw_only=True):
    """Seconds to wait: `initial` after the first failure, twice as long after each further one, never more than `maximum`.

    As in kube-scheduler 1.36 (pkg/scheduler/backend/queue/backoff_queue.go).
    """

    initial: float
    maximum: float

    def seconds(self, failures: int) -> float:
        """The wait in seconds after a number of failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        doublings = min(failures - 1, 63)  # beyond that only overflow would come
        return min(self.initial * 2.0**doublings, self.maximum)

    def ready_at(self, failed_at: float, failures: int) -> float:
        """The end of the wait: the end of the window in which it runs out. 0 failures end at once."""
        wait = self.seconds(failures)
        return failed_at if wait == 0 else (math.floor((failed_at + wait) / BACKOFF_WINDOW) + 1) * BACKOFF_WINDOW


LATE_AFTER = 5.0
"""Seconds after which a write that is less urgent than bindings gets its usual share, however many bindings are in flight."""


def writers_behind_bindings(waited: float, usual: int, limit: int) -> int:
    """The number of writes at a time that are less urgent than bindings: one at first, and more the longer the oldest has waited.

    It is `usual` after `LATE_AFTER` seconds. Before that it grows with the cube of the wait, so that a burst of some seconds is bound
    before most of them are written; beyond that, up to `limit`, in proportion to it.
    """
    share = waited / LATE_AFTER
    return min(limit, 1 + int((usual - 1) * (share**3 if share < 1 else share)))


# ── background tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Background:
    """Tasks that run next to the scheduling loop.

    `failed` is called with the exception of a task; a cancelled task has not failed. `ended` is called after each task, however it ends.
    """

    def __init__(self, failed: Callable[[BaseException], None], ended: Callable[[], None] | None = None) -> None:
        self._failed = failed
        self._after = ended
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin with the work in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)  # `ensure_future` also looks whether it is a coroutine
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def drain(self) -> None:
        """Wait until no task is under way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def cancel(self) -> None:
        """Stop everything at once."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._after is not None:
            self._after()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)


class Tasks:
    """Background tasks of a context: at its exit they are cancelled in sequence, the latest first."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._tasks:
            task = self._tasks.pop()
            task.cancel()
            await asyncio.wait({task})
            if error is None and not task.cancelled():
                _succeeded(task)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """The task that does the work from now on."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.append(task)
        return task

    async def until(self, *goals: asyncio.Event | asyncio.Future[Any]) -> None:
        """Wait until an event is set or a task has ended; raise the error of any background task that fails before that."""
        waiting: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(goal.wait()) if isinstance(goal, asyncio.Event) else goal for goal in goals
        ]
        try:
            while not any(goal.done() for goal in waiting):
                done, _ = await asyncio.wait({*waiting, *self._running()}, return_when=asyncio.FIRST_COMPLETED)
                for task in done & set(self._tasks):
                    _succeeded(task)
        finally:
            for wait, goal in zip(waiting, goals, strict=True):
                if isinstance(goal, asyncio.Event):
                    wait.cancel()

    def _running(self) -> set[asyncio.Task[Any]]:
        return {task for task in self._tasks if not task.done()}


def _succeeded(task: asyncio.Future[Any]) -> None:
    """Raise the error of a task; for a group of errors, the first one."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error


# ── long work in a thread ────────────────────────────────────────────────────────────────────────────────────────────────

SWITCH_INTERVAL = 0.0002
"""Seconds after which a thread requests the lock; Python's own 0.005 would make a decision of 1 ms last 40."""
BUILD_PAUSE = 0.005
"""Seconds for which the scheduler rests between two slices."""
MAX_PAUSED_BUILD = 3.0
"""Seconds of building after which the scheduler does not rest for it any more."""

P = ParamSpec("P")
T = TypeVar("T")


class BatchThread:
    """A thread that calls `work` some seconds after it was woken; once more when it is closed, and then `at_end`."""

    def __init__(self, name: str, seconds: float, work: Callable[[], None], at_end: Callable[[], None] = lambda: None) -> None:
        self._seconds = seconds
        self._work = work
        self._at_end = at_end
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Have `work` called; may be called from any thread."""
        if not self._woken.is_set():
            self._woken.set()

    def close(self, timeout: float) -> None:
        """Have `work` called at once for the last time, and wait for the end of the thread for at most `timeout` seconds."""
        self._closing.set()
        self._woken.set()
        self._thread.join(timeout)

    @property
    def is_closing(self) -> bool:
        """True from the call of `close` on."""
        return self._closing.is_set()

    def _run(self) -> None:
        closing = False
        while not closing:
            self._woken.wait()
            closing = self._closing.wait(self._seconds)
            self._woken.clear()
            self._work()
        self._at_end()


class BuildThread:
    """Runs one function at a time in a thread, and computes how long the scheduler should rest for it between two slices.

    A thread cannot be stopped: a caller that is cancelled ends when the function has, so that its turn does not end before.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the function; the scheduler rests for it."""
        self._began = self._clock.monotonic()
        try:
            return await self.run_without_rest(function, *args, **kwargs)
        finally:
            self._began = None

    async def run_without_rest(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the function; the scheduler does not rest for it."""
        with _short_switch_interval():
            work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.wait({work})
                raise

    def rest(self) -> float:
        """Seconds for which the scheduler should rest after a slice; 0 if nothing is being built, or for longer than `MAX_PAUSED_BUILD`."""
        return 0.0 if self._began is None or self._clock.monotonic() - self._began > MAX_PAUSED_BUILD else BUILD_PAUSE


def free_one_by_one(former: list[object]) -> None:
    """Free objects one by one: freeing 200 policies at once takes 20 ms, during which no other thread can run."""
    while former:
        former.pop()


_usual_intervals: list[float] = []
"""The switch interval before the first of the threads that compute now; an entry for each of them."""


@contextmanager
def _short_switch_interval() -> Iterator[None]:
    """A context in which threads switch after `SWITCH_INTERVAL` seconds; contexts may overlap, and end in any order."""
    _usual_intervals.append(_usual_intervals[0] if _usual_intervals else sys.getswitchinterval())
    sys.setswitchinterval(min(SWITCH_INTERVAL, _usual_intervals[0]))
    try:
        yield
    finally:
        usual = _usual_intervals.pop()
        if not _usual_intervals:
            sys.setswitchinterval(usual)


# ── long work in slices ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────

SLICE = 0.003
"""Seconds of work on the event loop at a time."""
SLICE_PAUSE = 0.003
"""Seconds between two slices: a scheduler with much to do loses at most half of its time."""


async def in_slices(steps: Generator[None, None, T], clock: Clock, pause: float = SLICE_PAUSE) -> T:
    """The result of the generator, which yields wherever it may be interrupted; `pause` is in seconds."""
    ends = clock.monotonic() + SLICE
    taken = Steps(steps)
    for _ in taken:
        if clock.monotonic() >= ends:
            await clock.sleep(pause)
            ends = clock.monotonic() + SLICE
    return taken.result


class TimedSteps(Generic[T]):
    """Steps, and the `seconds` that they have taken so far."""

    def __init__(self, steps: Generator[None, None, T], clock: Clock) -> None:
        self._steps = steps
        self._clock = clock
        self.seconds = 0.0

    def run(self) -> Generator[None, None, T]:
        """The same steps, with the same result."""
        with closing(self._steps):
            while True:
                began = self._clock.monotonic()
                try:
                    next(self._steps)
                except StopIteration as finished:
                    result: T = finished.value
                    return result
                finally:
                    self.seconds += self._clock.monotonic() - began
                yield
