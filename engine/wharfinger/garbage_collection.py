"""Python's garbage collection: when it runs, and over which objects.

A collection stops all threads. Python collects young objects after every few hundred new ones. It collects all objects, which takes a tenth
of a second for a large cluster, when enough have survived: in the middle of a burst of pods or of a reload of policies. Modules, policies
and the first state of a cluster are a million objects that stay. Examining them took a tenth of the CPU time of a burst.

So objects that exist after the start, and after the first list of the cluster, are frozen. Young objects are collected in portions of a few
milliseconds. A full collection waits until the process is idle. Python's middle generation is not used. Its collection takes as long as ten
collections of young objects, all at once, and finds only objects that a full collection would find as well.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from wharfinger.framework.ports import Clock

GENERATION_0_THRESHOLD = 10_000
"""New objects after which the youngest generation is collected."""
NEVER = 1_000_000_000
COLLECTION_POLL_SECONDS = 1.0
"""Seconds between two checks whether the process is idle."""
IDLE_COLLECTION_THRESHOLD = 500_000
"""New objects after which a full collection runs when the process is idle."""
FORCED_COLLECTION_THRESHOLD = 10 * IDLE_COLLECTION_THRESHOLD
"""New objects after which a full collection runs in any case."""


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
    """Collect garbage when `idle` returns True, or when there may be too much of it, until cancelled.

    Objects that exist when `loaded` returns are never looked at.
    """
    import asyncio  # noqa: PLC0415 — commands without an event loop start sooner

    with without_full_collections():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_freeze_after(loaded))
            while True:
                await clock.sleep(COLLECTION_POLL_SECONDS)
                grown = _new_objects()
                if grown >= FORCED_COLLECTION_THRESHOLD or (grown >= IDLE_COLLECTION_THRESHOLD and idle()):
                    gc.collect()


async def _freeze_after(loaded: Callable[[], Awaitable[None]]) -> None:
    await loaded()
    gc.freeze()


def _new_objects() -> int:
    """The approximate number of objects made since the last full collection that survived a collection of the youngest generation."""
    return gc.get_count()[1] * GENERATION_0_THRESHOLD
