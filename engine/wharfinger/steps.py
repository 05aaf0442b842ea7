"""Long work as a generator of steps: it yields wherever it may be interrupted, and returns the result.

`event_loop.in_slices` runs such a generator between other work of the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Generic, TypeVar

T = TypeVar("T")


class Steps(Generic[T]):
    """An iterable of the steps of a generator; after the last one, `result` is what the generator returned."""

    result: T

    def __init__(self, steps: Generator[None, None, T]) -> None:
        self._steps = steps

    def __iter__(self) -> Generator[None]:
        self.result = yield from self._steps


def at_once(steps: Generator[None, None, T]) -> T:
    """The result of the generator, without a pause between its steps."""
    taken = Steps(steps)
    for _ in taken:
        pass
    return taken.result


def followed_by(steps: Generator[None, None, T], after_each: Callable[[], None]) -> Generator[None, None, T]:
    """The same steps, with the same result; `after_each` is called after each step but the last."""
    with closing(steps):
        taken = Steps(steps)
        for _ in taken:
            after_each()
            yield
        return taken.result
