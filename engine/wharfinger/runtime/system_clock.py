"""The clock of the machine."""

from __future__ import annotations

import asyncio
import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux; elsewhere CLOCK_MONOTONIC goes on during a suspension


class SystemClock:
    """A `Clock` that the machine keeps."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some moment, those included in which the machine was suspended: whatever was promised for a time is over then."""
        return time.clock_gettime(_CLOCK)

    async def sleep(self, seconds: float) -> None:
        """None, after so many seconds."""
        await asyncio.sleep(seconds)
