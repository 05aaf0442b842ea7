"""Pods under a costly policy of their namespace: the pods of other namespaces do not wait for all of them."""

import asyncio
from collections import Counter

import msgspec
import pytest

from tests.in_memory import ManualClock
from tests.unit.policies.slow_rules import slow_rule
from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import gang, members
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import assemble
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.policies.budget import BudgetSettings
from wharfinger.scheduler.profiles import Profile
from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduler.queue.time_shares import MAX_WAIT, SHARE, USUAL_SECONDS, TimeShares
from wharfinger.scheduler.queued_pods import Place
from wharfinger.scheduler.scheduler import SchedulerSettings

COSTLY = 0.015
"""Seconds of a decision: within the budget of a policy."""
OWN = Authority(namespace="default")
SCOPE = 'for pods where (pod.labels["team"] ?? "") == "costly"'


class Costly:
    """A chain with one policy, whose filter takes a while by the clock of the test."""

    def __init__(self, authority, seconds=COSTLY):
        self.chain = assemble([policy(f'policy "costly"\n{SCOPE}\nfilter f {{ require node.pod_count < 1000 else "full" }}', authority)])
        self.seconds = seconds
        self.clock = ManualClock()
        self.asked = 0
        slow_rule(self.chain.rules[0].filters[0], "prepare_filter", ("bits", "bits_at"), self.take)

    def timer(self):
        return self.clock.monotonic()

    def take(self):
        self.asked += 1
        self.clock.move(self.seconds)


def costly_pod(name, **more):
    return pod(name, cpu="1m", labels={"team": "costly"}, **more)


def elsewhere(name, **more):
    other = pod(name, cpu="1m", **more)
    return msgspec.structs.replace(other, metadata=msgspec.structs.replace(other.metadata, namespace="other"))


def placed(world, namespace):
    return {key for key in world.cluster.nodes_of_pods() if key.startswith(f"{namespace}/")}


def story(scenario, authority=OWN, seconds=COSTLY):
    async def run():
        costly = Costly(authority, seconds)
        settings = SchedulerSettings(budget=BudgetSettings(timer=costly.timer))
        nodes = [node(name, cpu="64") for name in "ab"]
        async with running(*nodes, chains={"wharfinger": costly.chain}, settings=settings) as world:
            costly.clock = world.clock
            await scenario(world, costly)

    asyncio.run(run())


async def decided_before(world, costly, n_others):
    """The costly decisions until this number of pods of the other namespace is placed."""
    for _ in range(300):
        if len(placed(world, "other")) == n_others:
            return costly.asked
        await asyncio.sleep(0)
    raise AssertionError(f"{len(placed(world, 'other'))} of {n_others} are placed")


async def until_all(world, namespace, count):
    for _ in range(50):
        await world.calm()
        if len(placed(world, namespace)) == count:
            return
    raise AssertionError(f"{len(placed(world, namespace))} of {count} are placed")


def test_pods_of_other_namespaces_do_not_wait_for_all_pods_under_a_costly_policy():
    async def scenario(world, costly):
        for number in range(60):
            world.cluster.put(costly_pod(f"p{number}"))
        for number in range(5):
            world.cluster.put(elsewhere(f"q{number}"))
        assert await decided_before(world, costly, 5) < 60 / 4
        await until_all(world, "default", 60)  # nothing else is ready: at once

    story(scenario)


@pytest.mark.parametrize(("authority", "seconds"), [(CLUSTER, COSTLY), (OWN, USUAL_SECONDS)], ids=["of the cluster", "quick"])
def test_other_policies_do_not_change_the_order(authority, seconds):
    async def scenario(world, costly):
        for number in range(30):
            world.cluster.put(costly_pod(f"p{number}"))
        world.cluster.put(elsewhere("q"))
        assert await decided_before(world, costly, 1) == 30

    story(scenario, authority, seconds)


def test_pods_of_the_namespace_that_the_policy_does_not_govern_keep_their_turn():
    async def scenario(world, costly):
        for number in range(30):
            world.cluster.put(costly_pod(f"p{number}"))
        world.cluster.put(pod("free", cpu="1m"))
        world.cluster.put(elsewhere("q"))
        await decided_before(world, costly, 1)
        assert "default/free" in placed(world, "default")

    story(scenario)


def test_a_group_under_a_costly_policy_lets_others_go_first():
    async def scenario(world, costly):
        for number in range(20):
            world.cluster.put(gang(f"g{number}", 2))
            for each in members(f"g{number}", 2, "1m", labels={"team": "costly"}):
                world.cluster.put(each)
        world.cluster.put(elsewhere("q"))
        before = await decided_before(world, costly, 1)
        await until_all(world, "default", 40)
        assert before < costly.asked / 4

    story(scenario)


class Contended:
    """A queue in which pods of `other` and of the costly namespaces are always ready; decisions take time by the clock of the test."""

    def __init__(self, *costly):
        text = 'filter f { require node.pod_count < 1000 else "full" }'
        self.clock = ManualClock()
        self.shares = TimeShares(self.clock.monotonic, ClusterState().snapshot)
        self.queue = SchedulingQueue(self.clock, ClusterState().snapshot, shares=self.shares)
        self.profile = Profile("wharfinger", assemble([policy(f'policy "{name}"\n{text}', Authority(namespace=name)) for name in costly]))
        self.spent = Counter()
        self.waited = dict.fromkeys((*costly, "other"), 0.0)
        for name in self.waited:
            for number in range(20):
                self.add(name, number)

    def add(self, namespace, number, **more):
        added = pod(f"{namespace}-{number}-{self.clock.monotonic()}", **more)
        metadata = msgspec.structs.replace(added.metadata, namespace=namespace)
        self.queue.add(PodView(msgspec.structs.replace(added, metadata=metadata)), self.profile)

    def decide(self):
        self.queue.flush()
        queued = self.queue.pop()
        namespace = queued.pod.namespace
        free, seconds = self.shares.free_seconds(queued), USUAL_SECONDS if namespace == "other" else COSTLY
        self.clock.move(seconds)
        self.spent[namespace] += seconds
        self.waited[namespace] = max(self.waited[namespace], self.clock.monotonic() - queued.first_seen)
        self.shares.took(queued, seconds - free)
        self.queue.done(queued)
        self.add(namespace, 0)
        return queued.pod


@pytest.mark.parametrize("costly", [["a"], ["a", "b", "c", "d"]], ids=len)
def test_costly_namespaces_use_their_share_together_and_each_a_part_of_it(costly):
    contended = Contended(*costly)
    while contended.clock.monotonic() < 60:
        contended.decide()
    parts = [contended.spent[name] / 60 for name in costly]
    assert SHARE / 2 < sum(parts) < SHARE + 0.05
    assert max(parts) < 1.5 * min(parts)


def test_a_pod_waits_for_its_turn_for_a_limited_time():
    contended = Contended("a")
    while contended.clock.monotonic() < 5:
        contended.decide()
    waiting = [queued.ready_at for queued in contended.queue if queued.place is Place.BACKOFF]
    assert waiting
    assert max(waiting) <= contended.clock.monotonic() + MAX_WAIT


def test_an_update_of_a_pod_does_not_give_it_a_turn():
    contended = Contended("a")
    while contended.clock.monotonic() < 5:
        contended.decide()
    waiting = next(queued for queued in contended.queue if queued.place is Place.BACKOFF)
    metadata = msgspec.structs.replace(waiting.pod.object.metadata, labels={"changed": "yes"})
    contended.queue.add(PodView(msgspec.structs.replace(waiting.pod.object, metadata=metadata)), contended.profile)
    assert waiting.place is Place.ACTIVE
    assert contended.shares.turn(waiting) is not None


def test_the_next_turn_of_a_namespace_is_that_of_its_most_urgent_pod():
    contended = Contended("a", "b")
    while contended.clock.monotonic() < 5:
        contended.decide()
    for number, priority in enumerate((10, 1000, 100)):
        contended.add("a", f"urgent{number}", priority=priority)
    order = []
    while len(order) < 4:
        decided = contended.decide()
        order += [decided.priority] if decided.namespace == "a" else []
    assert order == [1000, 100, 10, 0]
    while contended.clock.monotonic() < 20:
        contended.decide()
    assert contended.waited["a"] < 15
    assert len(contended.queue) == 63  # each pod that was decided has a successor


def test_pods_that_wait_for_turns_may_leave_in_any_way():
    contended = Contended("a")
    while contended.clock.monotonic() < 5:
        contended.decide()
    waiting = [queued for queued in contended.queue if queued.place is Place.BACKOFF]
    for queued in waiting[1:]:
        contended.queue.delete(queued.uid)
    for queued in [queued for queued in contended.queue if queued.pod.namespace == "other"]:
        contended.queue.delete(queued.uid)
    found = {contended.queue.pop().uid for _ in range(len(contended.queue))}
    assert waiting[0].uid in found
    assert contended.queue.pop() is None
