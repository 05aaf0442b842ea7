"""Looking for garbage less often.

Python looks through all objects it knows for cycles that nobody refers to. Modules, policies and the first picture of a cluster are a
million objects that stay; looking through them was a tenth of the CPU of a burst. What becomes garbage later is found as before, only in
larger portions: memory comes back by reference counting, and cycles are few.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

_PORTION = (50_000, 20, 50)  # new objects per look at the young, looks at the young per look at the middle-aged, and so on


async def seldom_collected(settled: Callable[[], Awaitable[None]]) -> None:
    """Never returns: until it is cancelled, what was there before `settled` is left out of collections."""
    usual = gc.get_threshold()
    gc.set_threshold(*_PORTION)
    gc.freeze()
    try:
        await settled()
        gc.freeze()
        await asyncio.Event().wait()
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
