"""How long a pod that could not be placed waits before it is tried again.

As in kube-scheduler 1.36 (pkg/scheduler/backend/queue/backoff_queue.go): the wait doubles with every failure up to a limit, and ends are
aligned to windows of a second, so that pods which become ready within one window are tried in order of priority.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
