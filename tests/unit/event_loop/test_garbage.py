"""Objects are examined when the process is idle, then frozen, and examined again when memory has grown; at the end `gc` is as before."""

import asyncio
import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from tests.in_memory import ManualClock
from wharfinger import garbage_collection


@asynccontextmanager
async def collecting(idle=False, settled=None):
    """Garbage is collected in the background, by the clock that is given."""
    usual, clock = gc.get_threshold(), ManualClock()
    task = asyncio.create_task(garbage_collection.collect_when_idle(lambda: idle, clock, (settled or asyncio.Event()).wait))
    await asyncio.sleep(0)
    yield clock
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() == 0


async def seconds(clock, n):
    for _ in range(10 * n):
        clock.move(0.1)
        for _ in range(5):
            await asyncio.sleep(0)


THRESHOLD = garbage_collection.FREEZE_THRESHOLD
FULL, YOUNG, FREEZE = ["unfreeze", "collect", "freeze"], ["collect", "freeze"], ["freeze"]


@pytest.fixture
def done(monkeypatch):
    """What `gc` was asked to do, apart from collections of young objects."""
    asked = []
    for name in ("unfreeze", "freeze"):
        monkeypatch.setattr(gc, name, lambda name=name: asked.append(name))
    monkeypatch.setattr(gc, "collect", lambda generation=2: asked.append("collect") if generation else None)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)  # other tests may have frozen objects
    return asked


@pytest.mark.parametrize(
    ("grown", "idle", "expected"),
    [
        (THRESHOLD // 2, True, []),
        (THRESHOLD, True, YOUNG),
        (THRESHOLD, False, FREEZE),
        (THRESHOLD * 2, True, FREEZE),  # a collection would take too long
    ],
)
def test_new_objects_are_frozen_and_before_that_collected_if_there_is_time(monkeypatch, done, grown, idle, expected):
    monkeypatch.setattr(gc, "get_objects", lambda generation: range(grown if generation == 1 else 0))

    async def story():
        async with collecting(idle) as clock:
            assert gc.get_threshold()[1:] == (garbage_collection.NEVER, garbage_collection.NEVER)
            done.clear()
            await seconds(clock, 1)
            assert done == expected

    asyncio.run(story())


MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("memory", "idle", "expected"),
    [
        ((100, 611), True, []),
        ((100, 613), True, FULL),
        ((1000, 1999), True, []),
        ((1000, 2001), True, FULL),
        ((1000, 2999), False, []),
        ((1000, 3001), False, FULL),
    ],
)
def test_all_objects_are_examined_when_memory_has_grown_since_the_last_time(monkeypatch, done, memory, idle, expected):
    used = [0]
    monkeypatch.setattr(gc, "get_objects", lambda generation: [])
    monkeypatch.setattr(garbage_collection, "_most_memory", lambda: used[0] * MEBIBYTE)

    async def story():
        loaded = asyncio.Event()
        async with collecting(idle, loaded) as clock:
            await seconds(clock, 1)
            used[0] = memory[0]  # the cluster was read
            loaded.set()
            await seconds(clock, 2)
            done.clear()
            used[0] = memory[1]
            await seconds(clock, 2)
            assert done == expected

    asyncio.run(story())


def test_new_objects_that_replace_old_ones_do_not_pile_up():
    """Python counts new objects less those that were freed, so it collects none of them by itself."""

    async def story():
        objects = [[] for _ in range(60_000)]
        async with collecting() as clock:
            most = 0
            for first in range(0, len(objects), 6_000):
                for place in range(first, first + 6_000):
                    objects[place] = []
                most = max(most, len(gc.get_objects(generation=0)))
                clock.move(garbage_collection.YOUNG_COLLECTION_SECONDS)
                for _ in range(5):
                    await asyncio.sleep(0)
            assert most < 2 * garbage_collection.GENERATION_0_THRESHOLD

    asyncio.run(story())


def test_objects_that_exist_when_it_is_ready_are_left_out_until_the_end():
    async def story():
        settled = asyncio.Event()
        async with collecting(settled=settled):
            before = gc.get_freeze_count()
            kept = [[] for _ in range(1000)]
            settled.set()
            await asyncio.sleep(0.01)
            assert gc.get_freeze_count() >= before + len(kept)

    asyncio.run(story())


@pytest.fixture
def frequent_switches():
    """Threads switch as often as they can, and Python collects nothing by itself."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(garbage_collection.NEVER)
    gc.freeze()  # few objects are counted, so that it is done often
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


def test_objects_are_counted_while_another_thread_makes_tuples(frequent_switches):
    """`tuple` raises SystemError if there is another reference to the tuple before it is complete."""

    def items():
        gc.collect(0)  # the unfinished tuple is among the objects that are counted
        for _ in range(50):
            yield time.sleep(0)

    with ThreadPoolExecutor(1) as thread:
        made = [thread.submit(tuple, items()) for _ in range(20)]
        while not all(each.done() for each in made):
            garbage_collection._new_objects()
    assert [len(each.result()) for each in made] == [50] * 20
