"""Small random clusters with a question about each: what was predicted is done on a real control plane, and compared pod by pod.

A drain is done through the Eviction API, step by step; pods are created again as their controllers would. A rebalance is done by
`wharf rebalance --apply`, one at a time, because two would see each other's cordons. For a capacity, one pod more is
created than was predicted to fit. For a difference between policies, the same pods are created under the ones and then under the others.

Many scenarios are on one control plane at the same time. Each has a namespace, nodes and a resource of its own, so none has an effect on
another.

Pods differ in what they take: extended resources, sidecars, init containers, overhead, requests of the whole pod, local volumes, claims for
devices. Some are members of gangs.
"""

from __future__ import annotations

import http.client
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import wharfinger
from tests import local_volumes
from tests.cluster import devices, mixed_pods, objects
from tests.cluster.api import Api, Refused
from tests.cluster.control_plane import ControlPlane
from tests.cluster.live import NAME
from tests.cluster.waiting import eventually
from wharfinger.simulate.cluster import Cluster
from wharfinger.simulate.dry_run import DryRun
from wharfinger.what_if.diff import Diff
from wharfinger.what_if.drain.answer import Drain, DrainedPod, DrainOutcome

POLICY = """
policy "what-if"

let here = count(pods where (it.labels["app"] ?? "") == (pod.labels["app"] ?? "-"), on: node)

filter few { require here < 4 else "runs {here} of them" }
score roomy weight 2 = least_allocated()
tie_break number(node.labels["rank"] ?? "") desc, node.name asc
"""
OTHER_POLICY = """
policy "what-if"

let here = count(pods where (it.labels["app"] ?? "") == (pod.labels["app"] ?? "-"), on: node)

filter fewer { require here < 3 else "runs {here} of them" }
score full weight 2 = most_allocated()
tie_break number(node.labels["rank"] ?? "") asc
"""
"""Every node has a rank of its own, or a name, so that no tie is left to the uid, which is new for a pod that is created again."""

OTHER_NAME = "wharfinger-other"
"""The scheduler that decides by OTHER_POLICY; NAME decides by POLICY."""
ABSENT = "absent-scheduler"
"""The scheduler of pods that are only asked about."""
APPS = ("a", "b", "c")
PRIORITIES = {"patient-low": 0, "patient": 100, "patient-high": 1000}
"""Classes whose pods preempt no others: they only come earlier in the queue."""
TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
MIRROR = {"kubernetes.io/config.mirror": "x"}
WIDGET = "example.com/widget"
OWNERS = {"StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}
"""Kinds of owners whose controllers the testbed has not, with their versions."""
MANY = 1000
SANDBOX, OVERHEAD = "sandbox", 250
"""A runtime class, and the millicores that it adds to each pod."""
ORIGIN = "tests.wharfinger.dev/origin"
"""The label of pods that a real controller creates again, under another name: the name of the first of them."""

Plain = dict[str, Any]


class Pause(Enum):
    """What work of a scenario yields beside pods: all scenarios of a batch do it at the same time."""

    CONTROLLERS = "controllers"
    """The controllers of the control plane stop, once they have counted all pods."""
    END = "end"
    """They go on, and `is_replaced` becomes true before the scheduler sees anything of it."""


def setting(namespaces: Iterable[str]) -> Iterator[Plain]:
    """Objects of all scenarios: priority classes, namespaces, and owners of pods that no controller of the testbed acts on."""
    for name, value in PRIORITIES.items():
        metadata = {"name": name}
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": metadata,
            "value": value,
            "preemptionPolicy": "Never",
        }
    yield {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": SANDBOX},
        "handler": SANDBOX,
        "overhead": {"podFixed": {"cpu": f"{OVERHEAD}m"}},
    }
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": local_volumes.CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    yield devices.device_class()
    for name in namespaces:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        yield {**devices.template(), "metadata": {"name": devices.TEMPLATE, "namespace": name}}
        yield from (_owner(kind, name) for kind in OWNERS)


def _owner(kind: str, namespace: str) -> Plain:
    selector = {"owner": kind}
    template = {"metadata": {"labels": selector}, "spec": objects.pod("", restartPolicy="Never" if kind == "Job" else "Always")["spec"]}
    spec = {"selector": {"matchLabels": selector}, "template": template}
    if kind == "StatefulSet":  # wants more pods than any scenario has, as each that leaves is created again
        spec |= {"serviceName": "none", "replicas": 1000}
    if kind == "Job":
        spec |= {"manualSelector": True}
    return {"apiVersion": OWNERS[kind], "kind": kind, "metadata": {"name": "owner", "namespace": namespace}, "spec": spec}


def owned_by(kind: str, owners: Mapping[str, str]) -> list[Plain]:
    """The owner references of a pod of such an owner in its namespace."""
    return [{"apiVersion": OWNERS[kind], "kind": kind, "name": "owner", "uid": owners[kind], "controller": True}]


def by_origin(pods: Iterable[Plain]) -> dict[str, Plain]:
    """The pods by the names under which scenarios know them; a replacement rather than the pod that it replaces."""
    ordered = sorted(pods, key=lambda pod: "deletionTimestamp" not in pod["metadata"])
    return {pod["metadata"].get("labels", {}).get(ORIGIN, pod["metadata"]["name"]): pod for pod in ordered}


@dataclass(slots=True)
class Scenario:
    """A cluster with a question; `uids` are those of its pods before anything is done.

    `others` are the objects that pods need: volumes and their claims, devices of nodes, groups.
    """

    namespace: str
    seed: int
    nodes: list[Plain] = field(default_factory=list)
    others: list[Plain] = field(default_factory=list)
    pods: dict[str, Plain] = field(default_factory=dict)
    budgets: list[Plain] = field(default_factory=list)
    workloads: list[Plain] = field(default_factory=list)
    """Workloads that pods without an owner belong to from now on."""
    uids: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    rebalancing: list[str] = field(default_factory=list)
    """The command that rebalances the cluster, without a goal."""
    url: str = ""
    """Where the scheduler answers."""
    decision_log: Path = Path()
    """The file in which the scheduler records its decisions."""
    control_plane: ControlPlane | None = None

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects; `owners` has the uids of the owners in the namespace by kind."""
        ranks = draw.sample(range(100), 6)
        for i in range(draw.randint(3, 6)):
            labels = {"scenario": str(self.seed), "rank": str(ranks[i]), mixed_pods.ZONE: draw.choice("xy")}
            taints = [TAINT] if draw.random() < 0.15 else None
            name = f"s{self.seed}-{i}"
            made = objects.node(name, cpu=str(draw.randint(2, 6)), pods=draw.randint(5, 12), labels=labels, taints=taints)
            more = {own_resource(self.seed): str(MANY)} | ({WIDGET: "3"} if draw.random() < 0.5 else {})
            for part in ("allocatable", "capacity"):
                made["status"][part] |= more
            if draw.random() < 0.5:
                self.others.append(devices.resource_slice(name, draw.randint(1, 3)))
            self.nodes.append(made)
        room = {node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) * 1000 for node in self.nodes}
        for i in range(draw.randint(5, 16)):
            pod, millis = draw_pod(f"p{i:02d}", self.namespace, self.seed, draw, owners)
            fits = [name for name, free in room.items() if free >= millis]
            if fits and draw.random() < self.running and "resourceClaims" not in pod["spec"]:
                pod["spec"]["nodeName"] = draw.choice(fits)
                room[pod["spec"]["nodeName"]] -= millis
                if draw.random() < 0.1:
                    self._give_volume(pod, pod["spec"]["nodeName"], bound=True)
            elif any(reference["kind"] == "DaemonSet" for reference in pod["metadata"].get("ownerReferences", ())):
                continue
            else:
                pod["metadata"]["annotations"] = {}  # only a pod with a node may be the mirror of a static one
                pod["spec"]["schedulerName"] = self.waits_for
            self.pods[pod["metadata"]["name"]] = pod

    @property
    def running(self) -> float:
        """The part of the pods that has a node from the beginning."""
        return 0.9

    @property
    def waits_for(self) -> str:
        """The scheduler of the pods without a node."""
        return ABSENT

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Answer the question on a snapshot; `policies` are those of each scheduler, by its name."""
        raise NotImplementedError

    def work(self, api: Api) -> Iterator[Sequence[Plain] | Pause]:
        """Do what was asked about: at each step yields pods to be created in this order, and continues when the cluster has settled."""
        raise NotImplementedError

    def is_replaced(self, pods: Iterable[Plain]) -> bool:
        """True if the controllers have created again what they create while pods leave; `pods` are those of the namespace."""
        return True

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """Add a problem for every pod that is not where it was predicted; `pods` are those of the namespace by name."""
        raise NotImplementedError

    @property
    def answers(self) -> Counter[str]:
        """The number of pods for each predicted outcome."""
        raise NotImplementedError

    def _give_volume(self, pod: Plain, node: str, *, bound: bool) -> None:
        """Give a pod a claim for a volume of a node, which is bound to it already or is bound when the pod is."""
        name = pod["metadata"]["name"]
        self.others += _volume(f"s{self.seed}-{name}", node, name, self.namespace, bound=bound)
        volumes = pod["spec"].get("volumes", [])
        pod["spec"]["volumes"] = [*volumes, {"name": "local", "persistentVolumeClaim": {"claimName": name}}]

    def _make_gang(self, draw: random.Random, members: Sequence[Plain], name: str) -> None:
        """Make pods the members of a group, of which all or all but one must have a node; all have the priority of the first."""
        self.others.append(objects.podgroup(name, max(len(members) - draw.randint(0, 1), 1), namespace=self.namespace))
        alike = members[0]["spec"].get("priorityClassName")
        for pod in members:
            pod["spec"] |= {"schedulingGroup": {"podGroupName": name}, "priorityClassName": alike or ""}

    def _draw_budgets(self, draw: random.Random, *, likely: float, most: int) -> None:
        """Give some apps a PodDisruptionBudget."""
        for app in APPS:
            if draw.random() < likely:
                self.budgets.append(_budget(f"{app}-budget", self.namespace, {"matchLabels": {"app": app}}, draw.randint(0, most)))

    def _pods(self, api: Api) -> dict[str, Plain]:
        return by_origin(api.list("Pod", self.namespace))

    def _pending(self, cluster: Cluster) -> list[Any]:
        return [pod for pod in cluster.pending if pod.namespace == self.namespace]


@dataclass(slots=True)
class DrainScenario(Scenario):
    """Nodes are drained."""

    drained: list[str] = field(default_factory=list)
    options: dict[str, bool] = field(default_factory=dict)
    predicted: Drain | None = None

    @property
    def waits_for(self) -> str:
        """The scheduler of the pods without a node: they are in the queue before the drain."""
        return NAME

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, the budgets, the nodes and the flags."""
        Scenario.draw(self, draw, owners)
        if draw.random() < 0.3:
            self._make_gang(draw, draw.sample(list(self.pods.values()), draw.randint(2, 4)), "gang")
        self._draw_budgets(draw, likely=0.4, most=4)
        if draw.random() < 0.1:
            self.budgets.append(_budget("all", self.namespace, {}, draw.randint(0, 6)))
        self.drained = draw.sample(sorted(node["metadata"]["name"] for node in self.nodes), draw.randint(1, 2))
        self.options = {"force": draw.random() < 0.7, "delete_empty_dir_data": draw.random() < 0.7}

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Ask about the drain."""
        self.predicted = wharfinger.drain(policies[NAME], cluster, self.drained, pods=self._pending(cluster), **self.options)

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Cordon the nodes, then evict the pods of each step and create their replacements."""
        assert self.predicted is not None
        for node in self.nodes:
            if node["metadata"]["name"] in self.drained:
                taints = [*node["spec"].get("taints", []), CORDON]
                api.patch("Node", node["metadata"]["name"], {"spec": {"unschedulable": True, "taints": taints}})
        yield ()
        for step in range(1, self.predicted.steps + 1):
            yield from self._do(api, step, [pod for pod in self.predicted.pods if pod.step == step])
        for pod in self.predicted.of(DrainOutcome.FORBIDDEN):
            if not _is_refused(api, pod):
                self.problems.append(f"{pod.pod}: its eviction is predicted to be forbidden ({pod.reason}), and it is allowed")

    def _do(self, api: Api, step: int, leaving: Sequence[DrainedPod]) -> Iterator[Sequence[Plain] | Pause]:
        """Evict the pods of a step, and create their replacements."""
        self._evict(api, step, leaving)
        yield ()
        yield self._created_again(leaving)

    def _created_again(self, left: Iterable[DrainedPod]) -> list[Plain]:
        """The pods that are created again, without a node."""
        return [without_node(self.pods[_name(pod)]) for pod in left if pod.placement is not None]

    def _evict(self, api: Api, step: int, leaving: Sequence[DrainedPod], *, grace: int = 0) -> None:
        """Evict the pods of a step, and see that others of their nodes may not leave."""

        def is_evicted(pod: DrainedPod) -> bool:
            try:
                api.evict(_name(pod), self.namespace, grace=grace)
            except Refused as refusal:
                raise AssertionError(f"{pod.pod} is not evicted in step {step}: {refusal}") from None
            return True

        for pod in leaving:
            eventually(lambda pod=pod: is_evicted(pod), within=60)
        if not any(pod.alone for pod in leaving):  # then others may leave by their budgets, and would change what waiting pods get
            self._see_that_others_stay(api, step, {pod.source for pod in leaving})

    def _see_that_others_stay(self, api: Api, step: int, sources: set[str]) -> None:
        """Add a problem for each pod of these nodes that is predicted to leave later and may leave now."""
        assert self.predicted is not None
        for pod in self.predicted.pods:
            if pod.source in sources and (pod.step or 0) > step and not _is_refused(api, pod):
                self.problems.append(f"{pod.pod}: its eviction is predicted for step {pod.step}, and allowed in step {step}")

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that every pod has gone where it was predicted, and no other has gone."""
        assert self.predicted is not None
        predicted = {_name(pod): pod for pod in self.predicted.pods}
        for name in self.pods:
            found = pods.get(name)
            is_new = found is not None and found["metadata"]["uid"] != self.uids[name]
            node = None if found is None else found["spec"].get("nodeName")
            if name in predicted:
                self._compare(predicted[name], found is not None, is_new, node)
            elif found is None or is_new:
                self.problems.append(f"{name} was not predicted to leave {self.pods[name]['spec'].get('nodeName')}")

    def _compare(self, predicted: DrainedPod, is_there: bool, is_new: bool, node: str | None) -> None:
        match predicted.outcome:
            case DrainOutcome.GONE:
                right = not is_there
            case DrainOutcome.PLACED | DrainOutcome.WAITS:
                right = is_there and node == predicted.node and is_new == (predicted.step is not None)
            case _:
                right = is_there and not is_new and node == predicted.source
        if not right:
            reported = (
                f"{predicted.pod} of {predicted.source}: predicted {predicted.outcome.value} {predicted.node} in step {predicted.step}"
            )
            self.problems.append(f"{reported} ({predicted.reason}), found on {node}{'' if is_there else ': it is not there'}")

    @property
    def answers(self) -> Counter[str]:
        """The number of pods with each outcome."""
        assert self.predicted is not None
        return Counter(f"drain: {pod.outcome.value}" for pod in self.predicted.pods)


@dataclass(slots=True)
class CapacityScenario(Scenario):
    """More pods of one kind are created."""

    predicted: Counter[str] = field(default_factory=Counter)

    @property
    def running(self) -> float:
        """All pods that fit have a node; what is asked about has none."""
        return 1.0

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, and the pod that is asked about."""
        self._draw_running(draw, owners)
        asked = self._draw_asked(draw, owners)
        if draw.random() < 0.1:
            self._give_volume(asked, draw.choice(self.nodes)["metadata"]["name"], bound=False)
        self.pods["asked"] = asked

    def _draw_running(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, of pods those with a node."""
        Scenario.draw(self, draw, owners)
        self.pods = {name: pod for name, pod in self.pods.items() if "nodeName" in pod["spec"]}

    def _draw_asked(self, draw: random.Random, owners: Mapping[str, str]) -> Plain:
        """The kind of pod that is asked about."""
        asked, _ = draw_pod("asked", self.namespace, self.seed, draw, owners)
        asked["metadata"] = {**asked["metadata"], "annotations": {}, "ownerReferences": []}
        asked["spec"]["schedulerName"] = ABSENT
        return asked

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Count the pods that fit, by node."""
        [room] = wharfinger.capacity(policies[NAME], cluster, self._pending(cluster), changes=False).rooms
        self.predicted = Counter({share.place: share.placed + share.more for share in room.nodes})

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Create one pod more than fits."""
        api.delete("Pod", "asked", self.namespace)
        yield [served_by(NAME, renamed(self.pods["asked"], f"more-{i:03d}")) for i in range(self.predicted.total() + 1)]

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that every node has as many as predicted, and one pod waits."""
        found = Counter(pod["spec"].get("nodeName") for name, pod in pods.items() if name.startswith("more-"))
        waiting = found.pop(None, 0)
        if found != self.predicted or waiting != 1:
            self.problems.append(f"predicted {dict(self.predicted)} and one that waits, found {dict(found)} and {waiting}")

    @property
    def answers(self) -> Counter[str]:
        """The number of pods that fit."""
        return Counter({"capacity: fits": self.predicted.total(), "capacity: does not fit": 1})


@dataclass(slots=True)
class GroupCapacityScenario(CapacityScenario):
    """More gangs of one kind are created."""

    members: int = 0
    groups: int = 0

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, and the gang that is asked about."""
        self._draw_running(draw, owners)
        asked = self._draw_asked(draw, owners)
        self.members = draw.randint(2, 4)
        gang = [renamed({**asked, "spec": {**asked["spec"]}}, f"asked-{i}") for i in range(self.members)]
        self.others.append(_gang("asked", self.members, self.namespace))
        self.pods |= {pod["metadata"]["name"]: _of_gang(pod, "asked") for pod in gang}

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Count the gangs that fit, and their pods by node."""
        [room] = wharfinger.capacity(policies[NAME], cluster, self._pending(cluster), changes=False).groups
        self.groups = room.total
        self.predicted = Counter({share.place: share.placed + share.more for share in room.nodes})

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Create one gang more than fits."""
        asked = [name for name in self.pods if name.startswith("asked-")]
        model = self.pods[asked[0]]
        for name in asked:
            api.delete("Pod", name, self.namespace)
        names = [f"more-{i:03d}" for i in range(self.groups + 1)]
        for name in names:
            api.create(_gang(name, self.members, self.namespace))
        pods = ((name, f"{name}-{i}") for name in names for i in range(self.members))
        yield [_of_gang(served_by(NAME, renamed(model, pod)), name) for name, pod in pods]

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that every node has as many as predicted, and one gang waits."""
        found = Counter(pod["spec"].get("nodeName") for name, pod in pods.items() if name.startswith("more-"))
        waiting = found.pop(None, 0)
        if found != self.predicted or waiting != self.members:
            self.problems.append(f"predicted {dict(self.predicted)} and {self.members} that wait, found {dict(found)} and {waiting}")

    @property
    def answers(self) -> Counter[str]:
        """The number of gangs that fit."""
        return Counter({"gangs: fits": self.groups, "gangs: does not fit": 1})


@dataclass(slots=True)
class PlacedTwiceScenario(Scenario):
    """Pods are placed by one scheduler, and then by another."""

    @property
    def running(self) -> float:
        """Half of the pods; the others are asked about."""
        return 0.5

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects.

        No claims are made from templates: a scheduler sees a pod before its claim, and tries others meanwhile. Those of the first time are
        not there again.
        """
        Scenario.draw(self, draw, owners)
        for pod in self.pods.values():
            without_device_claims(pod)


@dataclass(slots=True)
class DiffScenario(PlacedTwiceScenario):
    """Pods are placed by the policies of one scheduler, and then by those of another."""

    predicted: Diff | None = None
    found: dict[str, str | None] = field(default_factory=dict)

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects; some of the pods that wait may be a gang."""
        PlacedTwiceScenario.draw(self, draw, owners)
        waiting = [pod for pod in self.pods.values() if "nodeName" not in pod["spec"]]
        if len(waiting) > 3:
            self._make_gang(draw, draw.sample(waiting, draw.randint(2, 4)), "gang")

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Compare the policies."""
        self.predicted = wharfinger.diff(policies[OTHER_NAME], policies[NAME], cluster, self._pending(cluster))

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Create the pods for one scheduler, remember their nodes, and create them for the other."""
        assert self.predicted is not None
        self._remove(api)
        yield ()
        yield self._created(self.predicted.before.run, NAME)
        self.found = {name: pod["spec"].get("nodeName") for name, pod in self._pods(api).items()}
        self._remove(api)
        yield ()
        yield self._created(self.predicted.after.run, OTHER_NAME)

    def _created(self, run: DryRun, scheduler: str) -> list[Plain]:
        return [served_by(scheduler, self.pods[result.pod.partition("/")[2]]) for result in run.results]

    def _remove(self, api: Api) -> None:
        for name, pod in self.pods.items():
            if "nodeName" not in pod["spec"]:
                api.delete("Pod", name, self.namespace)

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that each scheduler has put every pod where it was predicted, and that the pods predicted to change are those that do."""
        assert self.predicted is not None
        there = {name: pod["spec"].get("nodeName") for name, pod in pods.items()}
        for side, run, found in (("before", self.predicted.before.run, self.found), ("after", self.predicted.after.run, there)):
            for result in run.results:
                node = found.get(result.pod.partition("/")[2], "nowhere")
                if node != result.node:
                    self.problems.append(f"{result.pod} {side}: predicted {result.node} ({result.message}), found on {node}")
        changed = {name: (self.found[name], there[name]) for name in there if self.found.get(name) != there[name]}
        predicted = {each.pod.partition("/")[2]: (each.before, each.after) for each in self.predicted.changes}
        if changed != predicted:
            self.problems.append(f"predicted to change {predicted}, changed {changed}")

    @property
    def answers(self) -> Counter[str]:
        """The number of pods that change."""
        assert self.predicted is not None
        return Counter({"diff: changes": len(self.predicted.changes), "diff: same": self.predicted.pods - len(self.predicted.changes)})


def _name(pod: DrainedPod) -> str:
    return pod.pod.partition("/")[2]


def without_node(pod: Plain) -> Plain:
    """The pod as it was created, to be placed again."""
    return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}


def without_device_claims(pod: Plain) -> None:
    """Take the claims that are made from templates from a pod."""
    pod["spec"].pop("resourceClaims", None)
    pod["spec"]["containers"][0]["resources"].pop("claims", None)


def served_by(scheduler: str, pod: Plain) -> Plain:
    """The pod with another scheduler."""
    return {**pod, "spec": {**pod["spec"], "schedulerName": scheduler}}


def _gang(name: str, members: int, namespace: str) -> Plain:
    return objects.podgroup(name, members, namespace=namespace)


def _of_gang(pod: Plain, name: str) -> Plain:
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": name}}}


def renamed(pod: Plain, name: str) -> Plain:
    """The pod with another name."""
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def _is_refused(api: Api, pod: DrainedPod) -> bool:
    """True if the Eviction API would refuse to evict a pod now."""
    namespace, _, name = pod.pod.partition("/")
    try:
        api.evict(name, namespace, dry_run=True)
    except Refused as refusal:
        return refusal.code in {http.client.TOO_MANY_REQUESTS, http.client.INTERNAL_SERVER_ERROR}
    return False


def draw_pod(name: str, namespace: str, seed: int, draw: random.Random, owners: Mapping[str, str]) -> tuple[Plain, int]:
    """(a pod without a node, its cpu in millicores)."""
    millis = draw.choice((100, 300, 500, 1000, 1500, 2500))
    spec: Plain = {"nodeSelector": {"scenario": str(seed)}, **_rules(draw)}
    if draw.random() < 0.3:
        spec["priorityClassName"] = draw.choice(tuple(PRIORITIES))
    if draw.random() < 0.15:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    labels = {"app": draw.choice(APPS)} if draw.random() < 0.9 else {}
    pod = objects.pod(name, cpu=f"{millis}m", memory="64Mi", namespace=namespace, labels=labels, scheduler=NAME, **spec)
    kind = draw.choices(("StatefulSet", "DaemonSet", None), (80, 7, 13))[0]
    if kind is not None:
        pod["metadata"]["ownerReferences"] = owned_by(kind, owners)
    elif draw.random() < 0.2:
        pod["metadata"]["annotations"] = MIRROR
    if draw.random() < 0.1 and kind != "DaemonSet":
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": devices.TEMPLATE}]
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    taken = _enlarged(pod["spec"], millis, draw)
    resources = pod["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        resources[part] = {**resources.get(part, {}), own_resource(seed): "1"}
    return pod, taken


def own_resource(seed: int) -> str:
    """A resource that only the nodes of one scenario have, enough for all of its pods.

    A pod that leaves another scenario's node is no reason then to try the pods of this one again: that would change their order.
    """
    return f"example.com/scenario-{seed}"


def _enlarged(spec: Plain, millis: int, draw: random.Random) -> int:
    """The millicores that the pod takes with some more that it asks for, which is added to its spec."""
    main = spec["containers"][0]
    kind = draw.choices(("sidecar", "init", "overhead", "pod", "widget", None), (8, 8, 8, 8, 8, 60))[0]
    if kind == "widget":
        amount = str(draw.randint(1, 2))
        main["resources"] = {**main["resources"], "limits": {WIDGET: amount}, "requests": {**main["resources"]["requests"], WIDGET: amount}}
    elif kind == "overhead":
        spec["runtimeClassName"] = SANDBOX
        return millis + OVERHEAD
    elif kind == "pod":
        spec["resources"] = {"requests": {"cpu": f"{millis + 300}m"}}
        return millis + 300
    elif kind is not None:
        more = draw.choice((200, 2000))
        first = {"name": "first", "image": main["image"], "resources": {"requests": {"cpu": f"{more}m"}}}
        spec["initContainers"] = [{**first, "restartPolicy": "Always"} if kind == "sidecar" else first]
        return millis + more if kind == "sidecar" else max(millis, more)
    return millis


def _volume(name: str, node: str, claim: str, namespace: str, *, bound: bool) -> list[Plain]:
    """A volume that can be used on one node, and a claim for it."""
    volume, wanted = local_volumes.specs(name, mixed_pods.HOST, node)
    if bound:
        volume["claimRef"] = {"namespace": namespace, "name": claim}
        wanted["volumeName"] = name
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": {"volume": name}}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim, "namespace": namespace}, "spec": wanted},
    ]


def _rules(draw: random.Random) -> Plain:
    """Some of the rules that a pod can have about its node, as fields of its spec."""
    found: Plain = {}
    term = {"labelSelector": {"matchLabels": {"app": draw.choice(APPS)}}, "topologyKey": draw.choice((mixed_pods.HOST, mixed_pods.ZONE))}
    rule = draw.random()
    if rule < 0.12:
        found["affinity"] = {"podAntiAffinity": {mixed_pods.REQUIRED: [term]}}
    elif rule < 0.2:
        found["affinity"] = {"podAffinity": {mixed_pods.REQUIRED: [term]}}
    elif rule < 0.35:
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": draw.randint(1, 2),
                "topologyKey": term["topologyKey"],
                "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": term["labelSelector"],
                "nodeTaintsPolicy": draw.choice(("Honor", "Ignore")),
            }
        ]
    elif rule < 0.4:
        found["affinity"] = {"podAffinity": {mixed_pods.PREFERRED: [{"weight": 50, "podAffinityTerm": term}]}}
    if draw.random() < 0.15:
        found["tolerations"] = [draw.choice(({"key": "dedicated", "operator": "Exists"}, {"operator": "Exists"}))]
    return found


def _budget(name: str, namespace: str, selector: Plain, least: int) -> Plain:
    spec = {"minAvailable": least, "selector": selector}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
