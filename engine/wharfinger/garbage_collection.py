"""Python's garbage collection: when it runs, and over which objects.

A collection stops all threads, and takes about 1 µs per object that it examines. Python collects young objects after every few hundred new
ones, and all objects when enough have survived: in the middle of a burst of pods or of a reload of policies. Modules, policies and the
state of a cluster are a million objects that stay. Examining them took a tenth of the CPU time of a burst.

So objects are examined once or twice, and then frozen: left out of all further collections. Young objects are collected in portions of a
few milliseconds. Python counts new objects less those that were freed, of any age: where new objects replace old ones, as the results for
new templates of pods replace those for old ones, the count stays the same while young objects become more. 100,000 of them took 67 ms. So
they are also collected every `YOUNG_COLLECTION_SECONDS`. Those that survive are collected once more when the process is idle, and frozen.
In a busy second they are frozen at once. Python's middle generation is not used: its collection takes as long as ten collections of young
objects, all at once.

Frozen objects are freed when nothing refers to them, as all others are. Only those that refer to each other in a cycle stay. Policies, the
tables of clusters and templates of pods have no such cycles; connections that were open for long have one each. So all objects are examined
again only when the process needs far more memory than after the last time.
"""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from wharfinger.framework.ports import Clock

GENERATION_0_THRESHOLD = 10_000
"""New objects after which the youngest generation is collected."""
NEVER = 1_000_000_000
YOUNG_COLLECTION_SECONDS = 0.1
"""Seconds between two collections of young objects, at most: about 15,000 are made in that time."""
YOUNG_COLLECTIONS = 10
"""Collections of young objects between two checks of how many objects are new."""
FREEZE_THRESHOLD = 40_000
"""New objects after which they are frozen; collecting them first takes less than 50 ms."""
FULL_COLLECTION_GROWTH = 512 << 20
"""Bytes more than at the last full collection that the process must have used for the next one, and at least as many as it used then."""


@contextmanager
def without_full_collections() -> Iterator[None]:
    """A context in which existing objects are left out of collections, and Python starts no full collection by itself."""
    usual = gc.get_threshold()
    gc.set_threshold(GENERATION_0_THRESHOLD, NEVER, NEVER)
    gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


async def collect_when_idle(idle: Callable[[], bool], clock: Clock, loaded: Callable[[], Awaitable[None]]) -> None:
    """Collect garbage when `idle` returns True, or in any case when there may be too much of it, until cancelled.

    Objects that exist when `loaded` returns are not examined before the process needs far more memory.
    """
    import asyncio  # noqa: PLC0415 — commands without an event loop start sooner

    with without_full_collections():
        async with asyncio.TaskGroup() as tasks:
            ready = tasks.create_task(_freeze_after(loaded))
            usual = 0
            while True:
                for _ in range(YOUNG_COLLECTIONS):
                    await clock.sleep(YOUNG_COLLECTION_SECONDS)
                    gc.collect(0)
                used = _most_memory()
                grown = _new_objects()
                if not usual and ready.done():
                    usual = used
                if usual and used - usual >= max(FULL_COLLECTION_GROWTH, usual) * (1 if idle() else 2):
                    usual = used
                    gc.unfreeze()
                    gc.collect()
                    gc.freeze()
                elif grown >= FREEZE_THRESHOLD:
                    if grown < 2 * FREEZE_THRESHOLD and idle():
                        gc.collect()
                    gc.freeze()


async def _freeze_after(loaded: Callable[[], Awaitable[None]]) -> None:
    await loaded()
    gc.freeze()


def _new_objects() -> int:
    """The number of objects not yet frozen that survived a collection of the youngest generation.

    No bytecode is executed while the list of them exists, so no other thread runs. The list refers to all objects, and another thread that
    completes a tuple needs the only reference to it: `tuple(…)` would raise SystemError there.
    """
    return sum(map(len, map(gc.get_objects, (1,))))


def _most_memory() -> int:
    """The most memory that the process has used so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
