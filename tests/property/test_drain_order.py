"""A drain ends as it says however the evictions of one step interleave with the attempts to place pods that wait."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import wharfinger
from tests.cluster.what_if_scenarios import LOCAL, OVERHEAD, POLICY, PRIORITIES, DrainScenario
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.turns import Turn, groups_among
from wharfinger.simulate.placing import place_group, queue_order
from wharfinger.steps import at_once
from wharfinger.what_if.drain import DrainOutcome
from wharfinger.what_if.leaving_pods import cordoned, recreated
from wharfinger.what_if.supposed_changes import SupposedChanges, placed

OWNERS = {"StatefulSet": "uid-of-set", "DaemonSet": "uid-of-agents"}
ORDERS = 4
CREATED = "2026-01-01T00:{:02d}:00Z"


def written(folder: Path, one: DrainScenario) -> Path:
    """The file with the cluster of a scenario, as the API server would give it."""
    items = [*one.nodes, *one.others, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": LOCAL}}]
    items[-1] |= {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    for number, (name, pod) in enumerate(one.pods.items()):
        spec = {**pod["spec"], "priority": PRIORITIES.get(pod["spec"].get("priorityClassName", ""), 0), "preemptionPolicy": "Never"}
        spec |= {"overhead": {"cpu": f"{OVERHEAD}m"}} if "runtimeClassName" in spec else {}
        spec.pop("resourceClaims", None)
        metadata = {**pod["metadata"], "uid": f"uid-{name}", "creationTimestamp": CREATED.format(number)}
        status = {"phase": "Running" if "nodeName" in spec else "Pending"}
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
    """A drain that is carried out in memory: its steps are those of the plan, and the order of evictions in a step is drawn."""

    def __init__(self, chain, cluster, drained, predicted, draw):
        self.supposed = SupposedChanges(cluster.state)
        self.decider = Decider(chain)
        pods = {pod.key: pod for pod, _ in cluster.state.placements()} | {pod.key: pod for pod in cluster.pending}
        self.index = groups_among(chain, cluster.state, pods.values())
        self.waiting = []
        self.nodes = {}
        for name in drained:
            snapshot = cluster.state.snapshot()
            self.supposed.replace(cordoned(snapshot.node(snapshot.known_row(name)).object))
        for pod in queue_order(chain, cluster.pending):
            self.create(pod)
        self.place()
        for step in range(1, predicted.steps + 1):
            leaving = [pod for pod in predicted.pods if pod.step == step]
            for pod in draw.sample(leaving, len(leaving)):
                self.supposed.leave(pods[pod.pod])
                self.index.remove(pods[pod.pod].uid)
                self.place()
            for pod in leaving:
                if pod.outcome is not DrainOutcome.GONE:
                    self.create(recreated(pods[pod.pod], None))
            self.place()

    def create(self, pod):
        self.index.put(pod)
        self.nodes[pod.key] = None
        self.waiting.append(pod)

    def place(self):
        """Try the pods that wait, in the order of the queue, until none of them has a place."""
        again = True
        while again:
            again, failed = False, False
            tried = set()
            for pod in sorted(self.waiting, key=self.decider.chain.sort_key):
                if pod.uid in tried:
                    continue
                key = self.index.key_of(pod.uid)
                together = [other for other in self.waiting if other is pod or (key is not None and self.index.key_of(other.uid) == key)]
                tried |= {other.uid for other in together}
                for got, node in self.tried(pod) if key is None else self.tried_together(key, together):
                    self.nodes[got.key] = node
                    self.waiting.remove(next(other for other in self.waiting if other.uid == got.uid))
                    together = [other for other in together if other.uid != got.uid]
                    again |= failed
                failed |= bool(together)

    def tried(self, pod):
        result, _ = placed(self.decider, self.supposed, pod)
        return [] if result.node is None else [(pod, result.node)]

    def tried_together(self, key, members):
        turn = Turn(pods=tuple(members), group=key)
        outcomes, _ = at_once(place_group(self.decider, self.supposed, self.index, turn, watch=lambda *_: None))
        return [(each.decision.pod, each.decision.node) for each in outcomes if each.decision.node is not None]


@pytest.mark.parametrize("seeds", [range(25), range(25, 50), (143, 910415)], ids=str)
def test_the_order_of_evictions_in_a_step_makes_no_difference(tmp_path, seeds):
    (tmp_path / "one.policy").write_text(POLICY)
    policies = wharfinger.load_policies(tmp_path / "one.policy")
    for seed in seeds:
        one = DrainScenario("default", seed)
        one.draw(random.Random(seed), OWNERS)
        path = written(tmp_path, one)
        cluster = wharfinger.load_snapshot(path)
        predicted = wharfinger.drain(policies, cluster, one.drained, pods=cluster.pending, **one.options)
        wanted = {pod.pod: pod.node for pod in predicted.pods if pod.placement is not None}
        for order in range(ORDERS):
            done = CarriedOut(assemble(policies), wharfinger.load_snapshot(path), one.drained, predicted, random.Random(order))
            found = {name: node for name, node in done.nodes.items() if name in wanted}
            assert found == wanted, (seed, order)
