"""Scenarios whose question is asked of the running scheduler: by `POST /evaluate`, and by a PlacementPreview.

The pods that are asked about are only manifests before the answer: the scheduler fills in what the API server would. What was supposed is
then made: the nodes are created with what runs on each of them, nodes are drained, and the pods are created.
"""

from __future__ import annotations

import copy
import http.client
import json
import random
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import wharfinger
from tests.cluster import custom, devices, mixed_pods
from tests.cluster.api import Api, Refused
from tests.cluster.live import NAME
from tests.cluster.snapshot import read_cluster
from tests.cluster.waiting import eventually
from tests.cluster.what_if_batch import is_ready
from tests.cluster.what_if_scenarios import CORDON, MIRROR, SANDBOX, Plain, Scenario, draw_pod, without_node
from wharfinger.simulate.cluster import Cluster

Answer = dict[str, Any]


@dataclass(slots=True)
class AskedScenario(Scenario):
    """Pods that are not there, perhaps more nodes, perhaps nodes that are drained."""

    asked: list[Plain] = field(default_factory=list)
    more: list[Plain] = field(default_factory=list)
    """The `nodes` of the question: `like` and `count`."""
    drained: list[str] = field(default_factory=list)

    @property
    def running(self) -> float:
        """All pods that fit have a node; other pods that wait are no part of a question."""
        return 1.0

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, and what is supposed."""
        Scenario.draw(self, draw, owners)
        self.pods = {name: pod for name, pod in self.pods.items() if "nodeName" in pod["spec"]}
        names = [node["metadata"]["name"] for node in self.nodes]
        if draw.random() < 0.4:
            self.more = [{"like": name, "count": draw.randint(1, 2)} for name in draw.sample(names, draw.randint(1, 2))]
        if draw.random() < 0.4:
            self.drained = draw.sample(sorted(set(names) - {each["like"] for each in self.more}), 1)
            self._draw_budgets(draw, likely=0.4, most=4)

    def _manifest(self, name: str, draw: random.Random, owners: Mapping[str, str]) -> Plain:
        """A pod without what the API server fills in."""
        pod, _ = draw_pod(name, self.namespace, self.seed, draw, owners)
        pod["metadata"] = {key: value for key, value in pod["metadata"].items() if key not in {"ownerReferences", "annotations"}}
        main = pod["spec"]["containers"][0]
        if draw.random() < 0.2:  # a limit without a request is the request
            main["resources"] = {**main["resources"], "limits": {**main["resources"]["requests"], **main["resources"].get("limits", {})}}
            main["resources"].pop("requests")
        if draw.random() < 0.2:
            pod["spec"]["runtimeClassName"] = SANDBOX
        pod["spec"].pop("resourceClaims", None)
        main["resources"].pop("claims", None)
        return pod

    def _make_nodes(self, api: Api, names: Mapping[str, Sequence[str]]) -> None:
        """Create the supposed nodes, by the names of their models, and the pods and devices that each has because of its kind."""
        models = {node["metadata"]["name"]: node for node in self.nodes}
        for model, new in names.items():
            for name in new:
                found = copy.deepcopy(models[model])
                found["metadata"] = {"name": name, "labels": {**found["metadata"]["labels"], mixed_pods.HOST: name}}
                api.create(found)
                for each in self.others:
                    if each["kind"] == "ResourceSlice" and each["spec"].get("nodeName") == model:
                        api.create(devices.resource_slice(name, len(each["spec"]["devices"])))
        made = {name for new in names.values() for name in new}
        eventually(lambda: all(map(is_ready, (api.get("Node", name) for name in made))))
        for model, new in names.items():
            for pod in self.pods.values():
                if pod["spec"]["nodeName"] == model and _stays(pod):
                    for name in new:
                        spec = {**pod["spec"], "nodeName": name}
                        metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}-{name}"}
                        api.create({**pod, "metadata": metadata, "spec": spec})

    def _cordon(self, api: Api) -> None:
        for node in self.nodes:
            if node["metadata"]["name"] in self.drained:
                taints = [*node["spec"].get("taints", []), CORDON]
                api.patch("Node", node["metadata"]["name"], {"spec": {"unschedulable": True, "taints": taints}})


@dataclass(slots=True)
class EvaluationScenario(AskedScenario):
    """The answer of `POST /evaluate`, pod by pod."""

    flags: dict[str, bool] = field(default_factory=dict)
    predicted: Answer = field(default_factory=dict)

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, the pods and the flags."""
        AskedScenario.draw(self, draw, owners)
        self.asked = [self._manifest(f"asked-{i:02d}", draw, owners) for i in range(draw.randint(1, 8))]
        if self.drained:
            self.flags = {"force": draw.random() < 0.7, "deleteEmptyDirData": draw.random() < 0.7}

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Ask."""
        request = {"objects": self.asked, "nodes": self.more, "drain": self.drained, **self.flags}
        asked = urllib.request.Request(f"{self.url}/evaluate", json.dumps(request).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            self.predicted = json.loads(answer.read())
        if warnings := self.predicted["warnings"]:
            self.problems.append(f"the answer has warnings: {warnings}")

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Make the nodes, cordon the drained ones, create the pods, and drain step by step."""
        names: dict[str, list[str]] = {}
        for new in self.predicted["newNodes"]:
            names.setdefault(new["like"], []).append(new["name"])
        self._make_nodes(api, names)
        self._cordon(api)
        yield ()
        manifests = {pod["metadata"]["name"]: pod for pod in self.asked}
        yield [manifests[name] for pod in self.predicted["pods"] if (name := _name(pod)) in manifests]
        for step in range(1, self.predicted["steps"] + 1):
            leaving = [pod for pod in self.predicted["pods"] if pod.get("step") == step]
            for pod in leaving:
                api.evict(_name(pod), self.namespace)
            yield ()
            yield [without_node(self.pods[_name(pod)]) for pod in leaving if pod["outcome"] in {"placed", "waits"}]

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that every pod of the answer is where it says, and all others are where they were."""
        predicted = {_name(pod): pod for pod in self.predicted["pods"]}
        for name, pod in predicted.items():
            found = pods.get(name)
            node = None if found is None else found["spec"].get("nodeName")
            wanted = pod["node"] if pod["outcome"] in {"placed", "waits", "gone"} else pod["source"]
            if node != wanted or (found is None) != (pod["outcome"] == "gone"):
                there = "" if found is not None else ": it is not there"
                said = f"predicted {pod['outcome']} {pod['node']} {pod.get('message', '')}"
                self.problems.append(f"{name} of {pod.get('source')}: {said}, found on {node}{there}")
        for name, pod in self.pods.items():
            if name not in predicted and (name not in pods or pods[name]["spec"].get("nodeName") != pod["spec"]["nodeName"]):
                self.problems.append(f"{name} was not predicted to leave {pod['spec']['nodeName']}")

    @property
    def answers(self) -> Counter[str]:
        """The number of pods with each outcome, and how many of the answers have nodes."""
        found = Counter(f"evaluate: {pod['outcome']}" for pod in self.predicted["pods"])
        return found + Counter({"evaluate: new nodes": len(self.more), "evaluate: drained nodes": len(self.drained)})


@dataclass(slots=True)
class PreviewScenario(AskedScenario):
    """The answer of a PlacementPreview, in numbers. Its pods are those of a Deployment, or of a template that a Deployment gets later."""

    replicas: int = 1
    by_name: bool = False
    """True if the preview names the Deployment."""
    predicted: Answer = field(default_factory=dict)
    found: Counter[str | None] = field(default_factory=Counter)
    """The pods on each node after the drain: one that tolerates cordons may get a place that it frees."""
    policies: Any = None
    """The policies that decide, by which a drain is planned: an answer has no order of evictions."""

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, and the pods."""
        AskedScenario.draw(self, draw, owners)
        self.replicas = draw.randint(1, 8)
        pod = self._manifest("asked", draw, owners)
        pod["metadata"]["labels"] = {"own": "asked", **pod["metadata"]["labels"]}
        self.asked = [pod]
        self.by_name = draw.random() < 0.5

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Ask, and wait for the answer."""
        assert self.control_plane is not None
        self.policies = policies[NAME]
        [pod] = self.asked
        template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
        spec = {"replicas": self.replicas, "nodes": self.more, "drain": self.drained, "capacity": True}
        if self.by_name:
            self._make_deployment(self.control_plane.api, template)
            spec["workloadRef"] = {"kind": "Deployment", "name": "asked"}
        else:
            spec["template"] = template
        custom.create(self.control_plane, "PlacementPreview", "asked", spec, self.namespace)

        def answered() -> Answer:
            status: Answer = custom.status(self.control_plane, "PlacementPreview", "asked", self.namespace)
            assert "placed" in status, f"{self.seed}: {status}"
            return status

        self.predicted = eventually(answered)
        custom.delete(self.control_plane, "PlacementPreview", "asked", self.namespace)
        if not self.by_name:
            self._make_deployment(self.control_plane.api, template)

    def _make_deployment(self, api: Api, template: Plain) -> None:
        spec = {"replicas": 0, "selector": {"matchLabels": {"own": "asked"}}, "template": template}
        metadata = {"name": "asked", "namespace": self.namespace}
        api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})

    def _scale(self, api: Api, replicas: int) -> None:
        """Have the Deployment that many pods; returns when they are there."""
        api.patch("Deployment", "asked", {"spec": {"replicas": replicas}}, self.namespace)
        eventually(lambda: len(self._made(self._pods(api))) == replicas)

    @staticmethod
    def _made(pods: Mapping[str, Plain]) -> list[Plain]:
        return [pod for pod in pods.values() if pod["metadata"].get("labels", {}).get("own") == "asked"]

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Make the nodes, drain, and create the pods, and then one pod more than the answer says that fits."""
        names = {each["like"]: [f"{each['like']}-new-{i + 1}" for i in range(each["count"])] for each in self.more}
        self._make_nodes(api, names)
        self._cordon(api)
        yield ()
        self._scale(api, self.replicas)
        yield ()
        yield from self._drain(api)
        self.found = Counter(pod["spec"].get("nodeName") for pod in self._made(self._pods(api)))
        if self.predicted["placed"] == self.replicas:
            self._scale(api, self.replicas + self.predicted["further"] + 1)
            yield ()

    def _drain(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Evict the pods that a drain without flags evicts, in its steps, and create their replacements, until nothing may leave."""
        left = {name: pod for name, pod in self.pods.items() if pod["spec"]["nodeName"] in self.drained and _may_leave(pod)}
        for together in [*self._steps(api), [*left]] if self.drained else ():
            gone = [left.pop(name) for name in together if name in left and self._evicted(api, left[name])]
            yield ()
            yield [without_node(pod) for pod in gone]

    def _steps(self, api: Api) -> list[list[str]]:
        """The pods that leave in each step of the drain, in order."""
        cluster = read_cluster(api)
        planned = wharfinger.drain(self.policies, cluster, self.drained, pods=self._pending(cluster))
        return [[_name({"pod": pod.pod}) for pod in planned.pods if pod.step == step] for step in range(1, planned.steps + 1)]

    def _evicted(self, api: Api, pod: Plain) -> bool:
        try:
            api.evict(pod["metadata"]["name"], self.namespace)
        except Refused as refusal:
            if refusal.code not in {http.client.TOO_MANY_REQUESTS, http.client.INTERNAL_SERVER_ERROR}:
                raise
            return False
        return True

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that each node has as many of the pods as predicted, and that one more than fits waits."""
        made = Counter(pod["spec"].get("nodeName") for pod in self._made(pods))
        waiting = made.pop(None, 0)
        predicted = {each["node"]: each["count"] for each in self.predicted["placements"]}
        placed, further = self.predicted["placed"], self.predicted["further"]
        if placed == self.replicas:
            found: tuple[Any, ...] = made.total(), waiting
            wanted: tuple[Any, ...] = placed + further, 1
            before = Counter({node: n for node, n in self.found.items() if node})
            if before != Counter(predicted):
                self.problems.append(f"predicted {predicted} of {self.replicas}, found {dict(before)}")
        else:
            found, wanted = (dict(made), waiting), (predicted, self.replicas - placed)
        if found != wanted:
            self.problems.append(f"predicted {wanted}, found {found}: {self.predicted}")
        if self.drained:
            self._compare_drained(pods)

    def _compare_drained(self, pods: Mapping[str, Plain]) -> None:
        drained = [pod for pod in self.pods.values() if pod["spec"]["nodeName"] in self.drained]
        there = [(pod, pods[pod["metadata"]["name"]]) for pod in drained]
        new = [now for pod, now in there if now["metadata"]["uid"] != self.uids[pod["metadata"]["name"]]]
        found = {
            "drained": len(new),
            "drainedPlaced": sum("nodeName" in pod["spec"] for pod in new),
            "drainedForbidden": sum(_may_leave(pod) and now not in new for pod, now in there),
            "drainedRefused": sum(not _may_leave(pod) and not _stays(pod) for pod in drained),
        }
        predicted = {name: self.predicted.get(name) for name in found}
        if predicted != found:
            self.problems.append(f"predicted {predicted}, found {found}")

    @property
    def answers(self) -> Counter[str]:
        """The number of pods, of further ones, and of those of drained nodes."""
        placed = self.predicted["placed"]
        found = {"preview: placed": placed, "preview: waits": self.replicas - placed, "preview: further": self.predicted.get("further", 0)}
        drained = {f"preview: {name}": self.predicted.get(name, 0) for name in ("drained", "drainedForbidden", "drainedRefused")}
        return Counter({**found, **drained, "preview: new nodes": len(self.more)})


def _stays(pod: Plain) -> bool:
    mirror = MIRROR.keys() <= pod["metadata"].get("annotations", {}).keys()
    return mirror or any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))


def _may_leave(pod: Plain) -> bool:
    """True if `kubectl drain` without flags evicts the pod."""
    owned = any(owner["kind"] == "StatefulSet" for owner in pod["metadata"].get("ownerReferences", ()))
    return owned and not any("emptyDir" in volume for volume in pod["spec"].get("volumes", ()))


def _name(pod: Answer) -> str:
    return str(pod["pod"]).partition("/")[2]


KINDS = (EvaluationScenario, PreviewScenario)


def scenario(seed: int, namespace: str, owners: Mapping[str, str]) -> AskedScenario:
    """The random scenario of that number; `owners` has the uids of the owners in its namespace by kind."""
    made = KINDS[seed % len(KINDS)](namespace, seed)
    made.draw(random.Random(seed), owners)
    return made
