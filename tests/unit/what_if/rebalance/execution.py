"""A cluster with controllers and a scheduler in memory, on which plans of moves are carried out."""

import asyncio
import copy

import hypothesis.strategies as st
from msgspec import structs

from tests.unit.framework.kube import node, pod
from tests.unit.what_if.rebalance.test_plan import GPU, MILLI, asking, owned
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.what_if.leaving_pods import MARKED, cordoned
from wharfinger.what_if.rebalance.plan import Goal, Move, PlanOptions
from wharfinger.what_if.rebalance.plan_execution import PlanExecution
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
        self.ending = None  # the pods that are marked as deleted and still there; None: evicted pods are gone at once
        self.chain = CHAIN
        self.writes = []
        self.before_write = lambda what, name: None

    async def evict(self, pod):
        self._writing("evict", pod.name)
        if self.ending is None:
            self.live.delete("Pod", pod.object)
        else:
            self.ending.append(pod.with_deletion(MARKED).object)
            self.live.upsert("Pod", self.ending[-1])
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


def carrying(world, **how):
    return PlanExecution(CHAIN, how.pop("plan_options", WISHES), world.live, world, Clock(), **how)


def carried_out(world, plan, **how):
    return asyncio.run(carrying(world, **how).run(plan.moves))


def reason_to_stop(world, moves, **how):
    return asyncio.run(carrying(world, **how).reason_to_stop(moves))


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


def step(name, target, *, cordon=(), uncordon=()):
    goal, key = Goal.POINTS, f"default/{name}"
    return Move(pod=key, uid=f"uid-{name}", source="a", target=target, goal=goal, why="", gain=1, ties=1, cordon=cordon, uncordon=uncordon)


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


def not_placed(world, plain):
    """Take the node from a pod: the plan was made as if the scheduler would place it first."""
    world.live.delete("Pod", decode.convert(plain, objects.Pod))
    world.live.upsert("Pod", decode.convert({**plain, "spec": {**plain["spec"], "nodeName": ""}}, objects.Pod))


def deleted(one):
    one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def cancelled(world, plan, what):
    """The result of a plan that is cancelled before the first write of a kind, with what was reported."""
    reported = []

    async def run():
        task = asyncio.ensure_future(carrying(world, report=reported.append).run(plan.moves))
        world.before_write = lambda writing, _name: task.cancel() if writing == what and task.cancelling() == 0 and not reported else None
        return await task

    return asyncio.run(run()), reported
