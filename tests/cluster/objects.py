"""Objects for tests: small and valid, with the fields that scheduling reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def node(
    name: str,
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: list[Any] | None = None,
) -> dict[str, Any]:
    """A node, labelled with its hostname as a kubelet does."""
    room = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": taints} if taints else {},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(
    name: str,
    *,
    cpu: str = "100m",
    memory: str = "128Mi",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str = "default-scheduler",
    **spec: Any,
) -> dict[str, Any]:
    """A pod of one container; further keywords are fields of its spec."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def podgroup(name: str, min_count: int = 0, *, within: str = "", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A PodGroup of Kubernetes: of a gang, or without `min_count` of single pods; `within` one value of a node label."""
    constraints = {"schedulingConstraints": {"topology": [{"key": within}]}} if within else {}
    policy: dict[str, Any] = {"gang": {"minCount": min_count}} if min_count else {"basic": {}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": policy, **constraints, **spec},
    }


def deployment(name: str, replicas: int, **of_pod: Any) -> dict[str, Any]:
    """A Deployment of pods as `pod` makes them."""
    template = pod("", labels={"app": name}, **of_pod)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": template["metadata"]["namespace"]},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }
