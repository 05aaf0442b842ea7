"""Waiting for a cluster to get somewhere, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.cluster.control_plane import ControlPlane

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


def wait_bound(cluster: ControlPlane, n: int, within: float = 60.0) -> None:
    """Returns when n pods are bound."""

    def count() -> bool:
        bound = sum("nodeName" in pod["spec"] for pod in cluster.api.list("Pod"))
        assert bound == n, f"{bound} of {n} pods are bound"
        return True

    eventually(count, within=within, every=0.3)
