"""Five hundred pods with every kind of scheduling requirement, on different nodes; the same in every run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.cluster import objects

ZONES = ("a", "b", "c")
ZONE, HOST, DISK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "disk"
DEDICATED = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
PRIORITIES = {"low": -10, "high": 1000, "highest": 2000}

POLICY = """
policy "mixed"

for pods where pod.labels["team"] ?? "" == "data"

let siblings = pods where (it.labels["team"] ?? "") == "data"
let here = count(siblings, on: node)

filter not_crowded {
  require here < 12 else "already runs {here} pods of this team"
}

score emptier weight 5 = -here normalize minmax
score over_zones weight 2 = spread(siblings, by: "topology.kubernetes.io/zone") on missing 0
score room weight 3 = node.free.memory / node.allocatable.memory normalize minmax on missing 0
"""


def node(i: int) -> dict[str, Any]:
    """Keywords of `objects.node`."""
    labels = {ZONE: ZONES[i % 3], DISK: "ssd" if i % 4 == 0 else "hdd", "rank": str(i)}
    taints = {5: [DEDICATED], 6: [{"key": "old", "effect": "PreferNoSchedule"}]}.get(i % 7)
    return {"cpu": ("8", "16", "32")[i % 3], "memory": ("16Gi", "64Gi")[i % 2], "labels": labels, "taints": taints}


def setting() -> Iterator[dict[str, Any]]:
    """The objects that pods refer to: priority classes, namespaces, a service that spreads its pods by default."""
    for name, value in PRIORITIES.items():
        yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name in ("shop", "lab"):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"tier": name}}}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


def pods(n: int, scheduler: str, seed: int = 5) -> list[dict[str, Any]]:
    """The given number of pods in no order of name or kind."""
    draw = random.Random(seed)
    names = [f"{draw.choice('abcdefgh')}-{i:04d}" for i in range(n)]
    return [_pod(name, draw.choice(KINDS), draw, scheduler) for name in draw.sample(names, n)]


def _pod(name: str, kind: Callable[[random.Random], dict[str, Any]], draw: random.Random, scheduler: str) -> dict[str, Any]:
    asked = {"cpu": f"{draw.choice((50, 100, 250, 700))}m", "memory": f"{draw.choice((64, 128, 512, 1000))}Mi"}
    namespace = draw.choice(("default", "shop", "lab"))
    priority = {"priorityClassName": draw.choice(tuple(PRIORITIES))} if draw.random() < 0.3 else {}
    return objects.pod(name, namespace=namespace, scheduler=scheduler, **{**asked, **priority, **kind(draw)})


def _plain(draw: random.Random) -> dict[str, Any]:
    return {"labels": {"app": draw.choice(("web", "plain"))}}


def _team(_: random.Random) -> dict[str, Any]:
    return {"labels": {"team": "data"}}


def _spread(draw: random.Random) -> dict[str, Any]:
    action = draw.choice(("DoNotSchedule", "ScheduleAnyway"))
    constraint = {"maxSkew": 5, "topologyKey": draw.choice((ZONE, HOST)), "whenUnsatisfiable": action, "labelSelector": _app("spread")}
    return {"labels": {"app": "spread"}, "topologySpreadConstraints": [constraint]}


def _apart(draw: random.Random) -> dict[str, Any]:
    app = f"apart-{draw.randrange(4)}"
    return {"labels": {"app": app}, "affinity": {"podAntiAffinity": {REQUIRED: [_term(app)]}}}


def _with_affinity(draw: random.Random) -> dict[str, Any]:
    term = {**_term("plain"), "namespaceSelector": {"matchLabels": {"tier": "shop"}}}
    weighted = {"weight": draw.choice((20, 80)), "podAffinityTerm": term}
    side = draw.choice(("podAffinity", "podAntiAffinity"))
    return {"labels": {"app": "beside"}, "affinity": {side: {PREFERRED: [weighted]}}}


def _chosen(draw: random.Random) -> dict[str, Any]:
    needed = {"matchExpressions": [{"key": "rank", "operator": "Lt", "values": ["33"]}]}
    wanted = {"weight": 50, "preference": {"matchExpressions": [{"key": DISK, "operator": "In", "values": ["ssd"]}]}}
    both = {REQUIRED: {"nodeSelectorTerms": [needed]}, PREFERRED: [wanted]}
    return {"affinity": {"nodeAffinity": both}} if draw.random() < 0.5 else {"nodeSelector": {ZONE: draw.choice(ZONES)}}


def _tolerant(_: random.Random) -> dict[str, Any]:
    return {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]}


def _hopeless(draw: random.Random) -> dict[str, Any]:
    return draw.choice(({"cpu": "40"}, {"nodeSelector": {DISK: "tape"}}, {"cpu": "20", "nodeSelector": {DISK: "ssd"}, "memory": "40Gi"}))


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KINDS = (_plain, _plain, _team, _team, _spread, _apart, _with_affinity, _chosen, _tolerant, _hopeless)


def _app(name: str) -> dict[str, Any]:
    return {"matchLabels": {"app": name}}


def _term(app: str) -> dict[str, Any]:
    return {"labelSelector": _app(app), "topologyKey": HOST}
