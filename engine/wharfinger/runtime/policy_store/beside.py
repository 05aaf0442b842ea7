"""Building beside the event loop.

A thread that computes gives Python's lock away every few milliseconds, and a decision gives it away with every array it works on: it would
stand in line for it dozens of times. While something is built, the thread is asked for the lock sooner.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.001
"""Seconds after which the lock is asked for; Python's own 0.005 would make a decision of 1 ms last 40."""


@contextmanager
def giving_way() -> Iterator[None]:
    """A context in which this thread gives way to others soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(PATIENCE, before))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
