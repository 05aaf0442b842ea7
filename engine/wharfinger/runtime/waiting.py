"""Waiting for something to happen, but not for ever."""

from __future__ import annotations

import asyncio

from wharfinger.framework.ports import Clock


async def until(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Whether the event was set within so many seconds of the clock."""
    if event.is_set():
        return True
    happened = asyncio.ensure_future(event.wait())
    expired = asyncio.ensure_future(clock.sleep(max(seconds, 0.0)))
    try:
        await asyncio.wait({happened, expired}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        happened.cancel()
        expired.cancel()
    return event.is_set()
