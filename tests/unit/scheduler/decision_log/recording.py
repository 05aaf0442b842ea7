"""A scheduler on a cluster in memory that records what it decides, for the tests of this folder."""

import asyncio
import random
import time
from contextlib import contextmanager

import numpy as np
import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import Running, node, pod, scheduling
from tests.unit.scheduler.test_groups_live import gang, members
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.ports import BindFailed
from wharfinger.model import objects
from wharfinger.model.columns.metric_table import MetricColumn
from wharfinger.scheduler.decision_log import files
from wharfinger.scheduler.decision_log.files import LogWriter
from wharfinger.scheduler.decision_log.recorder import DecisionRecorder
from wharfinger.scheduler.events import Decided
from wharfinger.simulate.replay import Replay

FIRST = """
policy "mix"
param most: count = 6
metric busy: percent = prometheus("busy", max_age: 1h, min_coverage: 10%)
let here = count(pods where (it.labels["app"] ?? "") == (pod.labels["app"] ?? "-"), on: node)
filter few { require here < most else "runs {here} of them" }
score idle weight 2 = curve(busy, 0% -> 100, 100% -> 0) on missing neutral
score apart weight 3 = -here normalize minmax
"""
SECOND = FIRST.replace("weight 3 = -here", "weight 30 = here")


@contextmanager
def recorder(path, *, max_bytes=2**30, max_files=8):
    """(the recorder, what failed); everything is written when the context ends, and what happens is hardly gathered before."""
    failures = []
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(files, "BATCH_SECONDS", 0.001)
        writer = LogWriter(str(path), max_bytes=max_bytes, max_files=max_files, failed=failures.append)
        try:
            yield DecisionRecorder(writer), failures
        finally:
            writer.close()


class Recorded(Running):
    """A running scheduler that is recorded, in a cluster that changes."""

    def __init__(self, recording, text=FIRST, seed=1):
        super().__init__({"wharfinger": assemble([policy(text)])}, state=recording.state)
        self.writer = recording._writer
        self.decisions = []
        self.subscribers.subscribe(recording.handlers)
        self.subscribers.subscribe({Decided: lambda event: self.decisions.append((event.decision.pod.key, event.decision.node))})
        self.chance = random.Random(seed)
        self.n_pods = self.n_nodes = 0

    def grow(self):
        self.n_nodes += 1
        zone = f"z{self.n_nodes % 3}"
        self.cluster.put(node(f"n{self.n_nodes:03}", cpu=self.chance.choice(["2", "4", "8"]), labels={"zone": zone}))

    def arrive(self, **more):
        self.n_pods += 1
        labels = {"app": self.chance.choice("abc")}
        cpu = self.chance.choice(["250m", "1", "2"])
        self.cluster.put(pod(f"p{self.n_pods:04}", cpu=cpu, priority=self.chance.choice([0, 0, 0, 100]), labels=labels, **more))

    def leave(self):
        there = self.cluster.nodes_of_pods()
        if there:
            self.cluster.remove("Pod", self.chance.choice(sorted(there)))

    def lose_node(self):
        names = sorted(self.cluster._objects["Node"])
        if len(names) > 3:
            self.cluster.remove("Node", self.chance.choice(names))

    def relabel(self):
        name = self.chance.choice(sorted(self.cluster._objects["Node"]))
        there = self.cluster._objects["Node"][name]
        metadata = replace(there.metadata, labels={**there.metadata.labels, "disk": self.chance.choice(["ssd", "hdd"])})
        self.cluster.put(replace(there, metadata=metadata, spec=replace(there.spec, unschedulable=self.chance.random() < 0.1)))

    def measure(self):
        names = [f"n{number:03}" for number in range(1, self.n_nodes + 2)]
        samples = {name: (self.chance.random(), self.clock.now()) for name in names if self.chance.random() < 0.8}
        state = self.scheduler.state
        if self.chance.random() < 0.5:
            state.set_metric("busy", samples)
        else:  # as measurements come in: with their column made beside
            layout, there, _ = state.nodes_listed()
            values, times = np.array([samples.get(name, (np.nan, np.nan)) for name in there]).T
            state.put_metric("busy", MetricColumn(values=values, times=times, present=~np.isnan(values)), samples, layout)

    def serve(self):
        """A service that comes, changes or goes: it spreads the pods of its app."""
        key = f"default/{(app := self.chance.choice('abc'))}"
        there = self.cluster._objects.get("Service", {})
        if key in there and self.chance.random() < 0.5:
            self.cluster.remove("Service", key)
        else:
            metadata = objects.ObjectMeta(name=app, namespace="default", uid=f"svc-{app}")
            self.cluster.put(objects.Service(metadata=metadata, spec=objects.ServiceSpec(selector={"app": app})))

    def refuse(self, _pod, _node):
        """Now and then a binding is not written."""
        if self.chance.random() < 0.1:
            raise BindFailed("the server is busy")

    def keep_pace(self):
        """Wait for the disk: time passes here as fast as the tests run, and files are to begin all along."""
        while self.writer._entries or self.writer._content:
            time.sleep(0.001)

    async def churn(self, rounds, change):
        """The given number of rounds of everything that happens in a cluster; in the middle, a change."""
        self.cluster.before_bind = self.refuse
        for _ in range(8):
            self.grow()
        self.cluster.connect(self.scheduler.sink)
        scheduling = asyncio.ensure_future(self.scheduler.run())
        changes = [self.arrive] * 12 + [self.leave] * 2 + [self.relabel, self.measure, self.grow, self.lose_node, self.serve]
        for number in range(rounds):
            if change is not None and number == rounds // 2:
                change(self)
            for _ in range(5):
                self.chance.choice(changes)()
            await self.calm()
            await self.pass_time(1.0)
            self.keep_pace()
        self.scheduler.stop()
        await self.calm()
        await scheduling


def recorded(path, rounds=40, change=None, **how):
    """The pods and nodes of every decision of a scheduler that was recorded; `change` is called with it in the middle."""
    with recorder(path, **how) as (recording, failures):
        running = Recorded(recording)

        asyncio.run(running.churn(rounds, change))
    assert not failures
    return running


def record_groups(path, n_single):
    """Record how a gang of three is placed on node `a`, one has no place, and some single pods are placed after them."""

    async def story():
        with recorder(path) as (recording, failures):
            world = Recorded(recording)
            world.cluster.put(node("a", "4"))
            async with scheduling(world):
                for thing in (gang("g", 3), *members("g", 3), gang("big", 2), *members("big", 2, "9")):
                    world.cluster.put(thing)
                await world.pass_time(2)
                for number in range(n_single):
                    world.cluster.put(pod(f"single-{number}", "250m"))
                    await world.pass_time(1)
            assert failures == []

    asyncio.run(story())


def replayed(path, **more):
    replay = Replay(str(path), **more)
    return list(replay.run()), replay.notes
