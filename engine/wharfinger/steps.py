"""Long work in steps: a generator that yields wherever it may be interrupted, and returns the result."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Generic, TypeVar

from wharfinger.framework.ports import Clock

SLICE = 0.003
"""Seconds of work on the event loop at a time."""
SLICE_PAUSE = 0.003
"""Seconds between two slices: a scheduler with much to do loses at most half of its time."""

T = TypeVar("T")


def at_once(steps: Generator[None, None, T]) -> T:
    """The result of the generator, without a pause between its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: T = finished.value
            return result


def followed_by(steps: Generator[None, None, T], after_each: Callable[[], None]) -> Generator[None, None, T]:
    """The same steps, with the same result; `after_each` is called after each step but the last."""
    with closing(steps):
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                result: T = finished.value
                return result
            after_each()
            yield


async def in_slices(steps: Generator[None, None, T], clock: Clock, pause: float = SLICE_PAUSE) -> T:
    """The result of the generator, which yields wherever it may be interrupted; `pause` is in seconds."""
    ends = clock.monotonic() + SLICE
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: T = finished.value
            return result
        if clock.monotonic() >= ends:
            await clock.sleep(pause)
            ends = clock.monotonic() + SLICE


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
