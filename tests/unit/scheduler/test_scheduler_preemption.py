"""Preemption in a running scheduler: evictions, their failures, and the nomination of the node."""

import asyncio

import pytest

from tests.unit.scheduler.running import node, pod, running
from wharfinger.framework.ports import WriteFailed


def story_of(story):
    asyncio.run(story())


def test_a_pod_preempts_and_is_bound():
    async def story():
        async with running(node("a", cpu="2"), pod("low", cpu="2")) as world:
            world.cluster.put(pod("high", cpu="2", priority=100))
            await world.pass_time(4)
            assert world.cluster.nodes_of_pods() == {"default/high": "a"}
            ((victim, said),) = [(of, event) for of, event in world.cluster.events if event.reason == "Preempted"]
            assert victim == "default/low"
            assert (said.type, said.action, said.note) == ("Normal", "Preempting", "Preempted by pod uid-high on node a")
            assert said.related.name == "high"
            assert world.seen.preemptions == [("default/high", "a", 1)]

    story_of(story)


def test_no_second_victim_is_evicted_while_the_first_terminates():
    async def story():
        async with running(node("a", cpu="1"), node("b", cpu="1"), pod("low-1"), pod("low-2")) as world:
            world.cluster.graceful = True
            world.cluster.put(pod("high", priority=100))
            await world.pass_time(30)
            leaving = [each for each in world.cluster.pods() if each.metadata.deletion_timestamp]
            assert len(leaving) == 1
            victim = leaving[0]
            condition = victim.status.conditions[-1]
            assert (condition.type, condition.status, condition.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
            assert condition.message == "wharfinger: preempting to accommodate a higher priority pod"
            assert world.cluster.pod("default/high").status.nominated_node_name == victim.spec.node_name
            world.cluster.put(pod("upstart", priority=1))  # may not take the place that is being made
            world.cluster.remove("Pod", f"default/{victim.metadata.name}")
            await world.pass_time(12)
            assert world.cluster.nodes_of_pods()["default/high"] == victim.spec.node_name
            assert len(world.seen.preemptions) == 2  # upstart has taken the other node
            assert world.cluster.pod("default/high").status.nominated_node_name == ""

    story_of(story)


def test_an_eviction_that_fails_gives_the_nomination_up_and_is_tried_again():
    async def story():
        async with running(node("a", cpu="1"), pod("low")) as world:
            disrupt = world.cluster.disrupt

            async def fail(victim, condition):
                world.cluster.disrupt = disrupt
                raise WriteFailed("busy")

            world.cluster.disrupt = fail
            world.cluster.put(pod("high", priority=100))
            await world.pass_time(15)
            assert world.cluster.nodes_of_pods() == {"default/high": "a"}

    story_of(story)


def test_an_eviction_that_breaks_is_tried_again():
    async def story():
        async with running(node("a", cpu="1"), pod("low")) as world:
            disrupt = world.cluster.disrupt

            async def fail(victim, condition):
                world.cluster.disrupt = disrupt
                raise RuntimeError("broken")

            world.cluster.disrupt = fail
            world.cluster.put(pod("high", priority=100))
            await world.pass_time(15)
            assert world.cluster.nodes_of_pods() == {"default/high": "a"}
            assert [str(error) for _, error in world.seen.failures] == ["broken"]

    story_of(story)


def test_evictions_that_are_refused_again_and_again_are_tried_after_backoffs():
    async def story():
        async with running(node("a", cpu="1"), pod("low")) as world:
            tried = []

            async def refuse(victim, condition):
                tried.append(world.clock.monotonic())
                raise WriteFailed("denied by a webhook", retriable=False)

            world.cluster.disrupt = refuse
            world.cluster.put(pod("high", priority=100))
            await world.pass_time(60)
            assert 4 <= len(tried) <= 12

    story_of(story)


def test_a_victim_that_is_wrongly_said_to_be_gone_is_evicted_again():
    async def story():
        async with running(node("a", cpu="1"), pod("low")) as world:
            disrupt = world.cluster.disrupt

            async def pretend(victim, condition):
                world.cluster.disrupt = disrupt

            world.cluster.disrupt = pretend
            world.cluster.put(pod("high", priority=100))
            await world.pass_time(20)
            assert world.cluster.nodes_of_pods() == {"default/high": "a"}

    story_of(story)


def test_a_victim_of_several_pods_is_evicted_once():
    async def story():
        small = [pod(f"low-{i}") for i in range(4)]
        async with running(node("a", cpu="4"), *small) as world:
            world.cluster.graceful = True
            for i in range(3):
                world.cluster.put(pod(f"high-{i}", priority=100))
            await world.pass_time(5)
            preempted = [of for of, event in world.cluster.events if event.reason == "Preempted"]
            assert len(preempted) == len(set(preempted)) == 3

    story_of(story)


def held_evictions(cluster):
    """The requested evictions, in order: of each the victim, and the event that lets it happen."""
    disrupt, held = cluster.disrupt, []

    async def hold(victim, condition):
        held.append((victim.name, allowed := asyncio.Event()))
        await allowed.wait()
        await disrupt(victim, condition)

    cluster.disrupt = hold
    return held


@pytest.mark.parametrize("graceful", [False, True])
def test_a_pod_does_not_preempt_again_while_victims_of_others_are_about_to_leave_its_node(graceful):
    async def story():
        small = [pod(f"low-{i}") for i in range(8)]
        async with running(node("a", cpu="4"), node("b", cpu="4"), *small) as world:
            held = held_evictions(world.cluster)
            world.cluster.graceful = graceful
            for i in range(6):
                world.cluster.put(pod(f"high-{i}", priority=100))
            await world.calm()
            assert len(held) == 6
            for _, allowed in held[:-1]:  # the last one takes longer
                allowed.set()
            await world.pass_time(3)
            for leaving in [each for each in world.cluster.pods() if each.metadata.deletion_timestamp]:
                world.cluster.remove("Pod", f"default/{leaving.metadata.name}")
            await world.pass_time(3)
            assert len(held) == 6
            (last, allowed) = held[-1]
            allowed.set()
            await world.calm()
            if graceful:
                world.cluster.remove("Pod", f"default/{last}")
            await world.pass_time(3)
            assert len([name for name in world.cluster.nodes_of_pods() if "high" in name]) == 6
            assert len(held) == 6, "one victim for each"

    story_of(story)


def test_room_that_becomes_free_is_taken_before_another_pod_is_evicted():
    async def story():
        small = [pod("low-1", nodeName="a"), pod("low-2", nodeName="a"), pod("large", cpu="2", nodeName="b")]
        async with running(node("a", cpu="2"), node("b", cpu="2"), *small) as world:
            world.cluster.graceful = True
            world.cluster.put(pod("high", cpu="2", priority=100))
            await world.calm()
            assert [each.metadata.name for each in world.cluster.pods() if each.metadata.deletion_timestamp] == ["large"]
            world.cluster.remove("Pod", "default/high")
            world.cluster.put(pod("other", priority=100))
            await world.pass_time(3)
            assert [each.metadata.name for each in world.cluster.pods() if each.metadata.deletion_timestamp] == ["large"]
            world.cluster.remove("Pod", "default/large")
            await world.pass_time(3)
            assert world.cluster.nodes_of_pods()["default/other"] == "b"

    story_of(story)


def test_a_pod_that_waits_for_a_victim_of_another_is_tried_again_if_that_stays():
    async def story():
        async with running(node("a", cpu="2"), pod("low-1"), pod("low-2")) as world:
            disrupt, asked = world.cluster.disrupt, []

            async def pretend_the_second(victim, condition):
                asked.append(victim.name)
                if len(asked) != 2:
                    await disrupt(victim, condition)

            world.cluster.disrupt, world.cluster.graceful = pretend_the_second, True
            for i in range(2):
                world.cluster.put(pod(f"high-{i}", priority=100))
            await world.calm()
            world.cluster.remove("Pod", f"default/{asked[0]}")
            world.cluster.put(pod("higher", priority=200))  # takes the room that was made for the first
            await world.pass_time(2)
            world.cluster.remove("Pod", "default/high-1")
            await world.pass_time(5)
            assert world.cluster.nodes_of_pods() == {"default/higher": "a", f"default/{asked[1]}": "a"}
            await world.pass_time(10)
            assert asked[2:] == [asked[1]]

    story_of(story)


def test_no_pod_is_evicted_unless_it_helps():
    async def story():
        async with running(node("a", cpu="1"), pod("low")) as world:
            world.cluster.put(pod("huge", cpu="3", priority=100))
            world.cluster.put(pod("polite", priority=100, preemptionPolicy="Never"))
            await world.pass_time(5)
            assert world.cluster.nodes_of_pods() == {"default/low": "a"}
            assert world.seen.preemptions == []

    story_of(story)
