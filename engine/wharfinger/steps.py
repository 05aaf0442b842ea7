"""Long work as a generator of steps: it yields wherever it may be interrupted, and returns the result.

`event_loop.in_slices` runs such a generator between other work of the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

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
