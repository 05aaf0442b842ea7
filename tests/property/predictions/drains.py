"""Drains that are predicted and then carried out on a cluster in memory, step by step."""

from __future__ import annotations

import random

from msgspec.structs import replace

import wharfinger
from tests.property.predictions.drawn_cluster import DrawnCluster
from tests.property.predictions.world import (
    BACKOFF,
    CREATES_AT_THE_MARK,
    CREATES_LATER,
    CREATES_WHEN_GONE,
    MARKED,
    World,
    at_work,
    owner_of,
)
from wharfinger.model import objects
from wharfinger.scheduler.queue.hints import timed
from wharfinger.what_if.drain.answer import Drain, DrainOutcome
from wharfinger.what_if.leaving_pods import cordoned

MOST_ROUNDS = 20
"""The backoffs that are let pass after a change: pods may evict each other again and again."""


class DrainedWorld(World):
    """A world in which a drain is carried out: steps as predicted, and within a step in an order that is drawn."""

    def __init__(self, drawn: DrawnCluster, policies, pause: float, order: int) -> None:
        super().__init__(drawn, policies, pause)
        self.order = random.Random(order)
        self.problems: list[str] = []
        self.marked: set[str] = set()  # uids that the drain has marked, and that are not gone yet

    def is_kept(self, pod):
        """True for pods that the drain has marked: they go when the step says so."""
        return pod.metadata.uid in self.marked

    async def settle(self) -> None:
        """Let everything happen that happens without others, also once pods are tried again that wait for time to pass."""
        await super().settle()
        for _ in range(MOST_ROUNDS):
            if not any(timed(waiting.rejectors) for waiting in (*self.scheduler.queue, *self.scheduler.queue.groups)):
                return
            before = self.places()
            self.clock.move(2 * BACKOFF)
            self.measure()
            await self.controlled()
            if self.places() == before:
                return

    async def carry_out(self, nodes, options) -> Drain:
        """The plan of the drain, after it was carried out."""
        policies = self.scheduler.profiles["wharfinger"].chain.policies
        cluster = self.capture()
        plan = wharfinger.drain(policies, cluster, nodes, pods=cluster.pending, **options)
        for name in nodes:
            node = self.cluster.everything()["Node"][name]
            self.cluster.put(cordoned(node))
        await self.settle()
        for step in range(1, plan.steps + 1):
            await self.do([pod for pod in plan.pods if pod.step == step and pod.displaced_by is None], step, plan)
        for pod in plan.of(DrainOutcome.FORBIDDEN):
            there = self.there(pod.pod)
            if there is not None and self.evictable(there):
                self.problems.append(f"{pod.pod}: its eviction is predicted to be forbidden ({pod.reason}), and it is allowed")
        return plan

    def there(self, key: str) -> objects.Pod | None:
        """The pod of that `namespace/name`, None if there is none."""
        return self.cluster.everything()["Pod"].get(key)

    async def do(self, leaving, step, plan) -> None:
        """Do one step of the plan."""
        rank = {pod.pod: place for place, pod in enumerate(leaving)}
        pods = []
        for pod in self.order.sample(leaving, len(leaving)):
            there = self.there(pod.pod)
            if there is None:
                self.problems.append(f"{pod.pod} is not there in step {step}")
                continue
            if not self.evictable(there):
                self.problems.append(f"{pod.pod} is refused in step {step}")
            pods.append(there)
            self.marked.add(there.metadata.uid)
            self.cluster.put(replace(there, metadata=replace(there.metadata, deletion_timestamp=MARKED)))
            self.count_budgets()
        if not any(pod.alone for pod in leaving):
            sources = {pod.source for pod in leaving}
            for pod in plan.pods:
                there = self.there(pod.pod) if pod.source in sources and (pod.step or 0) > step and pod.displaced_by is None else None
                if there is not None and there.metadata.uid not in self.marked and self.evictable(there):
                    self.problems.append(f"{pod.pod}: its eviction is predicted for step {pod.step}, and allowed in step {step}")
        pods = sorted((self.cluster.pod(objects.key_of(pod)) for pod in pods), key=lambda pod: rank[objects.key_of(pod)])
        await self.calm()
        self.create_again([pod for pod in pods if owner_of(pod) in CREATES_AT_THE_MARK])
        await self.controlled()
        for pod in self.order.sample(pods, len(pods)):
            self.gone(pod)
            self.marked.discard(pod.metadata.uid)
            if self.order.random() < 0.5:
                await self.controlled()
        await self.controlled()  # these controllers are faster than the backoffs of pods that wait for time to pass
        self.create_again([pod for pod in pods if owner_of(pod) in CREATES_WHEN_GONE])
        await self.settle()
        self.create_again([pod for pod in pods if owner_of(pod) in CREATES_LATER])
        await self.settle()

    def compare(self, plan: Drain, before: dict[str, str | None]) -> list[str]:
        """The pods that are not where they were predicted."""
        found, now = list(self.problems), self.places()
        predicted = {pod.pod.partition("/")[2].partition(".")[0]: pod for pod in plan.pods}
        for name, was in before.items():
            pod = predicted.get(name)
            if pod is None:
                wanted = was
            elif pod.outcome is DrainOutcome.GONE:
                if name in now:
                    found.append(f"{name} was predicted to be gone and is on {now[name]}")
                continue
            else:
                wanted = pod.node if pod.placement is not None else pod.source
            if name not in now or now[name] != wanted:
                said = "" if pod is None else f"{pod.outcome.value} in step {pod.step}: {pod.reason}"
                found.append(f"{name} of {was}: predicted {wanted} {said}, found {now.get(name, 'gone')}")
        return found


async def drain_problems(drawn: DrawnCluster, policies, pause: float, order: int) -> tuple[Drain, list[str]]:
    """The plan of a random drain, and what was not as it says."""
    draw = random.Random(drawn.seed)
    names = sorted(node.metadata.name for node in drawn.nodes)
    nodes = draw.sample(names, draw.randint(1, min(2, len(names) - 1)))
    options = {"force": draw.random() < 0.7, "delete_empty_dir_data": draw.random() < 0.7}
    world = DrainedWorld(drawn, policies, pause, order)
    async with at_work(world):
        before = world.places()
        plan = await world.carry_out(nodes, options)
        return plan, world.compare(plan, before)
