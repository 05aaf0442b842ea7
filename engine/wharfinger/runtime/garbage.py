"""When Python looks for garbage.

Nearly everything here is freed when its last user lets go; only a little hangs together in circles. To find that, Python looks at the
objects it knows with all threads standing still: at the young ones every few hundred new objects, and at all of them, a tenth of a second
for a large cluster, whenever enough have survived, which is in the middle of a burst of pods or of a reload of policies. Modules, policies
and the first picture of a cluster are a million objects that stay; looking through them was a tenth of the CPU of a burst.

So what is there at the beginning, and when the cluster is known, is left out for good; the young are looked at once, in portions that take
a few milliseconds; and the look at everything else waits for a quiet moment. Python's middle generation is not used: a look at ten portions
that survived takes as long as ten looks, all at once, for objects that a quiet moment would find as well.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from wharfinger.framework.ports import Clock

YOUNG = 10_000
"""New objects per look at the young."""
NEVER = 1_000_000_000
LOOK = 1.0
"""Seconds between two looks whether it is quiet."""
WORTH_IT = 500_000
"""New objects that make a full collection worth while in a quiet moment."""
OVERDUE = 10 * WORTH_IT
"""New objects that make it due at any moment."""


@contextmanager
def rarely() -> Iterator[None]:
    """A context in which what is there already is left alone, and Python starts no full collection by itself."""
    usual = gc.get_threshold()
    gc.set_threshold(YOUNG, NEVER, NEVER)
    gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


async def collect_in_quiet(quiet: Callable[[], bool], clock: Clock, settled: Callable[[], Awaitable[None]]) -> None:
    """None, when cancelled: collects garbage when it is `quiet`, and in spite of that when there may be too much of it.

    What was there before `settled` returned is never looked at.
    """
    with rarely():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_freeze_when(settled))
            while True:
                await clock.sleep(LOOK)
                grown = _grown()
                if grown >= OVERDUE or (grown >= WORTH_IT and quiet()):
                    gc.collect()


async def _freeze_when(settled: Callable[[], Awaitable[None]]) -> None:
    await settled()
    gc.freeze()


def _grown() -> int:
    """About how many objects there are more than at the last full collection: as many as were looked at when they were young."""
    return gc.get_count()[1] * YOUNG
