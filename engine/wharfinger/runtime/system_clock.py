"""The clock of the machine."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """A `Clock` that the machine keeps."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """None, after so many seconds."""
        await asyncio.sleep(seconds)
