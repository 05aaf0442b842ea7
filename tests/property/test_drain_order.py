"""A drain ends as it says: its steps are carried out by a scheduler on a cluster in memory, and every pod is where the plan says."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

import wharfinger
from tests import local_volumes
from tests.cluster.what_if_scenarios import OVERHEAD, POLICY, PRIORITIES, DrainScenario
from tests.unit.scheduler.running import Running, scheduling
from wharfinger.event_loop import Backoff
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.scheduler.queue.sub_queues import QueueSettings
from wharfinger.scheduler.scheduler import SchedulerSettings
from wharfinger.what_if.leaving_pods import cordoned, recreated

OWNERS = {"StatefulSet": "uid-of-set", "DaemonSet": "uid-of-agents"}
ORDERS = 2
BACKOFF = 20.0
OTHERS = (objects.PersistentVolume, objects.PersistentVolumeClaim, objects.StorageClass, objects.ResourceSlice, objects.PodGroup)
CREATED = "2026-01-01T00:{:02d}:00Z"


def written(folder: Path, one: DrainScenario) -> Path:
    """The file with the cluster of a scenario, as the API server would give it."""
    items = [
        *one.nodes,
        *one.others,
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": local_volumes.CLASS}},
    ]
    items[-1] |= {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    for number, (name, pod) in enumerate(one.pods.items()):
        spec = {**pod["spec"], "priority": PRIORITIES.get(pod["spec"].get("priorityClassName", ""), 0), "preemptionPolicy": "Never"}
        spec |= {"overhead": {"cpu": f"{OVERHEAD}m"}} if "runtimeClassName" in spec else {}
        spec.pop("resourceClaims", None)
        metadata = {**pod["metadata"], "uid": f"uid-{name}", "creationTimestamp": CREATED.format(number)}
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Running"} if "nodeName" in spec else {"phase": "Pending", "conditions": [tried]}
        items.append({**pod, "kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status})
    for budget in one.budgets:
        wanted, least = budget["spec"]["selector"].get("matchLabels", {}), budget["spec"]["minAvailable"]
        covered = [pod for pod in one.pods.values() if "nodeName" in pod["spec"] and wanted.items() <= pod["metadata"]["labels"].items()]
        status = {"currentHealthy": len(covered), "desiredHealthy": least, "disruptionsAllowed": max(0, len(covered) - least)}
        items.append({**budget, "status": status})
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return path


class CarriedOut:
    """A drain that a scheduler in memory carries out. Its steps are those of the plan; the order of evictions in a step is drawn.

    The scheduler tries the pods that wait when a pod is marked as deleted, and when it is gone. `pause` is the time between two steps in
    seconds: the backoffs of rejected pods have ended then, or none has.
    """

    def __init__(self, policies, cluster, draw, pause):
        queue = QueueSettings(backoff=Backoff(initial=BACKOFF, maximum=BACKOFF), longest_wait=1e9)
        self.world = Running({"wharfinger": assemble(policies)}, SchedulerSettings(queue=queue))
        self.cluster = self.world.cluster
        self.draw = draw
        self.pause = pause
        self.pods = {pod.key: pod for pod in cluster.pending} | {pod.key: pod for pod, _ in cluster.state.placements()}
        self.nodes = {node.metadata.name: node for node in cluster.state.nodes_listed()[2]}
        for obj in (*self.nodes.values(), *(obj for kind in OTHERS for obj in cluster.state.objects.all(kind))):
            self.cluster.put(obj)

    async def run(self, one, predict):
        """The nodes that pods have in the end, and the plan."""
        for pod in self.pods.values():
            if pod.node_name:
                self.create(pod)
        async with scheduling(self.world):
            for key in sorted(key for key, pod in self.pods.items() if not pod.node_name):
                self.create(self.pods[key])
            await self.settle()
            predicted = predict({key.partition("/")[2]: node for key, node in self.cluster.nodes_of_pods().items()})
            for name in one.drained:
                self.cluster.put(cordoned(self.nodes[name]))
            await self.settle()
            for step in range(1, predicted.steps + 1):
                await self.do([pod for pod in predicted.pods if pod.step == step])
        assert not self.world.seen.failures
        return self.cluster.nodes_of_pods(), predicted

    async def do(self, leaving):
        """Evict the pods of a step, and create those again that have a controller."""
        for pod in self.draw.sample(leaving, len(leaving)):
            there = self.cluster.pod(pod.pod)
            self.cluster.put(replace(there, metadata=replace(there.metadata, deletion_timestamp=datetime.fromtimestamp(0, UTC))))
            await self.world.calm()
            self.cluster.remove("Pod", pod.pod)
            if self.draw.random() < 0.5:
                await self.world.calm()
        await self.settle()
        self.cluster.lagging = True  # they are created at the same time
        for pod in leaving:
            if pod.placement is not None:
                self.create(recreated(self.pods[pod.pod], None), again=True)
        self.cluster.lagging = False
        self.cluster.catch_up()
        await self.settle()

    def create(self, pod, *, again=False):
        metadata = replace(pod.object.metadata, uid=f"{pod.uid}-again") if again else pod.object.metadata
        self.cluster.put(replace(pod.object, metadata=metadata, spec=replace(pod.object.spec, scheduler_name="wharfinger")))

    async def settle(self):
        await self.world.calm()
        self.world.clock.move(self.pause)
        await self.world.calm()


@pytest.mark.parametrize("pause", [0.0, 2 * BACKOFF], ids=["in backoff", "after the backoffs"])
@pytest.mark.parametrize("seeds", [range(20), range(20, 40), (99, 143, 425, 1633, 710045, 910415)], ids=str)
def test_every_pod_is_where_the_plan_says(tmp_path, seeds, pause):
    (tmp_path / "one.policy").write_text(POLICY)
    policies = wharfinger.load_policies(tmp_path / "one.policy")
    for seed in seeds:
        one = DrainScenario("default", seed)
        one.draw(random.Random(seed), OWNERS)
        drawn = copy.deepcopy(one.pods)

        def predict(nodes, one=one):
            """The drain of the cluster as it is once the scheduler has placed what it can."""
            for name, node in nodes.items():
                one.pods[name]["spec"]["nodeName"] = node
            cluster = wharfinger.load_snapshot(written(tmp_path, one))
            return wharfinger.drain(policies, cluster, one.drained, pods=cluster.pending, **one.options)

        for order in range(ORDERS):
            one.pods = copy.deepcopy(drawn)
            cluster = wharfinger.load_snapshot(written(tmp_path, one))
            nodes, predicted = asyncio.run(CarriedOut(policies, cluster, random.Random(order), pause).run(one, predict))
            wanted = {pod.pod: pod.node for pod in predicted.pods if pod.placement is not None}
            assert {name: nodes.get(name) for name in wanted} == wanted, (seed, order)
