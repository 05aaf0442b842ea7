"""Clusters and pods made to measure: the same numbers give the same objects, on every machine.

Nodes come in three sizes, stand in ten zones, and differ in disk, lifecycle and taints, so that filters and scores have something to tell
apart. Pods come from templates that differ in app, tier and requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ZONES = 10
ZONE_LABEL = "topology.kubernetes.io/zone"

_SIZES = ((8, 32), (16, 64), (32, 128))  # CPUs and GiB of memory
_TIERS = ("web", "api", "batch")


def node_manifests(n_nodes: int) -> list[dict[str, Any]]:
    """Nodes `node-00000` to `node-NNNNN`; every 20th is a spot node and every 50th is tainted for batch work."""
    return [_node(i) for i in range(n_nodes)]


def pod_manifests(n_pods: int, n_templates: int = 1) -> list[dict[str, Any]]:
    """Pending pods of `n_templates` templates in turn, each small enough that many fit on a node."""
    return [_pod(i, i % n_templates) for i in range(n_pods)]


def running_manifests(n_pods: int, n_nodes: int, n_templates: int = 20) -> Iterator[dict[str, Any]]:
    """Pods that already run, dealt out over the nodes with a stride so that nodes of all zones and sizes have some."""
    for i in range(n_pods):
        pod = _pod(i, i % n_templates)
        pod["metadata"]["name"] = f"running-{i:06d}"
        pod["spec"]["nodeName"] = f"node-{(i * 7919) % n_nodes:05d}"
        pod["status"] = {"phase": "Running"}
        yield pod


def _node(i: int) -> dict[str, Any]:
    cpus, memory = _SIZES[i % len(_SIZES)]
    name = f"node-{i:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        ZONE_LABEL: f"zone-{i % ZONES}",
        "node.kubernetes.io/instance-type": f"size-{cpus}",
        "disktype": ("hdd", "ssd", "nvme")[i % 7 % 3],
        "lifecycle": "spot" if i % 20 == 0 else "on-demand",
    }
    amounts = {"cpu": str(cpus), "memory": f"{memory}Gi", "ephemeral-storage": "200Gi", "pods": "110"}
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}] if i % 50 == 49 else []
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _pod(i: int, template: int) -> dict[str, Any]:
    requests = {"cpu": f"{10 * (1 + template % 20)}m", "memory": f"{16 * (1 + template % 12)}Mi"}
    return {
        "metadata": {
            "name": f"pod-{i:06d}",
            "namespace": "default",
            "labels": {"app": f"app-{template:03d}", "tier": _TIERS[template % len(_TIERS)]},
        },
        "spec": {"containers": [{"name": "main", "image": f"app-{template:03d}:1", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }
