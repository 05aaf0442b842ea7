"""A plan is carried out move by move, and stops if the cluster has changed."""

import asyncio
import copy
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import structs

from tests.unit.framework.kube import node, pod, state
from tests.unit.what_if.rebalance.execution import (
    CHAIN,
    NODES,
    OWN,
    PODS,
    SHARES,
    WISHES,
    Clock,
    World,
    carried_out,
    carrying,
    not_placed,
    of_shares,
    reason_to_stop,
    step,
)
from tests.unit.what_if.rebalance.test_plan import owned
from wharfinger.framework.ports import WriteFailed
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.what_if.leaving_pods import cordoned
from wharfinger.what_if.rebalance.movable import Limits
from wharfinger.what_if.rebalance.plan import Goal, PlanOptions, rebalance
from wharfinger.what_if.rebalance.plan_execution import PlanExecution


def test_every_move_is_made_and_all_nodes_are_uncordoned_at_the_end(world, plan):
    reported = []
    done = carried_out(world, plan, report=reported.append)
    assert (done.stopped, done.still_cordoned, done.left) == (None, (), ())
    assert [(done.pod, done.node) for done in done.completed] == [("default/one-again", "c"), ("default/two-again", "c")]
    assert world.cordoned() == set()
    assert [what for what, _ in world.writes].count("evict") == 2
    assert reported[0] == "default/one: a → c (default/one-again)"


def test_a_budget_that_refuses_for_a_while_is_waited_for(world, plan):
    world.refuse = [None, WriteFailed("budget"), WriteFailed("budget")]
    done = carried_out(world, plan)
    assert (len(done.completed), done.stopped, world.cordoned()) == (2, None, set())


def test_an_eviction_whose_answer_was_lost_is_not_made_twice(world, plan):
    evict = world.evict

    async def lost(pod):
        if pod.uid in world.live.pods:
            await evict(pod)
            raise WriteFailed("no answer")
        raise WriteFailed("not found", retriable=False, gone=True)

    world.evict = lost
    done = carried_out(world, plan)
    assert (len(done.completed), done.stopped) == (2, None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda world: world.live.delete("Pod", decode.convert(PODS[1], objects.Pod)), "pod default/two is gone"),
        (lambda world: world.live.delete("Node", world.nodes["c"]), "node c is gone"),
        (lambda world: not_placed(world, PODS[1]), "pod default/two was to be on b before the first move, and"),
        (lambda world: world.live.upsert("Pod", decode.convert(owned("big", on="c", cpu="6"), objects.Pod)), "no place|would go to"),
        (lambda world: world.live.upsert("Pod", decode.convert(owned("new", on="a"), objects.Pod)), "would gain 1 now, not 2"),
        (lambda world: world.live.upsert("Node", cordoned(world.nodes["c"])), "no place|would go to"),
    ],
)
def test_nothing_is_written_for_a_plan_that_no_longer_holds(world, plan, change, why):
    change(world)
    already = world.cordoned()
    done = carried_out(world, plan)
    assert done.stopped is not None
    assert any(part in done.stopped for part in why.split("|")), done.stopped
    assert not done.refused
    assert (world.writes, done.completed, done.changed, world.cordoned()) == ([], (), False, already)


def test_a_move_that_became_impossible_half_way_is_left_out_and_the_nodes_are_uncordoned(world, plan):
    def before_write(what, name):
        if (what, name) == ("evict", "one"):
            world.live.delete("Pod", decode.convert(PODS[1], objects.Pod))

    world.before_write = before_write
    done = carried_out(world, plan)
    assert [done.node for done in done.completed] == ["c"]
    assert [(each.move.pod, each.why) for each in done.left_out] == [("default/two", "pod default/two is gone, or being deleted")]
    assert (done.stopped, done.left, world.cordoned()) == (None, (), set())


class EndingClock(Clock):
    """A clock on which every pod that is marked as deleted is gone after a number of seconds."""

    def __init__(self, world, seconds):
        super().__init__()
        self._world, self._seconds = world, seconds
        world.ending = []

    async def sleep(self, seconds):
        await super().sleep(seconds)
        while self._world.ending and self.time >= self._seconds:
            self._world.live.delete("Pod", self._world.ending.pop())


def carried_out_slowly(world, moves, seconds):
    clock = EndingClock(world, seconds)
    return asyncio.run(PlanExecution(CHAIN, WISHES, world.live, world, clock).run(moves))


def test_a_move_waits_until_the_pod_before_is_gone_whose_room_it_may_need():
    nodes = [
        *(node(name, offer={"cpu": "2"}) for name in "abc"),
        node("d", offer={"cpu": "2"}, taints=[{"key": "unliked", "effect": "PreferNoSchedule"}]),
    ]
    world = World(nodes, [owned("one", cpu="2"), owned("two", on="c", cpu="2")])
    moves = [step("one", "b", cordon=("a",)), structs.replace(step("two", "a", cordon=("c",), uncordon=("a",)), source="c")]
    done = carried_out_slowly(world, moves, 30)
    assert (done.stopped, [each.node for each in done.completed]) == (None, ["b", "a"])


def test_a_pod_that_does_not_end_stops_the_plan_before_the_next_move(world, plan):
    done = carried_out_slowly(world, plan.moves, 1000)
    assert done.stopped == "pod default/one was evicted, and is still there after 300 s"
    assert (len(done.completed), len(done.left), world.cordoned()) == (1, len(plan.moves) - 1, set())


def test_without_a_replacement_it_stops(world, plan):
    world.creates = False
    done = carried_out(world, plan)
    assert (done.stopped, done.refused) == ("pod default/one was evicted, and no replacement has a node after 300 s", False)
    assert (done.completed, done.changed, world.cordoned()) == ((), True, set())


def replica_set(pod, replicas, **metadata):
    """The ReplicaSet of a pod."""
    owner = pod["metadata"]["ownerReferences"][0]
    metadata = {"name": owner["name"], "namespace": "default", "uid": owner.get("uid", ""), **metadata}
    return decode.convert({"metadata": metadata, "spec": {"replicas": replicas}}, objects.ReplicaSet)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda world, own: world.live.upsert("ReplicaSet", replica_set(PODS[0], 0)), f"{OWN} wants 0 pods, and has that many"),
        (lambda world, own: world.live.delete("ReplicaSet", own), f"{OWN} is gone, or being deleted"),
        (
            lambda world, own: world.live.upsert("ReplicaSet", replica_set(PODS[0], 1, deletionTimestamp="2026-01-01T00:00:00Z")),
            f"{OWN} is gone, or being deleted",
        ),
        (
            lambda world, own: world.live.upsert("ReplicaSet", replica_set(PODS[0], 1, uid="another")),
            f"{OWN} is gone, or being deleted",
        ),
    ],
    ids=["scaled to 0", "deleted", "being deleted", "made again"],
)
def test_a_pod_that_its_controller_does_not_replace_is_left_out_and_the_plan_goes_on(world, plan, change, why):
    own = replica_set(PODS[0], 1)
    world.live.replace("ReplicaSet", [own, replica_set(PODS[1], 1)])
    evict = world.evict

    async def changed(pod):
        world.creates = pod.name != "one"
        if not world.creates:
            change(world, own)
        await evict(pod)

    world.evict = changed
    done = carried_out(world, plan)
    assert (done.stopped, done.evicted, world.cordoned()) == (None, 2, set())
    assert [move.move.pod for move in done.completed] == ["default/two"]
    assert [(left.move.pod, left.why) for left in done.left_out] == [("default/one", f"pod default/one has left, and {why}")]


def test_a_pod_whose_controller_is_gone_is_not_evicted(world, plan):
    world.live.upsert("ReplicaSet", replica_set(PODS[1], 1))
    done = carried_out(world, plan)
    assert ("evict", "one") not in world.writes
    assert [left.why for left in done.left_out] == [f"pod default/one would not be created again: {OWN} is gone, or being deleted"]
    assert [move.move.pod for move in done.completed] == ["default/two"]


def test_a_controller_that_wants_more_pods_is_waited_for(world, plan):
    world.live.upsert("ReplicaSet", replica_set(PODS[0], 1))
    world.creates = False
    assert carried_out(world, plan).stopped == "pod default/one was evicted, and no replacement has a node after 300 s"


def test_a_replacement_that_finds_no_node_stops_it_before_the_longest_wait(world, plan):
    big = pod("big", on="c", requests={"cpu": "7"})
    blocked = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]}

    def taken(what, name):
        if what == "evict":
            world.live.upsert("Pod", decode.convert(big, objects.Pod))
            for each in ("a", "b"):
                world.live.upsert("Node", cordoned(world.nodes[each]))
            world.plain = {uid: {**each, "status": blocked} for uid, each in world.plain.items()}

    world.before_write = taken
    done = carried_out(world, plan)
    assert done.stopped == "pod default/one was evicted, and its replacement finds no node: 0/3 nodes are available"


@given(SHARES, st.sampled_from([Goal.FREE_NODES, Goal.FREE_GPUS, Goal.POINTS]))
@settings(max_examples=12, deadline=None)
def test_a_plan_holds_on_the_cluster_that_it_was_made_for(shares, goal):
    nodes, pods = of_shares(shares)
    plan_options = PlanOptions(goals=(goal,))
    plan = rebalance(CHAIN, state(nodes, pods), plan_options)
    assert reason_to_stop(World(nodes, pods), plan.moves, plan_options=plan_options, exact=True) is None


def test_a_kept_plan_is_refused_if_a_pod_may_not_move_any_more_or_a_later_one_would_go_elsewhere(world, plan):
    protected = copy.deepcopy(PODS[1])
    protected["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    world.live.upsert("Pod", decode.convert(protected, objects.Pod))
    done = carried_out(world, plan, exact=True)
    assert done.stopped.startswith("pod default/two may not move any more: it has the annotation")
    assert not done.changed
    old = PlanOptions(goals=WISHES.goals, limits=Limits(namespaces=frozenset({"other"})))
    assert "another namespace" in carried_out(world, plan, exact=True, plan_options=old).stopped
    assert world.writes == []


def test_a_pod_that_is_deleted_while_nodes_are_cordoned_for_it_is_left_out(world, plan):
    def before_write(what, name):
        if what == "cordon":
            world.live.delete("Pod", decode.convert(PODS[0], objects.Pod))

    world.before_write = before_write
    done = carried_out(world, plan)
    assert [each.why for each in done.left_out] == ["pod default/one is gone, or being deleted"]
    assert [done.move.pod for done in done.completed] == ["default/two"]
    assert (done.stopped, world.cordoned()) == (None, set())


def test_the_reason_of_a_wait_is_reported_once(world, plan):
    reported = []
    world.refuse = [None, *[WriteFailed("budget")] * 3]
    assert carried_out(world, plan, report=reported.append).stopped is None
    assert reported[0] == "evicting default/one: budget; trying again for 300 s"
    assert len(reported) == 1 + len(plan.moves)


def test_the_reason_of_a_wait_is_reported_once_for_each_of_the_nodes_that_wait_at_the_same_time():
    nodes = [*NODES, node("d"), node("e")]
    world = World(nodes, PODS)
    plan = rebalance(CHAIN, state(nodes, PODS), WISHES)
    reported, attempts = [], Counter()

    def before_write(what, name):
        attempts[name] += 1
        if what == "cordon" and attempts[name] <= 3:
            raise WriteFailed(f"no answer about {name}")

    world.before_write = before_write
    assert carried_out(world, plan, report=reported.append).stopped is None
    waits = [sentence for sentence in reported if "trying again" in sentence]
    assert len(waits) == len(set(waits)) == plan.most_cordoned > 1


@pytest.mark.parametrize(
    ("declined", "said"),
    [
        (True, "no evicted pod is without a replacement"),
        (False, "pod default/one may have been evicted, and its replacement is not waited for"),
    ],
)
def test_a_plan_that_is_cancelled_while_a_budget_forbids_says_that_the_pod_is_there(world, plan, declined, said):
    async def run():
        task = asyncio.ensure_future(carrying(world, report=lambda sentence: "trying again" in sentence and task.cancel()).run(plan.moves))

        def before_write(what, _name):
            if what == "evict":
                raise WriteFailed("budget", declined=declined)

        world.before_write = before_write
        return await task

    done = asyncio.run(run())
    assert (done.cancelled, done.stopped, done.evicted) == (True, said, 0)


def test_a_plan_whose_pod_has_another_name_is_refused(world, plan):
    moves = [structs.replace(plan.moves[0], pod="default/other"), *plan.moves[1:]]
    assert reason_to_stop(world, moves) == "the pod of uid uid-one is default/one, not default/other as planned"
