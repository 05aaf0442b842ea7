"""Failed bindings, lost answers, deleted objects and a stop: nothing is bound twice or stays assumed."""

import asyncio
import math

import pytest
from msgspec.structs import replace

from tests.unit.framework.fleet import policy
from tests.unit.scheduler.running import node, pod, running
from wharfinger.errors import InvalidObject
from wharfinger.framework.chain import assemble
from wharfinger.framework.ports import MAX_CONDITION_MESSAGE, BindFailed
from wharfinger.scheduler.scheduler import SchedulerSettings

FULL = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


def bound(world):
    return world.cluster.nodes_of_pods()


def assert_settled(world):
    state = world.scheduler.state
    assert not [pod for pod in world.cluster.pods() if state.is_assumed(pod.metadata.uid)]
    assert world.scheduler.n_binding == 0


def test_a_pod_without_a_feasible_node_gets_one_event_and_is_placed_when_there_is_room():
    async def story():
        async with running(node("a", cpu="1"), pod("first"), pod("second")) as world:
            (waiting,) = [each for each in world.cluster.pods() if not each.spec.node_name]
            condition = waiting.status.conditions[0]
            assert (condition.type, condition.status, condition.reason, condition.message) == (
                "PodScheduled",
                "False",
                "Unschedulable",
                FULL,
            )
            failed = [event for _, event in world.cluster.events if event.reason == "FailedScheduling"]
            assert [(event.type, event.action, event.note) for event in failed] == [("Warning", "Scheduling", FULL)]
            patches = world.cluster.n_patches
            await world.pass_time(20)
            assert world.cluster.n_patches == patches
            (placed,) = bound(world)
            world.cluster.remove("Pod", placed)
            await world.pass_time(3)
            assert len(bound(world)) == 1
            assert_settled(world)
            assert world.seen.flushes == 0

    asyncio.run(story())


def test_a_condition_holds_as_many_reasons_of_a_pod_as_fit():
    rules = (f'filter f{number} {{ require node.name != "n{number}" else "{number:04}{"x" * 900}" }}' for number in range(60))
    chain = assemble([policy('policy "verbose"\n' + "\n".join(rules))])

    async def story():
        async with running(*(node(f"n{number}") for number in range(60)), pod("x"), chains={"wharfinger": chain}) as world:
            (condition,) = world.cluster.pod("default/x").status.conditions
            assert condition.message.startswith("0/60 nodes are available: ")
            assert condition.message.endswith(" ...")
            assert len(condition.message) == MAX_CONDITION_MESSAGE

    asyncio.run(story())


def test_no_nodes_at_all_then_one():
    async def story():
        async with running(pod("x")) as world:
            assert world.cluster.pod("default/x").status.conditions[0].message == "no nodes available to schedule pods"
            world.cluster.put(node("a"))
            await world.pass_time(3)
            assert bound(world) == {"default/x": "a"}

    asyncio.run(story())


@pytest.mark.parametrize("failed", [BindFailed("busy"), BindFailed("refused", retriable=False)])
def test_a_failed_bind_is_tried_again_and_holds_nothing_meanwhile(failed):
    async def story():
        faults = [failed, failed]

        def fail(pod, node):
            if faults:
                raise faults.pop()

        async with running(node("a")) as world:
            world.cluster.before_bind = fail
            world.cluster.put(pod("x"))
            await world.calm()
            assert bound(world) == {}
            assert_settled(world)
            assert world.cluster.pod("default/x").status.conditions[0].reason == "SchedulerError"
            await world.pass_time(8)
            assert bound(world) == {"default/x": "a"}
            assert [attempt.result for attempt in world.seen.attempts] == ["error", "error", "scheduled"]

    asyncio.run(story())


def test_an_answer_that_is_lost_after_the_bind_was_written_binds_once():
    async def story():
        def lose(pod, node):
            world.cluster.after_bind = lambda pod, node: None
            raise BindFailed("connection lost", unknown=True)

        async with running(node("a")) as world:
            world.cluster.lagging = True
            world.cluster.after_bind = lose
            world.cluster.put(pod("x"))
            world.cluster.catch_up()
            await world.calm()
            assert world.scheduler.state.is_assumed("uid-x")  # it may be bound, so its place is not given away
            world.cluster.lagging = False
            world.cluster.catch_up()
            await world.pass_time(3)
            assert world.cluster.bindings == [("default/x", "a")]
            assert [attempt.result for attempt in world.seen.attempts] == ["scheduled"]
            assert_settled(world)

    asyncio.run(story())


@pytest.mark.parametrize(
    "second",
    [
        BindFailed("connection lost", unknown=True),
        BindFailed("pods is forbidden"),
        BindFailed("the API server is too busy"),
        BindFailed("the pod is bound to b", retriable=False, bound=True),
        "the node was removed",
    ],
    ids=str,
)
def test_a_pod_that_may_be_bound_gets_no_condition_that_says_otherwise(second):
    async def story():
        def lose(pod, node):
            world.cluster.before_bind = refuse
            if second == "the node was removed":
                world.scheduler.sink.delete("Node", there)
            raise BindFailed("connection lost", unknown=True)

        def refuse(pod, node):
            assert world.scheduler.state.is_assumed("uid-x")  # its place is not given away
            raise second

        there = node("a")
        async with running(there) as world:
            world.cluster.put(pod("x"))
            world.cluster.lagging = True
            world.cluster.after_bind = lose
            await world.pass_time(14)
            assert [attempt.result for attempt in world.seen.attempts] == ["error"]
            assert world.cluster.bindings == [("default/x", "a")]
            assert "False" not in {condition.status for condition in world.cluster.pod("default/x").status.conditions}

    asyncio.run(story())


def test_a_lost_request_is_sent_again():
    async def story():
        def lose(pod, node):
            world.cluster.before_bind = lambda pod, node: None
            raise BindFailed("connection lost", unknown=True)

        async with running(node("a")) as world:
            world.cluster.before_bind = lose
            world.cluster.put(pod("x"))
            await world.pass_time(3)
            assert world.cluster.bindings == [("default/x", "a")]
            assert_settled(world)

    asyncio.run(story())


def test_a_pod_bound_by_another_scheduler_is_left_alone():
    async def story():
        def snatch(pod, node):
            world.cluster.before_bind = lambda pod, node: None
            there = world.cluster.pod(pod.key)
            world.cluster.put(replace(there, spec=replace(there.spec, node_name="b")))

        async with running(node("a", cpu="8"), node("b")) as world:
            world.cluster.before_bind = snatch
            world.cluster.put(pod("x"))
            await world.pass_time(3)
            assert bound(world) == {"default/x": "b"}
            assert world.scheduler.state.snapshot().placed("uid-x")[1].node_name == "b"
            assert len(world.scheduler.queue) == 0
            assert_settled(world)

    asyncio.run(story())


def test_a_pod_deleted_and_made_anew_under_its_name_is_another_pod():
    async def story():
        def renew(pod_, node_):
            world.cluster.before_bind = lambda pod, node: None
            world.cluster.lagging = True
            world.cluster.remove("Pod", "default/x")
            world.cluster.put(pod("x", uid="second"))

        async with running(node("a")) as world:
            world.cluster.before_bind = renew
            world.cluster.put(pod("x", uid="first"))
            await world.calm()
            world.cluster.lagging = False
            world.cluster.catch_up()
            await world.pass_time(3)
            assert world.cluster.bindings == [("default/x", "a")]
            assert world.scheduler.state.is_placed("second")
            assert not world.scheduler.state.is_placed("first")
            assert len(world.scheduler.queue) == 0

    asyncio.run(story())


def test_a_node_removed_before_the_bind_takes_no_pod():
    async def story():
        async with running(node("a")) as world:
            world.cluster.put(pod("x"))
            world.scheduler._cycle.schedule(world.scheduler.queue.pop(), ends_at=math.inf)
            world.cluster.remove("Node", "a")
            await world.calm()
            assert bound(world) == {}
            world.cluster.put(node("b"))
            await world.pass_time(5)
            assert bound(world) == {"default/x": "b"}
            assert_settled(world)

    asyncio.run(story())


def test_losing_the_lease_stops_binding_at_once():
    async def story():
        async with running(node("a", cpu="100")) as world:
            world.cluster.put(pod("x"))
            world.scheduler._cycle.schedule(world.scheduler.queue.pop(), ends_at=math.inf)
            world.office.is_leader = False
            world.cluster.put(pod("y"))
            await world.pass_time(5)
            assert bound(world) == {}
            assert_settled(world)
            assert world.scheduler.queue.depths["active"] == 2
            world.office.is_leader = True
            await world.pass_time(2)
            assert len(bound(world)) == 2

    asyncio.run(story())


def test_no_more_binds_than_allowed_are_under_way():
    async def story():
        most = 0

        def count(pod, node):
            nonlocal most
            most = max(most, world.scheduler.n_binding)

        async with running(node("a", cpu="100"), settings=SchedulerSettings(max_binds=3)) as world:
            world.cluster.before_bind = count
            for index in range(20):
                world.cluster.put(pod(f"p{index}"))
            for _ in range(30):
                await world.calm()
            assert len(bound(world)) == 20
            assert most == 3

    asyncio.run(story())


def test_a_stop_lets_what_is_under_way_end():
    async def story():
        async with running(node("a", cpu="100")) as world:
            world.cluster.put(pod("x"))
            world.scheduler._cycle.schedule(world.scheduler.queue.pop(), ends_at=math.inf)
            world.scheduler.stop()
            world.cluster.put(pod("late"))
            await world.calm()
            assert set(bound(world)) == {"default/x"}

    asyncio.run(story())


def test_a_stop_that_takes_too_long_says_what_is_given_up():
    async def story():
        async def never(*_):
            await asyncio.Event().wait()

        async with running(node("a"), settings=SchedulerSettings(stop_seconds=0.01)) as world:
            world.cluster.bind = never
            world.cluster.put(pod("x"))
            await world.calm()
            world.scheduler.stop()
            await asyncio.sleep(0.05)
            ((where, error),) = world.seen.failures
            assert (where, str(error)) == ("stopping", "1 binding and 0 statuses under way after 0.01 s; they are given up")

    asyncio.run(story())


def test_a_pod_that_cannot_be_decided_about_waits_with_the_reason_and_delays_no_other(monkeypatch):
    async def story():
        async with running(node("a")) as world:
            (profile,) = world.scheduler.profiles
            decide = profile.decider.decide_unless_long

            def choke(snapshot, pod):
                if pod.name == "bad":
                    raise InvalidObject("pod default/bad: no such thing")
                return decide(snapshot, pod)

            monkeypatch.setattr(profile.decider, "decide_unless_long", choke)
            world.cluster.put(pod("bad"))
            world.cluster.put(pod("good"))
            await world.calm()
            assert set(bound(world)) == {"default/good"}
            condition = world.cluster.pod("default/bad").status.conditions[0]
            assert (condition.reason, condition.message) == ("SchedulerError", "pod default/bad: no such thing")
            monkeypatch.undo()
            await world.pass_time(4)
            assert "default/bad" in bound(world)

    asyncio.run(story())


def test_unsupported_fields_are_reported():
    async def story():
        async with running(node("a"), pod("x", resourceClaims=[{"name": "gpu"}])) as world:
            assert (
                'spec.resourceClaim "gpu": none of the supported fields are set'
                in world.cluster.pod("default/x").status.conditions[0].message
            )

    asyncio.run(story())


def test_a_relist_ends_in_what_it_says():
    async def story():
        async with running(node("a"), node("b"), pod("x"), pod("y")) as world:
            kept = world.cluster.pod("default/x")
            world.scheduler.sink.replace("Pod", [kept])
            world.scheduler.sink.replace("Node", [node("a")])
            assert not world.scheduler.state.is_placed("uid-y")
            assert world.scheduler.state.snapshot().n_nodes == 1

    asyncio.run(story())
