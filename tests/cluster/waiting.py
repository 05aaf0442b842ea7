"""Waiting for a cluster to get somewhere, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, within: float = 30.0, every: float = 0.1) -> T:
    """What `condition` answers as soon as that is true; until then AssertionErrors of it are taken for "not yet".

    Raises AssertionError when the time is over: the condition's own if it has raised one.
    """
    deadline = time.monotonic() + within
    while True:
        late = time.monotonic() > deadline
        try:
            if answer := condition():
                return answer
        except AssertionError:
            if late:
                raise
        if late:
            raise AssertionError(f"not within {within:.0f} s: {getattr(condition, '__doc__', None) or condition}")
        time.sleep(every)
