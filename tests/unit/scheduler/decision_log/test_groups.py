"""Attempts to place groups are in the log, and decisions about other pods between them replay."""

import asyncio
import json
import re
import time

import pytest
from msgspec.structs import replace

from tests.unit.scheduler.decision_log.recording import record_groups, recorder, replayed
from tests.unit.scheduler.running import Running, pod, scheduling
from tests.unit.scheduler.test_groups_live import gang, members, racks
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import assemble
from wharfinger.scheduler import group_search
from wharfinger.scheduler.decision_log.reading import BrokenLog, LogReader


@pytest.mark.parametrize("alone", [False, True], ids=["with others", "groups only"])
def test_attempts_are_logged_with_their_nodes_and_others_replay(tmp_path, alone):
    path = tmp_path / "decisions.jsonl"
    record_groups(path, n_single=0 if alone else 3)
    found = [line for _, line in LogReader(path=path).lines() if line.t == "group"]
    assert {(line.key, line.attempt.result, line.attempt.min_count) for line in found} >= {
        ("default/g", "scheduled", 3),
        ("default/big", "unschedulable", 2),
    }
    (placed,) = [line.attempt for line in found if line.key == "default/g"]
    assert placed.nodes == {f"uid-g-{number}": "a" for number in range(3)}
    again, notes = replayed(path)
    assert notes == []
    assert len([each for each in again if not each.group]) == (0 if alone else 3)
    assert {each.pod for each in again if each.group} == {"group default/g", "group default/big"}
    assert not any(each.difference for each in again)


RACKS = """
policy "racks"
group by pod.labels["job"] { min_count 3 within required "rack" }
score apart = -count(pods, on: node) normalize minmax
"""


def job(name, count, cpu="1"):
    return [pod(f"{name}-{number}", cpu, labels={"job": name}) for number in range(count)]


@pytest.fixture(params=["at once", "in steps", "many files"])
def log(tmp_path, request, monkeypatch):
    """The log of a busy cluster in which groups of policies and of PodGroups are placed, wait, and lose members."""
    path = tmp_path / "decisions.jsonl"
    if request.param == "in steps":
        monkeypatch.setattr(group_search, "DIRECT_SEARCH_MEMBERS", 0)
    max_bytes = 20_000 if request.param == "many files" else 2**30

    async def story():
        with recorder(path, max_bytes=max_bytes, max_files=100) as (recording, failures):
            world = Running({"wharfinger": assemble([policy(RACKS)])}, state=recording.state)
            world.subscribers.subscribe(recording.handlers)
            async with scheduling(world):
                for each in (*racks(3, 3, "3"), gang("large", 10, "rack"), *members("large", 10)):
                    world.cluster.put(each)
                for number in range(12):
                    things = [*job(f"job-{number}", 3 + number % 3), pod(f"single-{number}", "500m")]
                    things += [gang(f"g{number}", 2, "rack"), *members(f"g{number}", 2)] if number % 3 == 0 else []
                    for thing in things:
                        world.cluster.put(thing)
                    await world.pass_time(1)
                    for key in sorted(world.cluster.nodes_of_pods())[number % 4 :: 5]:
                        world.cluster.remove("Pod", key)
                    if number == 6:
                        world.cluster.remove("Node", "r1n0")
                    await asyncio.to_thread(time.sleep, 0.005)  # for the thread that writes
                await world.pass_time(20)
            assert failures == []

    asyncio.run(story())
    return path


def test_searches_of_a_busy_cluster_come_out_again(log):
    again, notes = replayed(log)
    lines = [line for _, line in LogReader(path=log).lines()]
    found = [line.found for line in lines if line.found]
    assert len([line for line in lines if line.t == "search"]) == len(found), "no search is begun twice"
    assert {each.result for each in found} == {"placed", "impossible"}
    assert len([each for each in again if each.group]) == len(found) > 12
    assert [str(each.difference) for each in again if each.difference] == []
    assert notes == []


def test_a_search_that_was_answered_otherwise_is_found(log):
    path = next(path for path in log.parent.iterdir() if '"found":{"result":"placed"' in path.read_text())
    lines = path.read_text().splitlines(keepends=True)
    number = next(number for number, line in enumerate(lines) if '"found":{"result":"placed"' in line)
    placed = json.loads(lines[number])
    uid = min(placed["found"]["nodes"])
    placed["found"]["nodes"][uid] = "elsewhere"
    path.write_text("".join([*lines[:number], json.dumps(placed) + "\n", *lines[number + 1 :]]))
    (difference,) = [each.difference for each in replayed(log)[0] if each.difference]
    assert (difference.part, difference.pod) == ("nodes", f"group {placed['key']}")
    assert difference.recorded[uid] == "elsewhere"


def test_other_policies_say_where_groups_would_have_gone(log):
    other = assemble([policy(RACKS.replace("-count", "count"))])
    again, _ = replayed(log, others=lambda _name, _chain: other)
    changes = [each.change for each in again if each.group and each.change]
    assert changes
    assert all(re.fullmatch(r"(job|g)\S+ on \w+ instead of \w+", reason) for change in changes for reason in change.reasons)
    assert any("(3)" in change.other for change in changes)


def test_one_member_alone_can_be_asked_about(log):
    again, _ = replayed(log, only="default/job-3-0")
    assert {each.pod for each in again} == {"group default/job-3"}


def whole(name, count, priority):
    """A gang that leaves as a whole."""
    found = gang(name, count)
    return replace(found, spec=replace(found.spec, disruption_mode="PodGroup", priority=priority))


@pytest.fixture
def evicting(tmp_path):
    """The log of a cluster in which gangs evict single pods, a gang as a whole, and find no victims."""
    path = tmp_path / "decisions.jsonl"

    async def story():
        with recorder(path) as (recording, failures):
            world = Running({"wharfinger": assemble()}, state=recording.state)
            world.subscribers.subscribe(recording.handlers)
            async with scheduling(world):
                old = [whole("old", 2, -5), *members("old", 2, "3", priority=-5)]
                for each in (*racks(3, 2, "3"), *(pod(f"low-{n}", "2", priority=-n) for n in range(3)), *old):
                    world.cluster.put(each)
                await world.pass_time(2)
                for number in range(3):
                    for each in (gang(f"new-{number}", 2, "rack"), *members(f"new-{number}", 2, "2", priority=number)):
                        world.cluster.put(each)
                    await world.pass_time(4)
            assert failures == []

    asyncio.run(story())
    return path


def test_whom_preemption_evicts_for_a_group_comes_out_again(evicting):
    lines = [line for _, line in LogReader(path=evicting).lines()]
    asked = [line.search for line in lines if line.t == "search" and line.search.others is not None]
    freed = [line.found for line in lines if line.found and line.found.result == "freed"]
    assert len(asked) >= len(freed) >= 2
    assert any(search.others == ("default/old",) for search in asked)
    assert [line.whole.placed for line in lines if line.t == "whole"] == [("uid-old-0", "uid-old-1")], "written once"
    assert {"uid-old-0", "uid-old-1"} in [set(found.victims) for found in freed]
    again, notes = replayed(evicting)
    assert len([each for each in again if each.group]) == len([line for line in lines if line.found])
    assert [str(each.difference) for each in again if each.difference] == []
    assert notes == []


def test_another_victim_than_the_recorded_one_is_found(evicting):
    text = evicting.read_text()
    victim = next(line.found.victims[0] for _, line in LogReader(path=evicting).lines() if line.found and line.found.victims)
    evicting.write_text(re.sub(rf'("victims":\["){victim}"', r'\1another"', text))
    differences = [each.difference for each in replayed(evicting)[0] if each.difference]
    assert {difference.part for difference in differences} == {"victims"}


def test_other_policies_say_whom_they_would_have_evicted(evicting):
    sparing = assemble([policy('policy "spare"\npreemption { never_evict when it.priority == -5 }')])
    again, _ = replayed(evicting, others=lambda _name, _chain: sparing)
    changes = [each.change for each in again if each.change and each.group]
    assert changes
    assert all(change.node is None and change.nominated for change in changes)
    assert any("evicts" in reason or "preemption" in reason.lower() for change in changes for reason in change.reasons)


def test_a_log_that_lost_a_group_that_leaves_as_a_whole_is_refused(evicting):
    kept = [line for line in evicting.read_text().splitlines(keepends=True) if not line.startswith('{"t":"whole"')]
    evicting.write_text("".join(kept))
    with pytest.raises(BrokenLog, match="group default/old was not written before"):
        replayed(evicting)
