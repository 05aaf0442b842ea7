"""While the daemon runs, what stays is not looked through for garbage; afterwards everything is as it was."""

import asyncio
import gc

from wharfinger.daemon.garbage import seldom_collected


def test_what_is_there_when_it_settles_is_left_out_until_the_end():
    async def scenario():
        settled = asyncio.Event()
        task = asyncio.ensure_future(seldom_collected(settled.wait))
        await asyncio.sleep(0)
        before = gc.get_freeze_count()
        kept = [[] for _ in range(1000)]
        settled.set()
        await asyncio.sleep(0.01)
        assert gc.get_freeze_count() >= before + len(kept)
        assert gc.get_threshold() != usual
        task.cancel()
        await asyncio.wait({task})

    usual = gc.get_threshold()
    asyncio.run(scenario())
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() == 0
