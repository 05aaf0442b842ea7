"""Waits for a state of the cluster, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.cluster.control_plane import ControlPlane

T = TypeVar("T")
PATIENCE = 120.0
"""Seconds after which something is taken never to happen.

That is longer than a busy machine takes, and shorter than the five minutes after which a scheduler looks again for events that it has
missed.
"""


def eventually(condition: Callable[[], T], *, within: float = PATIENCE, every: float = 0.1) -> T:
    """The first true result of `condition`; until then its AssertionErrors count as "not yet".

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


def wait_bound(cluster: ControlPlane, n: int, within: float = PATIENCE) -> None:
    """Returns when n pods are bound."""

    def count() -> bool:
        bound = sum("nodeName" in pod["spec"] for pod in cluster.api.list("Pod"))
        assert bound == n, f"{bound} of {n} pods are bound"
        return True

    eventually(count, within=within, every=0.3)
