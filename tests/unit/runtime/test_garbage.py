"""Full collections wait for a quiet moment."""

import asyncio
import gc

import pytest

from wharfinger.runtime import garbage
from wharfinger.runtime.in_memory import ManualClock


@pytest.fixture
def collections(monkeypatch):
    """Collections of everything that have been asked for; `grown` says what there is to collect."""
    grown, done = [0], []
    young, middle, _ = gc.get_threshold()
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, grown[0] // (young * middle)))
    monkeypatch.setattr(gc, "collect", lambda: done.append(grown[0]))
    return grown, done


async def seconds(clock, n):
    for _ in range(n):
        clock.move(1.0)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("grown", "quiet", "collected"),
    [(garbage.WORTH_IT // 2, True, 0), (garbage.WORTH_IT * 2, True, 2), (garbage.OVERDUE // 2, False, 0), (garbage.OVERDUE * 2, False, 2)],
)
def test_it_is_quiet_and_worth_it_or_overdue(collections, grown, quiet, collected):
    async def story():
        clock, before = ManualClock(), gc.get_threshold()
        task = asyncio.create_task(garbage.collect_in_quiet(lambda: quiet, clock))
        await asyncio.sleep(0)
        assert gc.get_threshold() == (*before[:2], garbage.NEVER)
        collections[0][0] = grown
        await seconds(clock, 2)
        assert len(collections[1]) == collected
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert gc.get_threshold() == before

    asyncio.run(story())
