"""Small example clusters to try policies on.

A node is in one of three zones and one of four pools: general nodes, spot nodes, nodes that belong to the team `search` and are tainted for
it, and nodes with GPUs. Some are cordoned or not ready. The pods that wait for a node differ in what policies ask about: team, priority,
app, disk, GPUs. The same size gives the same objects on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from wharfinger.model.node_labels import HOSTNAME, ZONE

Manifest = dict[str, Any]

JOB = "batch.kubernetes.io/job-name"
ZONES = ("zone-a", "zone-b", "zone-c")
APPS = ("web", "checkout", "search", "mail", "reports")
PER_NODE = 4


class Pool(Struct, frozen=True):
    """Nodes of one kind."""

    cpus: int
    gibibytes: int
    labels: Mapping[str, str]
    taint: str = ""
    gpus: int = 0


GENERAL = Pool(8, 32, {"disktype": "ssd"})
SPOT = Pool(16, 64, {"karpenter.sh/capacity-type": "spot", "disktype": "hdd"})
SEARCH = Pool(16, 128, {"team": "search", "disktype": "nvme"}, taint="dedicated=team:NoSchedule")
GPUS = Pool(32, 128, {"nvidia.com/gpu.product": "T4"}, gpus=4)
POOLS = (GENERAL, SPOT, GENERAL, SEARCH, GENERAL, SPOT, GENERAL, GPUS, GENERAL, SPOT, SEARCH, GENERAL)
"""The pools of twelve nodes, again and again."""

SIZES = {"small": 12, "large": 240}
"""The number of nodes of each example by its name."""


def manifests(name: str) -> list[Manifest]:
    """The nodes and pods of an example; `name` is one of `SIZES`."""
    n_nodes = SIZES[name]
    nodes = [_node(index) for index in range(n_nodes)]
    running = [_running(index, n_nodes) for index in range(PER_NODE * n_nodes)]
    return [*nodes, *running, *_waiting()]


def _node(index: int) -> Manifest:
    pool = POOLS[index % len(POOLS)]
    name = f"node-{index:03d}"
    key, _, rest = pool.taint.partition("=")
    value, _, effect = rest.partition(":")
    amounts = {"cpu": str(pool.cpus), "memory": f"{pool.gibibytes}Gi", "ephemeral-storage": "200Gi", "pods": "110"}
    if pool.gpus:
        amounts |= {"nvidia.com/gpu": str(pool.gpus), "alibabacloud.com/gpu-milli": str(1000 * pool.gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {HOSTNAME: name, ZONE: ZONES[index // 2 % len(ZONES)], **pool.labels},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "unschedulable": index % 60 == 8,
            "taints": [{"key": key, "value": value, "effect": effect}] if pool.taint else [],
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "Unknown" if index % 60 == 4 else "True"}],
        },
    }


def _running(index: int, n_nodes: int) -> Manifest:
    """A running pod. Some nodes are fuller than others."""
    node = (index * 7 + index // n_nodes * 3) % n_nodes
    app = APPS[index % len(APPS)]
    labels = {"app": app, "team": "search"} if POOLS[node % len(POOLS)] is SEARCH else {"app": app}
    cpu = 250 * (1 + (index * 5 + node) % 5)
    pod = _pod(f"{app}-{index:03d}", labels, cpu=f"{cpu}m", memory=f"{1 + (index + node) % 5}Gi")
    pod["spec"]["nodeName"] = f"node-{node:03d}"
    pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    pod["status"] = {"phase": "Running"}
    return pod


def _waiting() -> list[Manifest]:
    tolerant = [{"key": "dedicated", "operator": "Equal", "value": "team", "effect": "NoSchedule"}]
    gpu = {"nvidia.com/gpu": "1", "alibabacloud.com/gpu-milli": "1000"}
    return [
        _pod("web-new", {"app": "web"}, cpu="500m", memory="1Gi"),
        _pod("checkout-new", {"app": "checkout"}, cpu="1", memory="2Gi", priority=2000),
        _pod("query", {"app": "search", "team": "search"}, cpu="4", memory="16Gi", tolerations=tolerant),
        _pod("report", {"app": "reports", "team": "billing"}, cpu="2", memory="8Gi"),
        _pod("database", {"app": "database"}, cpu="2", memory="8Gi", annotations={"wants": "ssd"}),
        _pod("train", {"app": "train", JOB: "train"}, cpu="8", memory="16Gi", gpus=gpu, annotations={"example.com/gang-size": "1"}),
        _pod("archive", {"app": "archive"}, cpu="1", memory="4Gi", selector={ZONE: "zone-b"}),
        _pod("huge", {"app": "huge"}, cpu="64", memory="64Gi"),
    ]


def _pod(name: str, labels: Mapping[str, str], *, cpu: str, memory: str, **more: Any) -> Manifest:
    limits = more.get("gpus", {})
    resources = {"requests": {"cpu": cpu, "memory": memory, **limits}, "limits": limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"shop-{name}",
            "labels": dict(labels),
            "annotations": more.get("annotations", {}),
            "creationTimestamp": "2026-01-02T00:00:00Z",
        },
        "spec": {
            "containers": [{"name": "main", "image": f"{labels['app']}:1", "resources": resources}],
            "priority": more.get("priority", 0),
            "tolerations": more.get("tolerations", []),
            "nodeSelector": more.get("selector", {}),
        },
        "status": {"phase": "Pending"},
    }
