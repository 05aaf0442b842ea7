"""A plan is carried out move by move on a cluster that controllers and a scheduler keep, and stops where that has become another one."""

import asyncio
import copy
from datetime import UTC, datetime

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import structs

from tests.unit.framework.kube import node, pod, state
from tests.unit.what_if.rebalance.test_plan import GPU, MILLI, asking, owned
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.ports import WriteFailed
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.what_if.leaving_pods import cordoned
from wharfinger.what_if.rebalance.carry_out import CONCURRENT_CORDONS, CORDONED_BY, PlanExecution, left_cordons
from wharfinger.what_if.rebalance.movable import Limits
from wharfinger.what_if.rebalance.plan import Goal, Move, PlanOptions, rebalance
from wharfinger.what_if.rebalance.watched_cluster import WatchedCluster

CHAIN = assemble()


class Clock:
    """A clock that does not wait; `ticks` are called one by one, one for each sleep."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def monotonic(self):
        return self.time

    async def sleep(self, seconds):
        self.time += seconds
        await asyncio.sleep(0)


class World:
    """A cluster in memory: evicted pods are created again under another name and uid, and placed by the chain.

    `refuse` are failures for the next writes. `creates` False: no controller acts. `before_write` is called before each write.
    """

    def __init__(self, nodes, pods):
        self.live = WatchedCluster()
        self.plain = {pod["metadata"]["uid"]: pod for pod in pods}
        self.nodes = {each["metadata"]["name"]: decode.convert(each, objects.Node) for each in nodes}
        self.live.replace("Node", list(self.nodes.values()))
        self.live.replace("Pod", [decode.convert(pod, objects.Pod) for pod in pods])
        self.refuse = []
        self.creates = True
        self.writes = []
        self.before_write = lambda what, name: None

    async def evict(self, pod):
        self._writing("evict", pod.name)
        self.live.delete("Pod", pod.object)
        if self.creates:
            self._create(copy.deepcopy(self.plain.pop(pod.uid)))

    async def cordon(self, node, annotations, *, closed):
        self._writing("cordon" if closed else "open", node)
        self.live.upsert("Node", closed_by(self.nodes[node], annotations) if closed else self.nodes[node])

    def _writing(self, what, name):
        self.before_write(what, name)
        if self.refuse and (failure := self.refuse.pop(0)) is not None:
            raise failure
        self.writes.append((what, name))

    def _create(self, plain):
        plain["metadata"]["name"] += "-again"
        plain["metadata"]["uid"] += "-again"
        plain["spec"]["nodeName"] = ""
        pending = decode.convert(plain, objects.Pod)
        self.live.upsert("Pod", pending)
        plain["spec"]["nodeName"] = decide(CHAIN, self.live.state.snapshot(), self.live.pods[pending.metadata.uid]).node or ""
        self.plain[plain["metadata"]["uid"]] = plain
        self.live.upsert("Pod", decode.convert(plain, objects.Pod))

    def closed(self):
        snapshot = self.live.state.snapshot()
        return {name for name, closed in zip(snapshot.names, snapshot.unschedulable, strict=True) if closed}


def closed_by(node, annotations):
    """The node, cordoned, with these annotations."""
    return structs.replace(cordoned(node), metadata=structs.replace(node.metadata, annotations=annotations))


NODES = [node("a"), node("b"), node("c", offer={"cpu": "8"})]
PODS = [owned("one", cpu="1"), owned("two", on="b", cpu="1"), pod("three", on="c", requests={"cpu": "1"})]
WISHES = PlanOptions(goals=(Goal.FREE_NODES,))


@pytest.fixture
def world():
    return World(NODES, PODS)


@pytest.fixture
def plan():
    found = rebalance(CHAIN, state(NODES, PODS), WISHES)
    assert [(move.pod, move.target) for move in found.moves] == [("default/one", "c"), ("default/two", "c")]
    return found


def carrying(world, **how):
    return PlanExecution(CHAIN, how.pop("plan_options", WISHES), world.live, world, Clock(), **how)


def carried_out(world, plan, **how):
    return asyncio.run(carrying(world, **how).run(plan.moves))


def test_every_move_is_made_and_all_nodes_are_open_at_the_end(world, plan):
    reported = []
    done = carried_out(world, plan, report=reported.append)
    assert (done.stopped, done.closed, done.left) == (None, (), ())
    assert [(done.pod, done.node) for done in done.completed] == [("default/one-again", "c"), ("default/two-again", "c")]
    assert world.closed() == set()
    assert [what for what, _ in world.writes].count("evict") == 2
    assert reported[0] == "default/one: a → c (default/one-again)"


def test_a_budget_that_refuses_for_a_while_is_waited_for(world, plan):
    world.refuse = [None, WriteFailed("budget"), WriteFailed("budget")]
    done = carried_out(world, plan)
    assert (len(done.completed), done.stopped, world.closed()) == (2, None, set())


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
        (lambda world: world.live.upsert("Pod", decode.convert(owned("big", on="c", cpu="6"), objects.Pod)), "no place|would go to"),
        (lambda world: world.live.upsert("Pod", decode.convert(owned("new", on="a"), objects.Pod)), "would gain 1 now, not 2"),
        (lambda world: world.live.upsert("Node", cordoned(world.nodes["c"])), "no place|would go to"),
    ],
)
def test_nothing_is_written_for_a_plan_that_no_longer_holds(world, plan, change, why):
    change(world)
    already = world.closed()
    done = carried_out(world, plan)
    assert done.stopped is not None
    assert any(part in done.stopped for part in why.split("|")), done.stopped
    assert (world.writes, done.completed, done.changed, world.closed()) == ([], (), False, already)


def test_a_change_half_way_stops_the_plan_and_opens_the_nodes(world, plan):
    def before_write(what, name):
        if (what, name) == ("evict", "one"):
            world.live.delete("Pod", decode.convert(PODS[1], objects.Pod))

    world.before_write = before_write
    done = carried_out(world, plan)
    assert [done.node for done in done.completed] == ["c"]
    assert done.stopped == "pod default/two is gone, or being deleted"
    assert world.closed() == set()


def test_a_pod_that_ends_slowly_does_not_count_on_its_node_any_more():
    pods = [*PODS, owned("four", cpu="1")]
    world = World(NODES, pods)
    evict = world.evict

    async def slowly(pod):
        await evict(pod)
        leaving = structs.replace(pod.object.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
        world.live.upsert("Pod", structs.replace(pod.object, metadata=leaving))

    world.evict = slowly
    plan = rebalance(CHAIN, state(NODES, pods), WISHES)
    assert len(plan.moves) == 3
    assert carried_out(world, plan).stopped is None


def test_without_a_replacement_it_stops(world, plan):
    world.creates = False
    done = carried_out(world, plan)
    assert done.stopped == "pod default/one was evicted, and no replacement has a node after 300 s"
    assert (done.completed, done.changed, world.closed()) == ((), True, set())


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


def test_a_refused_cordon_stops_it_before_anything_is_evicted(world, plan):
    world.refuse = [WriteFailed("forbidden", retriable=False)]
    done = carried_out(world, plan)
    assert done.stopped == "cordoning node a: forbidden"
    assert all(what == "open" for what, _ in world.writes)


def test_a_node_that_cannot_be_uncordoned_is_reported(world, plan):
    def before_write(what, name):
        if what == "open":
            raise WriteFailed("forbidden", retriable=False)

    world.before_write = before_write
    done = carried_out(world, plan)
    assert set(done.closed) == world.closed() != set()
    assert len(done.completed) == 2


def test_nodes_that_a_killed_rebalance_left_cordoned_are_reported_and_uncordoned_and_no_others(world, plan):
    world.live.upsert("Node", closed_by(world.nodes["a"], {CORDONED_BY: "wharf on host x"}))
    world.live.upsert("Node", cordoned(world.nodes["b"]))
    done = carried_out(world, plan)
    assert "wharf on host x): a; if it does not run any more" in done.stopped
    assert (world.writes, done.changed) == ([], False)
    assert asyncio.run(carrying(world).undo()) == (("a",), ())
    assert (world.writes, world.closed()) == ([("open", "a")], {"b"})
    assert asyncio.run(carrying(world).undo()) == ((), ())


def test_every_cordon_says_whose_it_is(world, plan):
    seen = []
    world.before_write = lambda what, _name: seen.append((what, dict(left_cordons(world.live.state.snapshot()))))
    carried_out(world, plan, by="me")
    assert next(left for what, left in seen if what == "evict") == {"a": "me"}
    assert left_cordons(world.live.state.snapshot()) == {}


SHARES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["100", "300", "400", "600", "700"])), min_size=4, max_size=18)


@given(SHARES, st.sampled_from([Goal.FREE_NODES, Goal.FREE_GPUS, Goal.POINTS]))
@settings(max_examples=12, deadline=None)
def test_a_plan_holds_on_the_cluster_that_it_was_made_for(shares, goal):
    nodes = [node(f"n{i}", offer={"cpu": "8", GPU: "2", MILLI: "2000"}) for i in range(6)]
    room = dict.fromkeys(range(6), 2000)
    pods = []
    for number, (place, share) in enumerate(shares):
        if room[place] >= int(share):
            room[place] -= int(share)
            pods.append(asking(f"p{number}", f"n{place}", {MILLI: share}))
    plan_options = PlanOptions(goals=(goal,))
    plan = rebalance(CHAIN, state(nodes, pods), plan_options)
    assert carrying(World(nodes, pods), plan_options=plan_options, exact=True).reason_to_stop(plan.moves) is None


def step(name, target, *, cordon=(), uncordon=()):
    goal, key = Goal.POINTS, f"default/{name}"
    return Move(pod=key, uid=f"uid-{name}", source="a", target=target, goal=goal, why="", gain=1, ties=1, cordon=cordon, uncordon=uncordon)


def test_a_node_that_is_opened_between_two_moves_is_cordoned_again_for_the_next():
    nodes = [node("a"), node("b"), node("c", offer={"cpu": "6"})]
    world = World(nodes, [owned("p1"), owned("p2"), owned("p3"), owned("p0", on="c", cpu="2")])
    moves = [step("p1", "c", cordon=("a", "b")), step("p2", "b", uncordon=("b",)), step("p3", "c", cordon=("b",))]
    assert carrying(world, exact=True).reason_to_stop(moves) is None
    moves[2] = step("p3", "c")
    assert "would go to b, not to c" in carrying(world, exact=True).reason_to_stop(moves)


def test_many_nodes_are_cordoned_at_the_same_time_but_not_all_at_once():
    nodes = [*NODES, *(node(f"n{number}") for number in range(3 * CONCURRENT_CORDONS))]
    pods = PODS
    world = World(nodes, pods)
    plan = rebalance(CHAIN, state(nodes, pods), WISHES)
    assert plan.most_cordoned >= 3 * CONCURRENT_CORDONS
    now, most, cordon = set(), [0], world.cordon

    async def slowly(name, annotations, *, closed):
        now.add(name)
        most[0] = max(most[0], len(now))
        await asyncio.sleep(0)
        await cordon(name, annotations, closed=closed)
        now.remove(name)

    world.cordon = slowly
    assert carried_out(world, plan).stopped is None
    assert most == [CONCURRENT_CORDONS]
    assert world.closed() == set()


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


def test_a_pod_that_is_deleted_while_nodes_are_cordoned_for_it_stops_the_plan(world, plan):
    def before_write(what, name):
        if what == "cordon":
            world.live.delete("Pod", decode.convert(PODS[0], objects.Pod))

    world.before_write = before_write
    done = carried_out(world, plan)
    assert done.stopped == "pod default/one is gone, or being deleted"
    assert (done.changed, world.closed()) == (False, set())


def test_a_node_whose_cordon_was_refused_does_not_count_as_cordoned(world, plan):
    def before_write(what, _name):
        raise WriteFailed(f"may not {what}", retriable=False)

    world.before_write = before_write
    done = carried_out(world, plan)
    assert (done.stopped, done.closed, done.changed) == ("cordoning node a: may not cordon", (), False)


def test_the_reason_of_a_wait_is_reported_once(world, plan):
    reported = []
    world.refuse = [None, *[WriteFailed("budget")] * 3]
    assert carried_out(world, plan, report=reported.append).stopped is None
    assert reported[0] == "evicting default/one: budget; trying again for 300 s"
    assert len(reported) == 1 + len(plan.moves)


def cancelled(world, plan, what):
    """The result of a plan that is cancelled before the first write of a kind, with what was reported."""
    reported = []

    async def run():
        task = asyncio.ensure_future(carrying(world, report=reported.append).run(plan.moves))
        world.before_write = lambda writing, _name: task.cancel() if writing == what and task.cancelling() == 0 and not reported else None
        return await task

    return asyncio.run(run()), reported


@pytest.mark.parametrize(
    ("what", "said", "evicted"),
    [
        ("cordon", "no evicted pod is without a replacement", 0),
        ("evict", "pod default/one was evicted, and its replacement is not waited for", 1),
    ],
)
def test_a_plan_that_is_cancelled_opens_its_nodes_and_says_what_it_leaves(world, plan, what, said, evicted):
    world.creates = what != "evict"
    done, reported = cancelled(world, plan, what)
    assert (done.cancelled, done.stopped, done.evicted) == (True, said, evicted)
    assert world.closed() == set()
    assert reported == ["opening 1 cordoned node"]


def test_a_plan_that_is_cancelled_twice_names_the_nodes_that_stay_cordoned(world, plan):
    reported = []

    async def run():
        task = asyncio.ensure_future(carrying(world, report=reported.append).run(plan.moves))

        def before_write(what, _name):
            if what in {"evict", "open"}:
                task.cancel()
                raise WriteFailed("no answer")

        world.before_write = before_write
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert reported[-1] == "still cordoned: a; open them with wharf rebalance --live --undo-cordons"


def test_a_plan_that_opens_the_cordon_of_an_administrator_is_not_carried_out(world, plan):
    world.live.upsert("Node", cordoned(world.nodes["c"]))
    moves = [structs.replace(plan.moves[0], uncordon=("c",)), *plan.moves[1:]]
    done = asyncio.run(carrying(world, exact=True).run(moves))
    assert not done.changed
    assert world.writes == []
    assert "c" in world.closed()


def test_a_plan_whose_pod_has_another_name_is_refused(world, plan):
    moves = [structs.replace(plan.moves[0], pod="default/other"), *plan.moves[1:]]
    assert carrying(world).reason_to_stop(moves) == "the pod of uid uid-one is default/one, not default/other as planned"


def rehearsed(world, plan, before_write):
    """The numbers of moves of each rehearsal, while the plan is carried out on a cluster where something else happens."""
    carrier = carrying(world)
    reason_to_stop, found = carrier.reason_to_stop, []

    def counted(moves):
        found.append(len(moves))
        return reason_to_stop(moves)

    carrier.reason_to_stop = counted
    world.before_write = before_write
    done = asyncio.run(carrier.run(plan.moves))
    return found, done


def beside(name, **more):
    """A pod that no plan moves, on a node that no plan empties."""
    return decode.convert(pod(name, on="c", requests={"cpu": "100m"}, **more), objects.Pod)


def heartbeat(node):
    """The node as it is written again without a change."""
    return structs.replace(node, metadata=structs.replace(node.metadata, resource_version="again"))


@pytest.mark.parametrize(
    ("change", "rehearsals"),
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
def test_the_rest_is_rehearsed_only_if_something_else_has_changed(world, plan, change, rehearsals):
    found, _ = rehearsed(world, plan, lambda what, name: change(world.live) if (what, name) == ("evict", "one") else None)
    assert found == rehearsals


def test_a_node_that_somebody_opens_or_cordons_has_the_rest_rehearsed(world, plan):
    opened = rehearsed(world, plan, lambda what, name: world.live.upsert("Node", world.nodes["a"]) if what == "evict" else None)
    assert opened[0] == [2, 1]


def test_the_decisions_of_a_plan_grow_with_its_moves_alone():
    nodes = [node("z", offer={"cpu": "64"}), *(node(f"n{number}") for number in range(24))]
    pods = [owned(f"p{number}", on=f"n{number}", cpu="1") for number in range(24)] + [pod("big", on="z", requests={"cpu": "1"})]
    world = World(nodes, pods)
    plan = rebalance(CHAIN, state(nodes, pods), WISHES)
    assert len(plan.moves) == 24
    carrier = carrying(world)
    assert asyncio.run(carrier.run(plan.moves)).stopped is None
    assert carrier._draft.decisions == 2 * 24 - 1


def test_another_rebalance_that_begins_at_the_same_time_stops_the_plan(world, plan):
    def other(what, name):
        if what == "evict":
            world.live.upsert("Node", closed_by(world.nodes["c"], {CORDONED_BY: "another"}))

    found, done = rehearsed(world, plan, other)
    assert found == [2, 1]
    assert "still cordoned by another rebalance (another): c" in done.stopped
