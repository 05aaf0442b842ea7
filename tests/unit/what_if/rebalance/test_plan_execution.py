"""A plan is carried out move by move on a cluster with controllers and a scheduler, and stops if the cluster has changed."""

import asyncio
import copy
from collections import Counter
from datetime import UTC, datetime

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import structs

from tests.unit.compiler.texts import compiled
from tests.unit.framework.kube import node, pod, state
from tests.unit.what_if.rebalance.test_plan import GPU, MILLI, asking, owned
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.ports import WriteFailed
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.what_if.leaving_pods import cordoned
from wharfinger.what_if.rebalance.movable import Limits
from wharfinger.what_if.rebalance.move_check import CORDONED_BY, bundles, left_cordons
from wharfinger.what_if.rebalance.plan import Goal, Move, PlanOptions, rebalance, value_of
from wharfinger.what_if.rebalance.plan_execution import CONCURRENT_CORDONS, PlanExecution
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
    `chain` has the rules of the scheduler.
    """

    def __init__(self, nodes, pods):
        self.live = WatchedCluster()
        self.plain = {pod["metadata"]["uid"]: pod for pod in pods}
        self.nodes = {each["metadata"]["name"]: decode.convert(each, objects.Node) for each in nodes}
        self.live.replace("Node", list(self.nodes.values()))
        self.live.replace("Pod", [decode.convert(pod, objects.Pod) for pod in pods])
        self.refuse = []
        self.creates = True
        self.chain = CHAIN
        self.writes = []
        self.before_write = lambda what, name: None

    async def evict(self, pod):
        self._writing("evict", pod.name)
        self.live.delete("Pod", pod.object)
        if self.creates:
            self._create(copy.deepcopy(self.plain.pop(pod.uid)))

    async def set_cordon(self, node, annotations, *, cordoned):
        self._writing("cordon" if cordoned else "uncordon", node)
        self.live.upsert("Node", cordoned_by(self.nodes[node], annotations) if cordoned else self.nodes[node])

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
        plain["spec"]["nodeName"] = decide(self.chain, self.live.state.snapshot(), self.live.pods[pending.metadata.uid]).node or ""
        self.plain[plain["metadata"]["uid"]] = plain
        self.live.upsert("Pod", decode.convert(plain, objects.Pod))

    def cordoned(self):
        snapshot = self.live.state.snapshot()
        return {name for name, cordoned in zip(snapshot.names, snapshot.unschedulable, strict=True) if cordoned}


def cordoned_by(node, annotations):
    """The node, cordoned, with these annotations."""
    return structs.replace(cordoned(node), metadata=structs.replace(node.metadata, annotations=annotations))


NODES = [node("a"), node("b"), node("c", offer={"cpu": "8"})]
PODS = [owned("one", cpu="1"), owned("two", on="b", cpu="1"), pod("three", on="c", requests={"cpu": "1"})]
OWN = f"ReplicaSet default/{PODS[0]['metadata']['ownerReferences'][0]['name']}"
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


def reason_to_stop(world, moves, **how):
    return asyncio.run(carrying(world, **how).reason_to_stop(moves))


def test_every_move_is_made_and_all_nodes_are_open_at_the_end(world, plan):
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


def not_placed(world, plain):
    """Take the node from a pod: the plan was made as if the scheduler would place it first."""
    world.live.delete("Pod", decode.convert(plain, objects.Pod))
    world.live.upsert("Pod", decode.convert({**plain, "spec": {**plain["spec"], "nodeName": ""}}, objects.Pod))


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


SHARES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["100", "300", "400", "600", "700"])), min_size=4, max_size=18)


def of_shares(shares):
    """Six nodes with two GPUs each, and pods with shares of them, as far as there is room."""
    nodes = [node(f"n{i}", offer={"cpu": "8", GPU: "2", MILLI: "2000"}) for i in range(6)]
    room = dict.fromkeys(range(6), 2000)
    pods = []
    for number, (place, share) in enumerate(shares):
        if room[place] >= int(share):
            room[place] -= int(share)
            pods.append(asking(f"p{number}", f"n{place}", {MILLI: share}))
    return nodes, pods


@given(SHARES, st.sampled_from([Goal.FREE_NODES, Goal.FREE_GPUS, Goal.POINTS]))
@settings(max_examples=12, deadline=None)
def test_a_plan_holds_on_the_cluster_that_it_was_made_for(shares, goal):
    nodes, pods = of_shares(shares)
    plan_options = PlanOptions(goals=(goal,))
    plan = rebalance(CHAIN, state(nodes, pods), plan_options)
    assert reason_to_stop(World(nodes, pods), plan.moves, plan_options=plan_options, exact=True) is None


def step(name, target, *, cordon=(), uncordon=()):
    goal, key = Goal.POINTS, f"default/{name}"
    return Move(pod=key, uid=f"uid-{name}", source="a", target=target, goal=goal, why="", gain=1, ties=1, cordon=cordon, uncordon=uncordon)


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


def test_a_node_whose_cordon_was_refused_does_not_count_as_cordoned(world, plan):
    def before_write(what, _name):
        raise WriteFailed(f"may not {what}", retriable=False)

    world.before_write = before_write
    done = carried_out(world, plan)
    assert (done.stopped, done.still_cordoned, done.changed) == ("cordoning node a: may not cordon", (), False)


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


def test_a_plan_that_opens_the_cordon_of_an_administrator_is_not_carried_out(world, plan):
    world.live.upsert("Node", cordoned(world.nodes["c"]))
    moves = [structs.replace(plan.moves[0], uncordon=("c",)), *plan.moves[1:]]
    done = asyncio.run(carrying(world, exact=True).run(moves))
    assert not done.changed
    assert world.writes == []
    assert "c" in world.cordoned()


def test_a_plan_whose_pod_has_another_name_is_refused(world, plan):
    moves = [structs.replace(plan.moves[0], pod="default/other"), *plan.moves[1:]]
    assert reason_to_stop(world, moves) == "the pod of uid uid-one is default/one, not default/other as planned"


def checked(world, plan, before_write):
    """The numbers of moves of each check, while the plan is carried out on a cluster where something else happens."""
    carrier = carrying(world)
    tried, found = carrier._move_check._tried, []

    def counted(steps, **how):
        found.append(len(steps))
        return tried(steps, **how)

    carrier._move_check._tried = counted
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


def test_a_node_that_another_client_opens_or_cordons_has_the_rest_checked_again(world, plan):
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


# ── what is left out while the plan goes on ──


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


def deleted(one):
    one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


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
def test_a_pod_is_asked_right_before_its_eviction_whether_it_may_move(larger, change, why):
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
        done.stopped == "pod default/two-again got e, and the policies and settings of this plan choose c: the scheduler decides by others"
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


# ── checks in steps ──


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
