"""Work in a thread that leaves Python's lock to the event loop in time.

A thread that computes keeps the lock for milliseconds at a stretch, and each time the loop wants it back it waits that long; two such
threads make it wait twice. So answers are worked on one at a time, and between two portions the thread rests: too short to matter to
anybody who waits for the samples, long enough for the loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

PORTION = 100
"""Things done at a stretch: a quarter of a millisecond of work."""

REST = 0.0005
"""Seconds between two stretches."""

T = TypeVar("T")
_turn = threading.Lock()


@contextmanager
def in_turn() -> Iterator[None]:
    """A context in which no other thread is."""
    with _turn:
        yield


def in_portions(things: Iterable[T]) -> Iterator[T]:
    """The things, with a rest after every portion."""
    for count, thing in enumerate(things, 1):
        yield thing
        if count % PORTION == 0:
            time.sleep(REST)
