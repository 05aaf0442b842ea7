"""How long to wait before asking again: exponential with jitter, or what the server says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.kube import refusals


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Waits in seconds: doubled after each failure up to `longest`, each stretched by up to `jitter` so that clients spread out.

    Where nobody answers, at most `longest_unanswered`: asking costs nobody anything, and one likes to know soon that somebody is back.
    """

    first: float = 0.2
    longest: float = 10.0
    longest_unanswered: float = 2.0
    jitter: float = 0.5
    draw: Callable[[], float] = random.random
    _failures: int = 0

    def reset(self) -> None:
        """None; the next failure is the first one."""
        self._failures = 0

    def after(self, error: BaseException | None = None) -> float:
        """Seconds to wait after one more failure; never less than what the server asked for."""
        longest = min(self.longest, self.longest_unanswered) if isinstance(error, refusals.Unreachable) else self.longest
        wait = min(self.first * 2.0 ** min(self._failures, 30), longest)
        self._failures += 1
        asked = error.retry_after if isinstance(error, refusals.ApiError) else None
        return max(wait, asked or 0.0) * (1.0 + self.jitter * self.draw())
