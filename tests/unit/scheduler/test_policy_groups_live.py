"""Groups and permits of policies in a scheduler that runs in memory: members wait for each other, and other policies regroup them."""

import asyncio
import math

import pytest

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from wharfinger.framework.chain import assemble, with_policies
from wharfinger.framework.rules.policy_rules import PolicyPermit
from wharfinger.groups.membership import GroupIndex
from wharfinger.scheduler.binding import permits
from wharfinger.scheduler.scheduler import SchedulerSettings

GANG = 'policy "gang"\ngroup by pod.labels["job"] { min_count 2 }\n'
COMPLETE = (
    'policy "complete"\ngroup by pod.labels["job"] { min_count 0 }\n'
    'permit complete timeout 1min when has(pod.group.name) { require count(group) >= 2 else "{count(group)} of 2 are here" }\n'
)
SIZED = (
    'policy "sized"\ngroup by pod.labels["job"] { min_count 0 }\n'
    'filter enough { require pod.group.size >= 2 else "alone" on missing pass }\n'
)


def chains(*texts):
    return {"wharfinger": assemble([compiled(text) for text in texts])}


def worker(name, job="llm", **more):
    return pod(name, labels={"job": job}, **more)


def run(story):
    asyncio.run(story())


def test_members_of_a_group_of_a_policy_are_placed_at_once():
    async def story():
        async with running(node("a"), worker("one"), pod("alone"), chains=chains(GANG)) as world:
            assert world.cluster.nodes_of_pods() == {"default/alone": "a"}
            world.cluster.put(worker("two"))
            await world.calm()
            assert set(world.cluster.nodes_of_pods()) == {"default/alone", "default/one", "default/two"}

    run(story)


def test_a_group_that_does_not_fit_holds_nothing():
    async def story():
        async with running(node("a", cpu="3"), worker("one", cpu="2"), worker("two", cpu="2"), pod("alone"), chains=chains(GANG)) as world:
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {"default/alone": "a"}
            world.cluster.put(node("b", cpu="2"))
            await world.pass_time(2)
            assert len(world.cluster.nodes_of_pods()) == 3

    run(story)


def test_a_policy_that_comes_later_groups_pods_that_wait_already():
    async def story():
        async with running(node("a", cpu="1"), worker("one", cpu="2"), worker("two", cpu="2"), chains=chains()) as world:
            world.scheduler.adopt(
                {"wharfinger": with_policies(world.scheduler.profiles["wharfinger"].chain, [compiled(GANG.replace("2", "3"))])}
            )
            world.cluster.put(node("b", cpu="8"))
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {}
            world.scheduler.adopt({"wharfinger": with_policies(world.scheduler.profiles["wharfinger"].chain, [compiled(GANG)])})
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {"default/one": "b", "default/two": "b"}

    run(story)


def test_pods_are_put_into_groups_in_slices_and_none_is_decided_before_all_are():
    async def story():
        pods = [worker(name, cpu="2") for name in ("one", "two")]
        settings = SchedulerSettings(slice_seconds=-1)  # one pod in each
        async with running(node("a", cpu="1"), *pods, chains=chains(), settings=settings) as world:
            index = world.scheduler.queue.groups.index
            three = [compiled(GANG.replace("2", "3"))]
            world.scheduler.adopt({"wharfinger": with_policies(world.scheduler.profiles["wharfinger"].chain, three)})
            assert list(index) == []
            world.cluster.put(node("b", cpu="8"))
            world.cluster.put(worker("three", cpu="2"))
            world.cluster.remove("Pod", "default/one")
            await world.pass_time(2)
            assert len(list(index)) == 1
            assert world.cluster.nodes_of_pods() == {}
            world.cluster.put(worker("four", cpu="2"))
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == dict.fromkeys(["default/two", "default/three", "default/four"], "b")

    run(story)


def test_without_the_policy_members_are_single_pods_again():
    async def story():
        async with running(node("a"), worker("one"), chains=chains(GANG)) as world:
            assert world.cluster.nodes_of_pods() == {}
            world.scheduler.adopt({"wharfinger": with_policies(world.scheduler.profiles["wharfinger"].chain, [])})
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {"default/one": "a"}

    run(story)


def test_a_permit_holds_a_pod_until_its_group_is_complete():
    async def story():
        async with running(node("a"), worker("one"), pod("alone"), chains=chains(COMPLETE)) as world:
            assert world.cluster.nodes_of_pods() == {"default/alone": "a"}
            assert world.scheduler.state.is_assumed("uid-one")
            world.cluster.put(worker("two"))
            await world.calm()
            assert set(world.cluster.nodes_of_pods()) == {"default/alone", "default/one", "default/two"}

    run(story)


def test_a_member_that_another_scheduler_binds_completes_the_group():
    async def story():
        async with running(node("a"), worker("one"), chains=chains(COMPLETE)) as world:
            assert world.cluster.nodes_of_pods() == {}
            world.cluster.put(worker("two", scheduler="another", nodeName="a"))
            await world.calm()
            assert world.scheduler.state.is_placed("uid-one")
            assert world.cluster.nodes_of_pods()["default/one"] == "a"

    run(story)


def test_a_permit_that_does_not_hold_in_time_gives_the_place_back_with_a_reason():
    async def story():
        async with running(node("a"), worker("one"), chains=chains(COMPLETE)) as world:
            await world.pass_time(61)
            assert not world.scheduler.state.is_placed("uid-one")
            said = [event.note for _, event in world.cluster.events if event.reason == "FailedScheduling"]
            assert any('waiting at plugin "complete/complete": 1 of 2 are here' in text for text in said)

    run(story)


def test_a_stop_gives_back_what_a_permit_holds_and_does_not_wait_for_it():
    async def story():
        held = 'policy "held"\npermit go timeout 1h { require pod.annotations["go"] == "yes" on missing reject }\n'
        async with running(node("a"), pod("one"), pod("two"), chains=chains(held)) as world:
            assert world.scheduler.state.is_assumed("uid-one")
            assert world.scheduler.n_binding == 2
            world.scheduler.stop()
            await world.calm()  # no time passes
            assert world.scheduler.n_binding == 0
            assert (world.cluster.bindings, list(world.scheduler.state.placements())) == ([], [])
            assert {queued.pod.name for queued in world.scheduler.queue} == {"one", "two"}
            assert world.seen.failures == []

    run(story)


def test_a_stop_gives_back_a_group_of_which_a_permit_holds_one_member():
    async def story():
        text = GANG + 'permit go timeout 1h when pod.name == "two" { require pod.annotations["go"] == "yes" on missing reject }\n'
        async with running(node("a"), worker("one"), worker("two"), chains=chains(text)) as world:
            assert world.scheduler.n_binding == 2
            world.scheduler.stop()
            await world.calm()
            assert world.scheduler.n_binding == 0
            assert (world.cluster.bindings, list(world.scheduler.state.placements())) == ([], [])

    run(story)


def test_pods_approved_by_a_permit_during_a_stop_are_bound():
    async def story():
        approved = 'policy "approved"\npermit go timeout 1h { require pod.name == "one" }\n'
        async with running(node("a"), chains=chains(approved)) as world:
            world.cluster.put(pod("one"))
            world.cluster.put(pod("two"))
            for _ in range(2):
                world.scheduler._cycle.schedule(world.scheduler.queue.pop(), ends_at=math.inf)
            world.scheduler.stop()
            await world.calm()
            assert world.cluster.nodes_of_pods() == {"default/one": "a"}
            assert world.scheduler.n_binding == 0

    run(story)


ALONE = """policy "alone"
permit alone {
  require pod.annotations["go"] == "yes" or count(pods where it.name == pod.name) > 9 on missing reject
}
"""


def test_thousands_of_held_pods_are_asked_again_a_few_at_a_time(monkeypatch):
    """The author of a policy in one namespace must not be able to block the event loop for others."""
    steps = [0]
    asked = PolicyPermit.permission

    def permission(self, *of):
        steps[-1] += 1
        return asked(self, *of)

    monkeypatch.setattr(PolicyPermit, "permission", permission)

    async def story():
        async with running(node("a", cpu="200"), *(pod(f"p{number}") for number in range(100)), chains=chains(ALONE)) as world:
            assert sum(world.scheduler.state.is_assumed(f"uid-p{number}") for number in range(100)) == 100
            await world.pass_time(10)
            steps[:] = [0]
            ticks = asyncio.ensure_future(each_turn())
            world.cluster.put(node("b"))
            for _ in range(20):
                await world.pass_time(permits.STEP_PAUSE)
            ticks.cancel()
            assert sum(steps) >= 100
            assert max(steps) <= 16

    async def each_turn():
        while True:
            steps.append(0)
            await asyncio.sleep(0)

    run(story)


def test_the_number_of_members_counts_those_that_wait():
    async def story():
        async with running(node("a"), worker("one"), pod("alone"), chains=chains(SIZED)) as world:
            assert world.cluster.nodes_of_pods() == {"default/alone": "a"}
            world.cluster.put(worker("two"))
            await world.pass_time(3)
            assert len(world.cluster.nodes_of_pods()) == 3

    run(story)


@pytest.mark.parametrize("bound", [False, True])
def test_a_pod_that_goes_from_group_to_group_leaves_nothing_behind(bound):
    async def story():
        one_is_enough = chains(GANG.replace("2", "1"))
        async with running(*([node("a")] if bound else []), worker("one", job="first"), chains=one_is_enough) as world:
            await world.pass_time(2)
            groups = world.scheduler.queue.groups
            for number in range(5):
                more = {"nodeName": "a"} if bound else {}
                world.cluster.put(worker("one", job=f"j{number}", **more))
                await world.pass_time(2)
            assert set(groups.all_keys()) <= {"default/j4"}

    asyncio.run(story())


@pytest.mark.parametrize("nodes", [[], [node("a")]])
def test_groups_that_no_policy_names_any_more_leave_nothing_behind(nodes):
    async def story():
        async with running(*nodes, worker("one"), worker("two"), chains=chains(GANG)) as world:
            await world.pass_time(2)
            assert world.scheduler.queue.groups.all_keys() == ("default/llm",)
            world.scheduler.adopt({"wharfinger": with_policies(world.scheduler.profiles["wharfinger"].chain, [])})
            await world.pass_time(2)
            assert world.scheduler.queue.groups.all_keys() == ()

    asyncio.run(story())


def test_members_that_find_no_place_are_not_asked_for_their_group_again(monkeypatch):
    asked, put = [], GroupIndex.put
    monkeypatch.setattr(GroupIndex, "put", lambda self, view: asked.append(view.name) or put(self, view))

    async def story():
        async with running(*(worker(f"w{number}") for number in range(9)), chains=chains(GANG)) as world:
            await world.pass_time(5)
            asked.clear()
            world.cluster.put(node("a", cpu="1"))
            await world.pass_time(5)
            assert [attempt.result for attempt in world.seen.groups][-1] == "unschedulable"
            assert len(world.seen.groups) > 1
            assert sorted(asked) == [f"w{number}" for number in range(9)]  # by the events of their other conditions

    asyncio.run(story())
