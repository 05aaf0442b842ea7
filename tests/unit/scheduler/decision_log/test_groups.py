"""Attempts to place groups are in the log, and decisions about other pods between them replay."""

import asyncio

import pytest

from tests.unit.scheduler.decision_log.recording import Recorded, recorder, replayed
from tests.unit.scheduler.running import node, pod
from tests.unit.scheduler.test_groups_live import gang, members
from wharfinger.scheduler.decision_log.reading import LogReader


@pytest.mark.parametrize("alone", [False, True], ids=["with others", "groups only"])
def test_attempts_are_logged_with_their_nodes_and_others_replay(tmp_path, alone):
    path = tmp_path / "decisions.jsonl"

    async def story():
        with recorder(path) as (recording, failures):
            world = Recorded(recording)
            world.cluster.put(node("a", "4"))
            world.cluster.connect(world.scheduler.sink)
            task = asyncio.create_task(world.scheduler.run())
            for thing in (gang("g", 3), *members("g", 3), gang("big", 2), *members("big", 2, "9")):
                world.cluster.put(thing)
            await world.pass_time(2)
            if not alone:
                for number in range(3):
                    world.cluster.put(pod(f"single-{number}", "500m"))
                    await world.pass_time(1)
            world.scheduler.stop()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert failures == []

    asyncio.run(story())
    found = [line for _, line in LogReader(path=path).lines() if line.t == "group"]
    assert {(line.key, line.attempt.result, line.attempt.min_count) for line in found} >= {
        ("default/g", "scheduled", 3),
        ("default/big", "unschedulable", 2),
    }
    (placed,) = [line.attempt for line in found if line.key == "default/g"]
    assert placed.nodes == {f"uid-g-{number}": "a" for number in range(3)}
    again, notes = replayed(path)
    assert notes == []
    assert len(again) == (0 if alone else 3)
    assert not any(each.difference for each in again)
