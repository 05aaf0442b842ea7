"""Full collections wait until the process is idle and skip frozen objects; at the end the settings of `gc` are restored."""

import asyncio
import gc
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
    for _ in range(n):
        clock.move(1.0)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("grown", "idle", "collected"),
    [
        (garbage_collection.IDLE_COLLECTION_THRESHOLD // 2, True, 0),
        (garbage_collection.IDLE_COLLECTION_THRESHOLD * 2, True, 2),
        (garbage_collection.FORCED_COLLECTION_THRESHOLD // 2, False, 0),
        (garbage_collection.FORCED_COLLECTION_THRESHOLD * 2, False, 2),
    ],
)
def test_a_full_collection_runs_when_idle_after_many_objects_or_in_any_case_after_very_many(monkeypatch, grown, idle, collected):
    done = []
    monkeypatch.setattr(gc, "get_count", lambda: (0, grown // garbage_collection.GENERATION_0_THRESHOLD, 0))
    monkeypatch.setattr(gc, "collect", lambda: done.append(grown))

    async def story():
        async with collecting(idle) as clock:
            assert gc.get_threshold()[1:] == (garbage_collection.NEVER, garbage_collection.NEVER)
            await seconds(clock, 2)
            assert len(done) == collected

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
