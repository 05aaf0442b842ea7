"""Nodes are cordoned for the moves of a plan, and uncordoned however the plan ends."""

import asyncio

import pytest
from msgspec import structs

from tests.unit.framework.kube import node, state
from tests.unit.what_if.rebalance.execution import (
    CHAIN,
    NODES,
    PODS,
    WISHES,
    World,
    cancelled,
    carried_out,
    carrying,
    cordoned_by,
    reason_to_stop,
    step,
)
from tests.unit.what_if.rebalance.test_plan import owned
from wharfinger.framework.ports import WriteFailed
from wharfinger.what_if.leaving_pods import cordoned
from wharfinger.what_if.rebalance.move_check import CORDONED_BY, left_cordons
from wharfinger.what_if.rebalance.plan import rebalance
from wharfinger.what_if.rebalance.plan_execution import CONCURRENT_CORDONS


def test_a_refused_cordon_stops_it_before_anything_is_evicted(world, plan):
    world.refuse = [WriteFailed("forbidden", retriable=False)]
    done = carried_out(world, plan)
    assert (done.stopped, done.refused) == ("cordoning node a: forbidden", True)
    assert all(what == "uncordon" for what, _ in world.writes)


def test_a_node_that_cannot_be_uncordoned_is_reported(world, plan):
    def before_write(what, name):
        if what == "uncordon":
            raise WriteFailed("forbidden", retriable=False)

    world.before_write = before_write
    done = carried_out(world, plan)
    assert set(done.still_cordoned) == world.cordoned() != set()
    assert len(done.completed) == 2


def test_nodes_that_a_killed_rebalance_left_cordoned_are_reported_and_uncordoned_and_no_others(world, plan):
    world.live.upsert("Node", cordoned_by(world.nodes["a"], {CORDONED_BY: "wharf on host x"}))
    world.live.upsert("Node", cordoned(world.nodes["b"]))
    done = carried_out(world, plan)
    assert "wharf on host x): a; if it does not run any more" in done.stopped
    assert (world.writes, done.changed) == ([], False)
    assert asyncio.run(carrying(world).undo()) == (("a",), ())
    assert (world.writes, world.cordoned()) == ([("uncordon", "a")], {"b"})
    assert asyncio.run(carrying(world).undo()) == ((), ())


def test_every_cordon_says_whose_it_is(world, plan):
    seen = []
    world.before_write = lambda what, _name: seen.append((what, dict(left_cordons(world.live.state.snapshot()))))
    carried_out(world, plan, by="me")
    assert next(left for what, left in seen if what == "evict") == {"a": "me"}
    assert left_cordons(world.live.state.snapshot()) == {}


def test_a_node_that_is_uncordoned_between_two_moves_is_cordoned_again_for_the_next():
    nodes = [node("a"), node("b"), node("c", offer={"cpu": "6"})]
    world = World(nodes, [owned("p1"), owned("p2"), owned("p3"), owned("p0", on="c", cpu="2")])
    moves = [step("p1", "c", cordon=("a", "b")), step("p2", "b", uncordon=("b",)), step("p3", "c", cordon=("b",))]
    assert reason_to_stop(world, moves, exact=True) is None
    moves[2] = step("p3", "c")
    assert "would go to b, not to c" in reason_to_stop(world, moves, exact=True)


def test_many_nodes_are_cordoned_at_the_same_time_but_not_all_at_once():
    nodes = [*NODES, *(node(f"n{number}") for number in range(3 * CONCURRENT_CORDONS))]
    pods = PODS
    world = World(nodes, pods)
    plan = rebalance(CHAIN, state(nodes, pods), WISHES)
    assert plan.most_cordoned >= 3 * CONCURRENT_CORDONS
    now, most, set_cordon = set(), [0], world.set_cordon

    async def slowly(name, annotations, *, cordoned):
        now.add(name)
        most[0] = max(most[0], len(now))
        await asyncio.sleep(0)
        await set_cordon(name, annotations, cordoned=cordoned)
        now.remove(name)

    world.set_cordon = slowly
    assert carried_out(world, plan).stopped is None
    assert most == [CONCURRENT_CORDONS]
    assert world.cordoned() == set()


def test_a_node_whose_cordon_was_refused_does_not_count_as_cordoned(world, plan):
    def before_write(what, _name):
        raise WriteFailed(f"may not {what}", retriable=False)

    world.before_write = before_write
    done = carried_out(world, plan)
    assert (done.stopped, done.still_cordoned, done.changed) == ("cordoning node a: may not cordon", (), False)


@pytest.mark.parametrize(
    ("what", "said", "evicted"),
    [
        ("cordon", "no evicted pod is without a replacement", 0),
        ("evict", "pod default/one was evicted, and its replacement is not waited for", 1),
    ],
)
def test_a_plan_that_is_cancelled_uncordons_its_nodes_and_says_what_it_leaves(world, plan, what, said, evicted):
    world.creates = what != "evict"
    done, reported = cancelled(world, plan, what)
    assert (done.cancelled, done.stopped, done.evicted) == (True, said, evicted)
    assert world.cordoned() == set()
    assert reported == ["uncordoning 1 cordoned node"]


def test_a_plan_that_is_cancelled_twice_names_the_nodes_that_stay_cordoned(world, plan):
    reported = []

    async def run():
        task = asyncio.ensure_future(carrying(world, report=reported.append).run(plan.moves))

        def before_write(what, _name):
            if what in {"evict", "uncordon"}:
                task.cancel()
                raise WriteFailed("no answer")

        world.before_write = before_write
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert reported[-1] == "still cordoned: a; uncordon them with wharf rebalance --live --undo-cordons"


def test_a_plan_that_would_undo_the_cordon_of_an_administrator_is_not_carried_out(world, plan):
    world.live.upsert("Node", cordoned(world.nodes["c"]))
    moves = [structs.replace(plan.moves[0], uncordon=("c",)), *plan.moves[1:]]
    done = asyncio.run(carrying(world, exact=True).run(moves))
    assert not done.changed
    assert world.writes == []
    assert "c" in world.cordoned()
