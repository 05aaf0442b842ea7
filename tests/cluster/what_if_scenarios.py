"""Small random clusters with a question about each: they are built on a real control plane, and what was foretold is done.

Many scenarios are on one control plane at the same time. Each has a namespace and nodes of its own, so none has an effect on another. In
each a pool of nodes is drained: pods are evicted through the Eviction API, step by step, and created again as their controllers would.
"""

from __future__ import annotations

import http.client
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import wharfinger
from tests.cluster import mixed_pods, objects
from tests.cluster.api import Refused
from tests.cluster.control_plane import ControlPlane
from tests.cluster.live import NAME
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually
from wharfinger.what_if.drain import Drain, DrainedPod, Fate

WHARF = Path(sys.executable).with_name("wharf")
POLICY = """
policy "what-if"

let here = count(pods where (it.labels["app"] ?? "") == (pod.labels["app"] ?? "-"), on: node)

filter few { require here < 4 else "runs {here} of them" }
score roomy weight 2 = least_allocated()
tie_break number(node.labels["rank"] ?? "") desc
"""
"""Every node has a rank of its own, so that no tie is left to the uid, which is new for a pod that is created again."""

APPS = ("a", "b", "c")
PRIORITIES = {"patient-low": 0, "patient": 100, "patient-high": 1000}
"""Classes whose pods preempt nobody: they only come earlier in the queue."""
TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
MIRROR = {"kubernetes.io/config.mirror": "x"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Plain = dict[str, Any]


def setting(namespaces: Iterable[str]) -> Iterator[Plain]:
    """What all scenarios refer to: priority classes, namespaces, and owners of pods that no controller of the testbed acts on."""
    for name, value in PRIORITIES.items():
        metadata = {"name": name}
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": metadata,
            "value": value,
            "preemptionPolicy": "Never",
        }
    for name in namespaces:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        yield from (_owner(kind, name) for kind in ("StatefulSet", "DaemonSet"))


def _owner(kind: str, namespace: str) -> Plain:
    selector = {"owner": kind}
    template = {"metadata": {"labels": selector}, "spec": objects.pod("")["spec"]}
    spec = {"selector": {"matchLabels": selector}, "template": template, **({"serviceName": "none"} if kind == "StatefulSet" else {})}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "owner", "namespace": namespace}, "spec": spec}


@dataclass(slots=True)
class Scenario:
    """One question: the objects of a cluster, which of its nodes are drained, how; and what was foretold."""

    namespace: str
    seed: int
    nodes: list[Plain] = field(default_factory=list)
    pods: dict[str, Plain] = field(default_factory=dict)
    budgets: list[Plain] = field(default_factory=list)
    drained: list[str] = field(default_factory=list)
    options: dict[str, bool] = field(default_factory=dict)
    foretold: Drain | None = None
    problems: list[str] = field(default_factory=list)

    def of_step(self, step: int) -> list[DrainedPod]:
        """The pods that leave in one step, in order."""
        assert self.foretold is not None
        return [pod for pod in self.foretold.pods if pod.step == step]


def scenario(seed: int, namespace: str, owners: dict[str, str]) -> Scenario:
    """A random scenario; `owners` has the uids of the owners in its namespace by kind."""
    draw = random.Random(seed)
    made = Scenario(namespace, seed)
    ranks = draw.sample(range(100), 6)
    for i in range(draw.randint(3, 6)):
        labels = {"scenario": str(seed), "rank": str(ranks[i]), mixed_pods.ZONE: draw.choice("xy")}
        taints = [TAINT] if draw.random() < 0.15 else None
        made.nodes.append(objects.node(f"s{seed}-{i}", cpu=str(draw.randint(2, 6)), pods=draw.randint(5, 12), labels=labels, taints=taints))
    room = {node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) * 1000 for node in made.nodes}
    for i in range(draw.randint(5, 16)):
        pod, millis = _pod(f"p{i}", namespace, seed, draw, owners)
        fits = [name for name, free in room.items() if free >= millis]
        if fits and draw.random() < 0.9:
            pod["spec"]["nodeName"] = draw.choice(fits)
            room[pod["spec"]["nodeName"]] -= millis
        elif not any(reference["kind"] == "DaemonSet" for reference in pod["metadata"].get("ownerReferences", ())):
            pod["metadata"]["annotations"] = {}  # only a pod with a node may be a mirror of a static one
        else:
            continue
        made.pods[pod["metadata"]["name"]] = pod
    for app in APPS:
        if draw.random() < 0.4:
            made.budgets.append(_budget(f"{app}-budget", namespace, {"matchLabels": {"app": app}}, draw.randint(0, 4)))
    if draw.random() < 0.1:
        made.budgets.append(_budget("all", namespace, {}, draw.randint(0, 6)))
    made.drained = draw.sample(sorted(room), draw.randint(1, 2))
    made.options = {"force": draw.random() < 0.7, "delete_empty_dir_data": draw.random() < 0.7}
    return made


def _pod(name: str, namespace: str, seed: int, draw: random.Random, owners: dict[str, str]) -> tuple[Plain, int]:
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
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": owners[kind], "controller": True}
        pod["metadata"]["ownerReferences"] = [reference]
    elif draw.random() < 0.2:
        pod["metadata"]["annotations"] = MIRROR
    return pod, millis


def _rules(draw: random.Random) -> Plain:
    """Some of the rules that a pod can have about its node, as fields of its spec."""
    found: Plain = {}
    term = {"labelSelector": {"matchLabels": {"app": draw.choice(APPS)}}, "topologyKey": draw.choice((mixed_pods.HOST, mixed_pods.ZONE))}
    rule = draw.random()
    if rule < 0.12:
        found["affinity"] = {"podAntiAffinity": {_REQUIRED: [term]}}
    elif rule < 0.2:
        found["affinity"] = {"podAffinity": {_REQUIRED: [term]}}
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
        found["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]}}
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


class Batch:
    """Scenarios at work on one control plane at the same time."""

    def __init__(self, control_plane: ControlPlane, scheduler: WharfProcess, scenarios: Sequence[Scenario]) -> None:
        self._cluster = control_plane
        self._api = control_plane.api
        self._scheduler = scheduler
        self._scenarios = scenarios
        self._uids: dict[tuple[str, str], str] = {}

    def build(self) -> None:
        """Create the nodes, the pods and the budgets; returns when everything is known to everybody."""
        everything = [node for one in self._scenarios for node in one.nodes]
        self._api.create_many(everything)
        eventually(lambda: sum(map(_is_ready, self._api.list("Node"))) == len(everything))
        placed = [pod for one in self._scenarios for pod in one.pods.values() if "nodeName" in pod["spec"]]
        self._api.create_many(placed)
        self._create(pod for one in self._scenarios for pod in one.pods.values() if "nodeName" not in pod["spec"])
        self._settle()
        self._api.create_many(budget for one in self._scenarios for budget in one.budgets)
        eventually(self._budgets_are_known)
        self._uids = {key: pod["metadata"]["uid"] for key, pod in self._pods().items()}

    def foretell(self, folder: Path, policy: Path) -> None:
        """Ask about every drain on a snapshot of the cluster as it is now."""
        snapshot = folder / "now.json.gz"
        subprocess.run([WHARF, "snapshot", "-o", snapshot, f"--kubeconfig={self._cluster.kubeconfig}"], check=True, capture_output=True)
        policies = wharfinger.load_policies(policy)
        for one in self._scenarios:
            cluster = wharfinger.load_snapshot(snapshot)
            waiting = [pod for pod in cluster.pending if pod.namespace == one.namespace]
            one.foretold = wharfinger.drain(policies, cluster, one.drained, pods=waiting, **one.options)

    def do(self) -> None:
        """Cordon the nodes, and evict and create pods as it was foretold, step by step."""
        nodes = {node["metadata"]["name"]: node for one in self._scenarios for node in one.nodes}
        for name in (name for one in self._scenarios for name in one.drained):
            taints = [*nodes[name]["spec"].get("taints", []), CORDON]
            self._api.patch("Node", name, {"spec": {"unschedulable": True, "taints": taints}})
        self._settle()
        for step in range(1, max(one.foretold.steps for one in self._scenarios if one.foretold) + 1):
            for one in self._scenarios:
                self._evict(one, step)
            self._settle()
            self._create(self._replacements(step))
            self._settle()

    def compare(self) -> None:
        """Add a problem to each scenario for every pod that is not where it was foretold."""
        pods = self._pods()
        for one in self._scenarios:
            assert one.foretold is not None
            foretold = {pod.pod.partition("/")[2]: pod for pod in one.foretold.pods}
            for name, manifest in one.pods.items():
                found = pods.get((one.namespace, name))
                if name in foretold:
                    self._compare(one, foretold[name], found)
                elif found is None or self._is_new(one, found):
                    one.problems.append(f"{name} was not foretold to leave {manifest['spec'].get('nodeName')}")

    def _compare(self, one: Scenario, foretold: DrainedPod, found: Plain | None) -> None:
        node = None if found is None else found["spec"].get("nodeName")
        match foretold.fate:
            case Fate.GONE:
                right = found is None
            case Fate.PLACED | Fate.WAITS:
                right = found is not None and node == foretold.node and self._is_new(one, found) == (foretold.step is not None)
            case _:
                right = node == foretold.source and found is not None and not self._is_new(one, found)
        if right and foretold.fate is Fate.FORBIDDEN:
            right = self._refuses(foretold)
        if not right:
            told = f"{foretold.pod} from {foretold.source}: foretold {foretold.fate.value} {foretold.node} in step {foretold.step}"
            one.problems.append(f"{told} ({foretold.reason}), found on {node}{'' if found else ': it is not there'}")

    def remove(self) -> None:
        """Remove everything that `build` created."""
        for one in self._scenarios:
            for kind in ("PodDisruptionBudget", "Pod"):
                self._api.delete_all(kind, one.namespace)
        eventually(lambda: not self._pods())
        self._api.delete_all("Node")
        eventually(lambda: not self._api.any("Node"))

    def _evict(self, one: Scenario, step: int) -> None:
        """Evict the pods of a step as soon as the API allows it, and see that it refuses the others of their nodes."""
        leaving = one.of_step(step)
        for pod in leaving:
            eventually(lambda pod=pod: self._allows(pod), within=30)
        assert one.foretold is not None
        sources = {pod.source for pod in leaving}
        later = [pod for pod in one.foretold.pods if pod.source in sources and (pod.step or 0) > step]
        one.problems += [
            f"{pod.pod}: its eviction is foretold for step {pod.step}, and allowed in step {step}"
            for pod in later
            if not self._refuses(pod)
        ]

    def _allows(self, pod: DrainedPod) -> bool:
        """Evict a pod; False if it is refused for now."""
        namespace, _, name = pod.pod.partition("/")
        try:
            self._api.evict(name, namespace)
        except Refused as refusal:
            raise AssertionError(f"{pod.pod} is not evicted in step {pod.step}: {refusal}") from None
        return True

    def _refuses(self, pod: DrainedPod) -> bool:
        namespace, _, name = pod.pod.partition("/")
        try:
            self._api.evict(name, namespace, dry_run=True)
        except Refused as refusal:
            return refusal.code in {http.client.TOO_MANY_REQUESTS, http.client.INTERNAL_SERVER_ERROR}
        return False

    def _replacements(self, step: int) -> Iterator[Plain]:
        """The pods of a step that are created again, without a node; of each scenario in the order of its queue."""
        for one in self._scenarios:
            for pod in one.of_step(step):
                if pod.placement is not None:
                    manifest = one.pods[pod.pod.partition("/")[2]]
                    spec = {key: value for key, value in manifest["spec"].items() if key != "nodeName"}
                    yield {**manifest, "spec": spec}

    def _create(self, pods: Iterable[Plain]) -> None:
        """Create pods: scenarios at the same time, the pods of each one after the other."""
        by_namespace = [list(group) for _, group in groupby(pods, key=lambda pod: pod["metadata"]["namespace"])]
        for turn in range(max(map(len, by_namespace), default=0)):
            self._api.create_many(group[turn] for group in by_namespace if turn < len(group))

    def _settle(self) -> None:
        """Returns when the scheduler has nothing more to do now and every pod with a node runs."""

        def rests() -> bool:
            return not self._scheduler_is_busy() and all(map(_is_settled, self._pods().values()))

        eventually(lambda: rests() and _after_a_moment(rests), every=0.05)

    def _scheduler_is_busy(self) -> bool:
        _, metrics = self._scheduler.get("/metrics")
        depths = dict(re.findall(r'^scheduler_pending_pods\{queue="(\w+)"\} (\S+)$', metrics, re.MULTILINE))
        return float(depths["active"]) + float(depths["backoff"]) > 0

    def _budgets_are_known(self) -> bool:
        covered = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in self._pods().values() if _is_ready(pod)}
        for budget in self._api.list("PodDisruptionBudget"):
            wanted = budget["spec"]["selector"].get("matchLabels", {}).items()
            n_pods = sum(
                wanted <= pod["metadata"].get("labels", {}).items()
                for (namespace, _), pod in covered.items()
                if namespace == budget["metadata"]["namespace"]
            )
            if (budget.get("status", {}).get("observedGeneration"), budget["status"].get("currentHealthy")) != (1, n_pods):
                return False
        return True

    def _pods(self) -> dict[tuple[str, str], Plain]:
        return {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in self._api.list("Pod")}

    def _is_new(self, one: Scenario, pod: Plain) -> bool:
        return self._uids[one.namespace, pod["metadata"]["name"]] != pod["metadata"]["uid"]


def _after_a_moment(condition: Callable[[], bool]) -> bool:
    """True if the condition still holds after the time that a watch event may take."""
    time.sleep(0.3)
    return condition()


def _condition(found: Plain, kind: str) -> str | None:
    return next((each["status"] for each in found.get("status", {}).get("conditions", ()) if each["type"] == kind), None)


def _is_ready(found: Plain) -> bool:
    return _condition(found, "Ready") == "True"


def _is_settled(pod: Plain) -> bool:
    """True if a pod runs, or was tried and found no node."""
    return _is_ready(pod) if "nodeName" in pod["spec"] else _condition(pod, "PodScheduled") == "False"
