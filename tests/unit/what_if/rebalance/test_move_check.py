"""Moves are checked on the present cluster: what is left out while the plan goes on, and what stops it."""

import asyncio
import copy

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import structs

from tests.unit.compiler.texts import compiled
from tests.unit.framework.kube import node, pod, state
from tests.unit.what_if.rebalance.execution import (
    CHAIN,
    NODES,
    PODS,
    SHARES,
    WISHES,
    Clock,
    World,
    carried_out,
    carrying,
    checked,
    cordoned_by,
    deleted,
    of_shares,
)
from tests.unit.what_if.rebalance.test_plan import owned
from wharfinger.framework.chain import assemble
from wharfinger.framework.ports import WriteFailed
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.what_if.leaving_pods import cordoned
from wharfinger.what_if.rebalance.move_check import CORDONED_BY, bundles
from wharfinger.what_if.rebalance.plan import Goal, Move, PlanOptions, rebalance, value_of
from wharfinger.what_if.rebalance.plan_execution import PlanExecution


def beside(name, **more):
    """A pod that no plan moves, on a node that no plan empties."""
    return decode.convert(pod(name, on="c", requests={"cpu": "100m"}, **more), objects.Pod)


def heartbeat(node):
    """The node as it is written again without a change."""
    return structs.replace(node, metadata=structs.replace(node.metadata, resource_version="again"))


@pytest.mark.parametrize(
    ("change", "checks"),
    [
        (lambda _live: None, [2]),
        (lambda live: live.upsert("PodDisruptionBudget", objects.PodDisruptionBudget(metadata=objects.ObjectMeta(name="b"))), [2]),
        (lambda live: live.upsert("Node", heartbeat(live.state.snapshot().node(2).object)), [2]),
        (lambda live: live.upsert("Pod", structs.replace(beside("x"), spec=objects.PodSpec())), [2]),
        (lambda live: live.upsert("Pod", beside("x")), [2, 1]),
        (lambda live: live.delete("Pod", decode.convert(PODS[2], objects.Pod)), [2, 1]),
        (lambda live: live.upsert("Node", decode.convert(node("d"), objects.Node)), [2, 1]),
        (lambda live: live.delete("Node", decode.convert(node("b"), objects.Node)), [2, 1]),
        (lambda live: live.upsert("Service", objects.Service(metadata=objects.ObjectMeta(name="s"))), [2, 1]),
    ],
)
def test_the_rest_is_checked_again_only_if_something_else_has_changed(world, plan, change, checks):
    found, _ = checked(world, plan, lambda what, name: change(world.live) if (what, name) == ("evict", "one") else None)
    assert found == checks


def test_a_node_that_another_client_uncordons_or_cordons_has_the_rest_checked_again(world, plan):
    opened = checked(world, plan, lambda what, name: world.live.upsert("Node", world.nodes["a"]) if what == "evict" else None)
    assert opened[0] == [2, 1]


def test_the_decisions_of_a_plan_grow_with_its_moves_alone():
    nodes = [node("z", offer={"cpu": "64"}), *(node(f"n{number}") for number in range(24))]
    pods = [owned(f"p{number}", on=f"n{number}", cpu="1") for number in range(24)] + [pod("big", on="z", requests={"cpu": "1"})]
    world = World(nodes, pods)
    plan = rebalance(CHAIN, state(nodes, pods), WISHES)
    assert len(plan.moves) == 24
    carrier = carrying(world)
    assert asyncio.run(carrier.run(plan.moves)).stopped is None
    assert carrier._move_check.draft.decisions == 2 * 24


def test_another_rebalance_that_begins_at_the_same_time_stops_the_plan(world, plan):
    def other(what, name):
        if what == "evict":
            world.live.upsert("Node", cordoned_by(world.nodes["c"], {CORDONED_BY: "another"}))

    found, done = checked(world, plan, other)
    assert found == [2]
    assert "still cordoned by another rebalance (another): c" in done.stopped


def move_of(number, gain, *, goal=Goal.FREE_NODES, cordon=(), uncordon=()):
    key = f"default/p{number}"
    return Move(pod=key, uid=key, source="a", target="b", goal=goal, why="", gain=gain, ties=1, cordon=cordon, uncordon=uncordon)


@pytest.mark.parametrize(
    ("gains", "cost", "sizes"),
    [
        ([1, 1, 1], 0, [1, 1, 1]),
        ([0, 0, 1, 0, 1], 0, [3, 2]),
        ([0, -1, 2, 1], 0, [3, 1]),
        ([0, 1, 0], 0, [3]),
        ([1, -1, 0], 0, [3]),
        ([0, 0, 1, 3], 0.4, [4]),
        ([0, 0], 0, [2]),
        ([], 0, []),
    ],
)
def test_moves_are_a_bundle_until_they_have_gained_more_than_they_cost(gains, cost, sizes):
    found = bundles([move_of(number, gain) for number, gain in enumerate(gains)], cost)
    assert [len(bundle) for bundle in found] == sizes


def test_a_bundle_is_of_one_goal_and_knows_all_that_is_cordoned_for_each_move():
    moves = [
        move_of(1, 1, cordon=("a", "b")),
        move_of(2, 0, uncordon=("b",)),
        move_of(3, 2, goal=Goal.POINTS, cordon=("c",)),
    ]
    found = bundles(moves, 0)
    assert [[(step.move, set(step.cordoned)) for step in bundle] for bundle in found] == [
        [(moves[0], {"a", "b"}), (moves[1], {"a"})],
        [(moves[2], {"a", "c"})],
    ]


MORE_NODES = [*NODES, node("e")]


MORE_PODS = [*PODS, owned("five", on="e", cpu="1")]


@pytest.fixture
def larger():
    """A world, and a plan that frees three nodes one after the other."""
    found = rebalance(CHAIN, state(MORE_NODES, MORE_PODS), WISHES)
    assert [move.pod for move in found.moves] == ["default/one", "default/two", "default/five"]
    return World(MORE_NODES, MORE_PODS), found


def protected(one):
    one["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def without_controller(one):
    one["metadata"]["ownerReferences"] = []


def changed(name, change):
    """The pod of the larger world after a change."""
    one = copy.deepcopy(next(each for each in MORE_PODS if each["metadata"]["name"] == name))
    change(one)
    return decode.convert(one, objects.Pod)


def budget(name):
    selector = objects.LabelSelector(match_labels={"app": "x"})
    meta = objects.ObjectMeta(name=name, namespace="default")
    return objects.PodDisruptionBudget(metadata=meta, spec=objects.PodDisruptionBudgetSpec(selector=selector))


def two_budgets(live):
    labelled = changed("two", lambda one: one["metadata"]["labels"].update({"app": "x"}))
    live.upsert("Pod", structs.replace(labelled, status=structs.replace(labelled.status, phase="Running")))
    for name in ("first", "second"):
        live.upsert("PodDisruptionBudget", budget(name))


LEFT_OUT = [
    (lambda live: live.upsert("Pod", changed("two", protected)), "may not move any more: it has the annotation"),
    (lambda live: live.upsert("Pod", changed("two", without_controller)), "may not move any more: no controller"),
    (lambda live: live.upsert("Pod", changed("two", deleted)), "is gone, or being deleted"),
    (two_budgets, "may not move any more: more than one PodDisruptionBudget covers it"),
    (lambda live: live.upsert("Pod", decode.convert(owned("new", on="b"), objects.Pod)), "it would gain 0 now, not 1 as planned"),
]


@pytest.mark.parametrize(("change", "why"), LEFT_OUT)
@pytest.mark.parametrize("exact", [False, True])
def test_moves_that_became_impossible_or_worthless_are_left_out_and_the_others_are_made(larger, change, why, exact):
    world, plan = larger
    reported = []
    world.before_write = lambda what, name: change(world.live) if (what, name) == ("evict", "one") else None
    done = carried_out(world, plan, exact=exact, report=reported.append)
    assert (done.stopped, done.left, done.still_cordoned) == (None, (), ())
    assert [(each.move.pod, why in each.why) for each in done.left_out] == [("default/two", True)]
    assert [done.move.pod for done in done.completed] == ["default/one", "default/five"]
    assert any(line.startswith("left out default/two: ") and why in line for line in reported)
    assert ("evict", "two") not in world.writes


@pytest.mark.parametrize(("change", "why"), LEFT_OUT[:4])
def test_a_pod_is_checked_again_right_before_its_eviction(larger, change, why):
    world, plan = larger
    nodes_of_two = set(plan.moves[1].cordon)
    world.before_write = lambda what, name: change(world.live) if what == "cordon" and name in nodes_of_two else None
    done = carried_out(world, plan)
    assert [(each.move.pod, why in each.why) for each in done.left_out] == [("default/two", True)]
    assert ("evict", "two") not in world.writes
    assert len(done.completed) == 2


CALM = 'policy "calm"\npreemption { never_evict when (it.labels["calm"] ?? "") == "yes" }\n'


def test_a_pod_that_a_policy_protects_half_way_is_left_out(larger):
    world, plan = larger
    chain = assemble([compiled(CALM)])
    calm = changed("two", lambda one: one["metadata"]["labels"].update({"calm": "yes"}))
    world.before_write = lambda what, name: world.live.upsert("Pod", calm) if (what, name) == ("evict", "one") else None
    done = asyncio.run(PlanExecution(chain, WISHES, world.live, world, Clock()).run(plan.moves))
    assert [each.why for each in done.left_out] == [
        "pod default/two may not move any more: a policy protects it (never_evict or only_evict)"
    ]
    assert len(done.completed) == 2


def test_a_budget_that_forbids_an_eviction_for_now_is_waited_for_and_not_left_out(larger):
    world, plan = larger
    two_budgets(world.live)
    world.live.delete("PodDisruptionBudget", budget("second"))
    world.refuse = [None, None, WriteFailed("budget"), WriteFailed("budget")]
    done = carried_out(world, plan)
    assert (len(done.completed), done.left_out, done.stopped) == (3, (), None)


def test_the_execution_stops_if_a_pod_has_no_place_although_all_moves_ended_as_planned(larger):
    world, plan = larger
    big = decode.convert(pod("big", on="c", requests={"cpu": "6"}), objects.Pod)

    def no_room(what, name):
        if (what, name) == ("cordon", "b"):
            world.live.upsert("Pod", big)
            world.live.upsert("Node", cordoned(world.nodes["e"]))

    world.before_write = no_room
    done = carried_out(world, plan)
    assert done.stopped.startswith("pod default/two would find no place: ")
    assert (len(done.completed), done.left_out, world.cordoned()) == (1, (), {"e"})
    assert ("evict", "two") not in world.writes
    assert done.left == tuple(plan.moves[1:])


NEVER_C = 'policy "never-c"\nfilter never_c { reject node.name == "c" else "c" }\n'


def test_the_execution_stops_if_the_scheduler_decides_by_other_policies(larger):
    world, plan = larger
    world.before_write = lambda what, name: (
        setattr(world, "chain", assemble([compiled(NEVER_C)])) if (what, name) == ("evict", "two") else None
    )
    done = carried_out(world, plan)
    assert (
        done.stopped == "pod default/two-again got e, and the policies and settings of this plan choose c: "
        "the scheduler uses other policies or settings"
    )
    assert [(each.pod, each.node) for each in done.completed] == [("default/one-again", "c"), ("default/two-again", "e")]
    assert (done.left, done.left_out, world.cordoned()) == (tuple(plan.moves[2:]), (), set())


def test_another_node_for_a_replacement_is_no_sign_of_other_policies_if_something_else_has_changed(larger):
    world, plan = larger
    arrives = decode.convert(pod("big", on="c", requests={"cpu": "6"}), objects.Pod)
    world.before_write = lambda what, name: world.live.upsert("Pod", arrives) if (what, name) == ("evict", "two") else None
    done = carried_out(world, plan)
    assert (done.completed[1].node, done.stopped) == ("e", None)


def test_policies_that_decide_alike_are_no_reason_to_stop(larger):
    world, plan = larger
    world.chain = assemble([compiled(NEVER_C.replace('"c" else', '"x" else'))])
    done = carried_out(world, plan)
    assert (len(done.completed), done.stopped) == (3, None)


@given(SHARES, st.sampled_from([Goal.FREE_NODES, Goal.FREE_GPUS]))
@settings(max_examples=12, deadline=None)
def test_ties_that_fall_otherwise_stop_no_plan_and_lose_nothing(shares, goal):
    nodes, pods = of_shares(shares)
    plan_options = PlanOptions(goals=(goal,))
    plan = rebalance(CHAIN, state(nodes, pods), plan_options)
    world = World(nodes, pods)
    value, _ = value_of(goal, plan_options, world.live.state.snapshot())
    before = value.total(world.live.state.snapshot(), frozenset())
    done = carried_out(world, plan, plan_options=plan_options)
    assert (done.stopped, done.left, world.cordoned()) == (None, (), set())
    assert len(done.completed) + len(done.left_out) == len(plan.moves)
    assert all(pod.node_name for pod in world.live.pods.values())
    assert value.total(world.live.state.snapshot(), frozenset()) >= before


def test_a_check_can_be_interrupted_before_each_move_and_leaves_the_cluster_as_it_is(larger):
    world, plan = larger
    snapshot = world.live.state.snapshot()
    before = {pod.uid: snapshot.names[row] for row in range(snapshot.n_nodes) for pod in snapshot.pods_on(row)}
    steps = carrying(world)._move_check.of_plan(bundles(plan.moves, 0))
    assert sum(1 for _ in steps) >= 2 * len(plan.moves)
    begun = carrying(world)._move_check.of_plan(bundles(plan.moves, 0))
    for _ in range(5):
        next(begun)
    begun.close()
    snapshot = world.live.state.snapshot()
    assert {pod.uid: snapshot.names[row] for row in range(snapshot.n_nodes) for pod in snapshot.pods_on(row)} == before
    assert world.cordoned() == set()


def test_changes_during_a_check_count_after_it(larger):
    world, plan = larger

    class Busy(Clock):
        """A clock by which each slice is over at once; at the first pause a pod is deleted, and another one changed."""

        def monotonic(self):
            self.time += 1
            return self.time

        async def sleep(self, seconds):
            if not checked_at_once and not world.writes:
                world.live.delete("Pod", decode.convert(MORE_PODS[1], objects.Pod))
                checked_at_once.append(set(world.live.pods))
            await super().sleep(seconds)

    checked_at_once = []
    done = asyncio.run(PlanExecution(CHAIN, WISHES, world.live, world, Busy(), max_wait=1e9).run(plan.moves))
    assert "uid-two" in checked_at_once[0]
    assert [each.why for each in done.left_out] == ["pod default/two is gone, or being deleted"]
    assert (len(done.completed), done.stopped) == (2, None)
