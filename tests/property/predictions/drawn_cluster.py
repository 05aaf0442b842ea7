"""Random small clusters: nodes, pods and the objects and policies that decide about them, by a seed."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import wharfinger
from tests import local_volumes
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.model import objects

Plain = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("a", "b", "c")
OWNERS = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job")
PRIORITIES = (0, 100, 1000)
WIDGET, GPU = "example.com/widget", "nvidia.com/gpu"
DRIVER = "gpu.example.com"
TEMPLATE = "one-gpu"
FAST = "fast"
BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
IMAGES = ("web:1", "db:2")
BEGIN = 1_700_000_000
"""The time at which the scheduler starts, in seconds since 1970."""
DEDICATED = {"key": "dedicated", "value": "batch"}
_REQUIRED, _PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"

HEAD = """policy "{name}"{scope}
let mine = pods where (it.labels["app"] ?? "") == (pod.labels["app"] ?? "-")
let here = count(mine, on: node)
"""
RULES = {
    "few": 'filter few { require here < 4 else "runs {here} of them" }',
    "few in zone": f'filter few_in_zone {{ require count(mine, within: "{ZONE}") < 6 else "enough there" on missing pass }}',
    "no hdd": 'filter no_hdd { reject (node.labels["disk"] ?? "-") == "hdd" else "slow disk" }',
    "not hot": 'filter not_hot { require load < 80% else "load {load}" on missing pass }',
    "cool": "score cool weight 2 = (100% - load) * 100 normalize max on missing neutral",
    "roomy": "score roomy weight 2 = least_allocated()",
    "full": "score full weight 3 = most_allocated()",
    "apart": f'score apart weight 4 = -count(mine, within: "{ZONE}") normalize minmax on missing 0',
    "together": f'score together weight 4 = count(mine, within: "{ZONE}") normalize minmax on missing 0',
    "keep b": 'preemption { never_evict when (it.labels["app"] ?? "") == "b" }',
    "only c": 'preemption { only_evict when (it.labels["app"] ?? "") == "c" }',
}
METRIC = 'metric load: percent = prometheus("node_load", max_age: 5min, min_coverage: 50%)'
TIES = 'tie_break number(node.labels["rank"] ?? "") {way}, node.name asc'
"""Each node has a rank of its own, so that no tie is left to the uid, which is new for a pod that is created again."""


@dataclass(slots=True)
class DrawnCluster:
    """The objects of a cluster, and the texts of its policies.

    `pods` are in the order of their creation; those without a node wait. `load` has the value and the age in seconds of each node's sample
    of the metric `load`.
    """

    seed: int
    draw: random.Random
    nodes: list[objects.Node] = field(default_factory=list)
    pods: list[objects.Pod] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    load: dict[str, tuple[float, float]] = field(default_factory=dict)


def drawn(seed: int, *without: str, always: Collection[str] = (), pods: tuple[int, int] = (5, 18), running: float = 0.85) -> DrawnCluster:
    """The cluster of a seed, with the features `always` and `without` others.

    `running` is the part of the pods that have a node from the beginning.
    """
    found = DrawnCluster(seed, random.Random(seed))
    draw = found.draw
    features = {name for name in FEATURES if draw.random() < 0.4} - set(without)
    if draw.random() < 0.2:
        features = set(FEATURES) - set(without)
    features |= set(always)
    _draw_nodes(found, features)
    _draw_classes(found, features)
    _draw_pods(found, features, pods, running)
    if "budgets" in features:
        _draw_budgets(found)
    _draw_policies(found, features)
    return found


FEATURES = (
    "priorities",
    "preemption",
    "budgets",
    "spread",
    "affinity",
    "preferred",
    "volumes",
    "devices",
    "gangs",
    "gates",
    "taints",
    "cordons",
    "daemons",
    "ports",
    "images",
    "extended",
    "scopes",
    "metrics",
    "victims",
    "counting",
    "sidecars",
    "jobs",
    "unready",
)


def _draw_nodes(found: DrawnCluster, features: set[str]) -> None:
    draw = found.draw
    ranks = draw.sample(range(100), 8)
    spare = draw.choice((0, 0, 4))
    for number in range(draw.randint(3, 7)):
        name = f"n{number}"
        labels = {HOST: name, "rank": str(ranks[number])}
        if draw.random() < 0.95:
            labels[ZONE] = draw.choice("xyz")
        if draw.random() < 0.5:
            labels["disk"] = draw.choice(("ssd", "hdd"))
        taints = []
        if "taints" in features and draw.random() < 0.3:
            taints.append({**DEDICATED, "effect": draw.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))})
        amounts = {
            "cpu": str(draw.randint(2, 6) + spare),
            "memory": "16Gi",
            "pods": str(draw.randint(4, 12) + spare),
            "ephemeral-storage": "50Gi",
        }
        if "extended" in features and draw.random() < 0.6:
            amounts |= {WIDGET: str(draw.randint(1, 4)), GPU: str(draw.choice((0, 2, 4)))}
        images = [{"names": [image], "sizeBytes": 400_000_000} for image in IMAGES if "images" in features and draw.random() < 0.4]
        spec: Plain = {"taints": taints}
        if "cordons" in features and draw.random() < 0.15:
            spec |= {"unschedulable": True, "taints": [*taints, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
        status = {"allocatable": amounts, "capacity": amounts, "images": images, "conditions": [{"type": "Ready", "status": "True"}]}
        found.nodes.append(msgspec.convert({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}, objects.Node))
        if "devices" in features and draw.random() < 0.7:
            found.others.append(_slice(name, draw.randint(1, 3), draw))
        if "metrics" in features and draw.random() < 0.85:
            found.load[name] = (draw.choice((0.1, 0.5, 0.7, 0.9)), float(draw.choice((0, 0, 0, 10, 1000))))


def _slice(node: str, devices: int, draw: random.Random) -> objects.ResourceSlice:
    listed = [{"name": f"gpu-{number}", "attributes": {"model": {"string": draw.choice(("l", "s"))}}} for number in range(devices)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    return msgspec.convert({"metadata": {"name": f"{node}-gpus"}, "spec": spec}, objects.ResourceSlice)


def _draw_classes(found: DrawnCluster, features: set[str]) -> None:
    if "volumes" in features:
        for name, provisioner in ((local_volumes.CLASS, "kubernetes.io/no-provisioner"), (FAST, "csi.example.com")):
            plain = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            found.others.append(msgspec.convert(plain, objects.StorageClass))
    if "devices" in features:
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        found.others.append(msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}, objects.DeviceClass))
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
        template = {"metadata": {"name": TEMPLATE, "namespace": "default"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        found.others.append(msgspec.convert(template, objects.ResourceClaimTemplate))


# ── pods ──


def _draw_pods(found: DrawnCluster, features: set[str], how_many: tuple[int, int], running: float) -> None:
    draw = found.draw
    room = {node.metadata.name: int(node.status.allocatable["cpu"]) * 1000 for node in found.nodes}
    slots = {node.metadata.name: int(node.status.allocatable["pods"]) for node in found.nodes}
    ports: set[tuple[str, int]] = set()
    templates = [draw_template(found, features, app) for app in APPS]
    plain: list[Plain] = []
    for number in range(draw.randint(*how_many)):
        template = draw.choice(templates) if draw.random() < 0.7 else draw_template(found, features, draw.choice(APPS))
        pod = drawn_pod(found, f"p{number:02d}", template)
        millis, spec = template["millis"], pod["spec"]
        port = next((each["hostPort"] for c in spec["containers"] for each in c.get("ports", ())), None)
        fits = [name for name in room if room[name] >= millis and slots[name] > 0 and (port is None or (name, port) not in ports)]
        # pods run where any rule but requests and ports might forbid it: those rules may have changed since
        if fits and draw.random() < running and "resourceClaims" not in spec and not _asks_extended(spec):
            node = spec["nodeName"] = draw.choice(fits)
            room[node] -= millis
            slots[node] -= 1
            if port is not None:
                ports.add((node, port))
            if template["owner"] == "DaemonSet":
                here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [here]}}}
            pod["status"] = {"phase": "Running"}
            if "unready" in features and draw.random() < 0.2:
                pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        elif pod["metadata"]["ownerReferences"] and pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet":
            continue
        elif "gates" in features and draw.random() < 0.3:
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        plain.append(pod)
        if "volumes" in features and draw.random() < 0.2:
            _give_volume(found, pod)
    if "gangs" in features:
        _draw_gangs(found, plain)
    found.pods = [msgspec.convert(pod, objects.Pod) for pod in plain]


def _asks_extended(spec: Plain) -> bool:
    return any(set(c["resources"]["requests"]) & {WIDGET, GPU} for c in spec["containers"])


def draw_template(found: DrawnCluster, features: set[str], app: str) -> Plain:
    """What pods of one workload have in common: a spec, and `millis` that they take."""
    draw = found.draw
    millis = draw.choice((100, 300, 500, 1000, 1500, 2500))
    container: Plain = {"name": "main", "image": draw.choice(IMAGES), "resources": {"requests": {"cpu": f"{millis}m", "memory": "64Mi"}}}
    spec: Plain = {"containers": [container], "schedulerName": "wharfinger", **_constraints(found, features)}
    spec["priority"] = draw.choice(PRIORITIES) if "priorities" in features else 0
    spec["preemptionPolicy"] = "PreemptLowerPriority" if "preemption" in features and draw.random() < 0.8 else "Never"
    if "ports" in features and draw.random() < 0.2:
        container["ports"] = [{"containerPort": 80, "hostPort": draw.choice((80, 81))}]
    if "extended" in features and draw.random() < 0.15:
        container["resources"]["requests"][draw.choice((WIDGET, GPU))] = str(draw.randint(1, 2))
    if "devices" in features and draw.random() < 0.15:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}]
        container["resources"]["claims"] = [{"name": "gpu"}]
    if "sidecars" in features and draw.random() < 0.3:
        more = draw.choice((200, 2000))
        first = {"name": "first", "image": "x", "resources": {"requests": {"cpu": f"{more}m"}}}
        always = draw.random() < 0.5
        spec["initContainers"] = [{**first, "restartPolicy": "Always"} if always else first]
        millis = millis + more if always else max(millis, more)
    if draw.random() < 0.05:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    kinds = ["ReplicaSet", "StatefulSet", ""]
    weights = [45, 45, 10]
    if "daemons" in features:
        kinds, weights = [*kinds, "DaemonSet"], [*weights, 10]
    if "jobs" in features:
        kinds, weights = [*kinds, "Job"], [*weights, 15]
    return {"millis": millis, "spec": spec, "app": app, "owner": draw.choices(kinds, weights)[0]}


def drawn_pod(found: DrawnCluster, name: str, template: Plain) -> Plain:
    """A pod of a template, without a node."""
    spec = msgspec.convert(msgspec.to_builtins(template["spec"]), dict)
    labels = {"app": template["app"]} if found.draw.random() < 0.97 else {}
    owner = template["owner"]
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": f"uid-{owner}", "controller": True}] if owner else []
    created = f"2023-11-14T21:{int(name[1:]) if name[1:].isdigit() else 59:02d}:00Z"
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, "ownerReferences": owners}
    return {"metadata": {**metadata, "creationTimestamp": created}, "spec": spec}


def _constraints(found: DrawnCluster, features: set[str]) -> Plain:
    """Some of the rules that a pod can have about its node, as fields of its spec."""
    draw = found.draw
    spec: Plain = {}
    affinity: Plain = {}

    def term() -> Plain:
        return {"labelSelector": {"matchLabels": {"app": draw.choice(APPS)}}, "topologyKey": draw.choice((HOST, ZONE))}

    if "affinity" in features and draw.random() < 0.3:
        affinity[draw.choice(("podAntiAffinity", "podAffinity"))] = {_REQUIRED: [term()]}
    if "preferred" in features and draw.random() < 0.4:
        kind = draw.choice(("podAntiAffinity", "podAffinity"))
        affinity.setdefault(kind, {})[_PREFERRED] = [{"weight": 50, "podAffinityTerm": term()}]
    if "spread" in features and draw.random() < 0.4:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": draw.randint(1, 2),
                "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
                "nodeTaintsPolicy": draw.choice(("Honor", "Ignore")),
                **term(),
            }
        ]
    if draw.random() < 0.1:
        spec["nodeSelector"] = {"disk": "ssd"}
    if "taints" in features and draw.random() < 0.4:
        spec["tolerations"] = [draw.choice(TOLERATIONS)]
    if affinity:
        spec["affinity"] = affinity
    return spec


TOLERATIONS = (
    {"key": "dedicated", "operator": "Exists"},
    {"operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
)


def _give_volume(found: DrawnCluster, pod: Plain) -> None:
    """Give a pod a claim for a local volume of a node, or of a zone; for a running pod it is bound."""
    draw, name = found.draw, pod["metadata"]["name"]
    node = pod["spec"].get("nodeName")
    at = next((each for each in found.nodes if each.metadata.name == node), None) or draw.choice(found.nodes)
    zone = at.metadata.labels.get(ZONE)
    key, value = (ZONE, zone) if zone and draw.random() < 0.5 else (HOST, at.metadata.name)
    volume, wanted = local_volumes.specs(name, key, value)
    claim: Plain = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-claim-{name}"}, "spec": wanted}
    owned: Plain = {"metadata": {"name": f"pv-{name}", "labels": {"volume": name}}, "spec": volume, "status": {"phase": "Available"}}
    if node:
        volume["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": f"uid-claim-{name}"}
        wanted["volumeName"] = f"pv-{name}"
        claim["metadata"]["annotations"] = BOUND
        claim["status"], owned["status"] = {"phase": "Bound"}, {"phase": "Bound"}
    found.others += [msgspec.convert(owned, objects.PersistentVolume), msgspec.convert(claim, objects.PersistentVolumeClaim)]
    volumes = pod["spec"].get("volumes", [])
    pod["spec"]["volumes"] = [*volumes, {"name": "local", "persistentVolumeClaim": {"claimName": name}}]


def _draw_gangs(found: DrawnCluster, pods: list[Plain]) -> None:
    draw = found.draw
    members = [pod for pod in pods if not pod["spec"].get("schedulingGates")]
    for number in range(draw.randint(1, 2)):
        chosen = draw.sample(members, min(len(members), draw.randint(2, 4)))
        members = [pod for pod in members if pod not in chosen]
        if not chosen:
            return
        name = f"gang-{number}"
        spec = {"schedulingPolicy": {"gang": {"minCount": max(len(chosen) - draw.randint(0, 1), 1)}}}
        found.others.append(msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, objects.PodGroup))
        for pod in chosen:
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
            for part in ("priority", "preemptionPolicy"):
                pod["spec"][part] = chosen[0]["spec"][part]


# ── what limits evictions, and policies ──


def _draw_budgets(found: DrawnCluster) -> None:
    draw = found.draw
    for app in APPS:
        if draw.random() < 0.5:
            found.others.append(_budget(f"{app}-budget", {"matchLabels": {"app": app}}, draw.randint(0, 4)))
    if draw.random() < 0.1:
        found.others.append(_budget("all", {}, draw.randint(0, 6)))


def _budget(name: str, selector: Plain, least: int) -> objects.PodDisruptionBudget:
    spec = {"minAvailable": least, "selector": selector}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, objects.PodDisruptionBudget)


def _draw_policies(found: DrawnCluster, features: set[str]) -> None:
    draw = found.draw
    rules = ["no hdd", "roomy", "full"]
    rules += ["few", "few in zone", "apart", "together"] if "counting" in features else []
    rules += ["not hot", "cool"] if "metrics" in features else []
    rules += ["keep b", "only c"] if "victims" in features else []
    chosen = draw.sample(rules, draw.randint(0, min(4, len(rules))))
    if "not hot" in chosen or "cool" in chosen:
        chosen.sort(key=lambda name: name not in {"not hot", "cool"})
    found.policies.append(_policy("main", "", [name for name in chosen if name != "full" or "roomy" not in chosen], draw))
    if "scopes" in features:
        scope = f'\nfor pods where (pod.labels["app"] ?? "") == "{draw.choice(APPS)}"'
        found.policies.append(_policy("some", scope, draw.sample(rules, draw.randint(1, 2)), draw))


def _policy(name: str, scope: str, rules: list[str], draw: random.Random) -> str:
    measured = [METRIC] if {"not hot", "cool"} & set(rules) else []
    ties = [TIES.format(way=draw.choice(("asc", "desc")))] if not scope else []
    return "\n".join([HEAD.format(name=name, scope=scope), *measured, *(RULES[rule] for rule in rules), *ties]) + "\n"


def load(folder: Path, one: DrawnCluster) -> tuple[CompiledPolicy, ...]:
    """The policies of a drawn cluster."""
    paths = [folder / f"{number}.policy" for number in range(len(one.policies))]
    for path, text in zip(paths, one.policies, strict=True):
        path.write_text(text)
    return wharfinger.load_policies(*paths)
