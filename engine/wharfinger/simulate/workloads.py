"""Generated clusters and pods, and workloads to measure a chain with: the same numbers give the same objects on every machine.

Nodes have three sizes, ten zones, and different disks, lifecycles and taints, so filters and scores have something to distinguish. Pods
come from templates that differ in app, tier and requests. A workload is a cluster with pods running on it and pods to be placed, all of one
kind. What happens after a decision belongs to the kind too: most assume the placement, `churn` also deletes the oldest pod of the cluster,
`preemption` evicts the victims first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from wharfinger.framework.evaluation.decision import Decision
from wharfinger.model import objects
from wharfinger.model.node_labels import HOSTNAME, INSTANCE_TYPE, ZONE
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

ZONES = 10

_SIZES = ((8, 32), (16, 64), (32, 128))  # CPUs and GiB of memory
_TIERS = ("web", "api", "batch")


def node_manifests(n_nodes: int) -> list[dict[str, Any]]:
    """Nodes `node-00000` to `node-NNNNN`; every 20th is a spot node and every 50th is tainted for batch work."""
    return [_node_manifest(i) for i in range(n_nodes)]


def pod_manifests(n_pods: int, n_templates: int = 1) -> list[dict[str, Any]]:
    """Pending pods of `n_templates` templates in turn, each small enough that many fit on a node."""
    return [_pod_manifest(i, i % n_templates) for i in range(n_pods)]


def running_manifests(n_pods: int, n_nodes: int) -> Iterator[dict[str, Any]]:
    """Running pods, distributed over the nodes with a stride, so that nodes of all zones and sizes have some."""
    for i in range(n_pods):
        pod = _pod_manifest(i, i % RUNNING_TEMPLATES)
        pod["metadata"]["name"] = f"running-{i:06d}"
        pod["spec"]["nodeName"] = f"node-{(i * 7919) % n_nodes:05d}"
        pod["status"] = {"phase": "Running"}
        yield pod


def _node_manifest(i: int) -> dict[str, Any]:
    cpus, memory = _SIZES[i % len(_SIZES)]
    name = f"node-{i:05d}"
    labels = {
        HOSTNAME: name,
        ZONE: f"zone-{i % ZONES}",
        INSTANCE_TYPE: f"size-{cpus}",
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


def _pod_manifest(i: int, template: int) -> dict[str, Any]:
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


AfterDecision = Callable[[ClusterState, PodView, Decision], None]
Spec = dict[str, Any]

APP = "measured"
SELECTOR = {"matchLabels": {"app": APP}}
CHURN_TEMPLATES = 20
RUNNING_TEMPLATES = 20
FULL_NODE = {"cpu": "8", "memory": "16Gi", "pods": "110"}


def assume(state: ClusterState, _pod: PodView, decision: Decision) -> None:
    """Assume the placement, so that it counts for the pods after it."""
    if decision.node is not None:
        state.assume(decision.assigned, decision.node)


class Workload(Struct, frozen=True, kw_only=True):
    """A cluster, the pods to place on it in order, and the change after each decision."""

    state: ClusterState
    pods: tuple[PodView, ...]
    after_decision: AfterDecision = assume


class Size(Struct, frozen=True, kw_only=True):
    """The number of nodes, pods and templates of a workload."""

    nodes: int
    pods: int
    running: int
    templates: int = 1


def workload(family: str, size: Size) -> Workload:
    """The workload of that family (a name in `FAMILIES`)."""
    return FAMILIES[family](size)


def _basic(size: Size) -> Workload:
    return Workload(state=_cluster(size), pods=_pods(pod_manifests(size.pods, size.templates)))


def _churn(size: Size) -> Workload:
    waiting = _pods(pod_manifests(size.pods, CHURN_TEMPLATES))
    state = _cluster(size)
    return Workload(state=state, pods=waiting, after_decision=_Churn(deque(_running(size))))


class _Churn(Struct):
    """Deletes the oldest pod for each one placed."""

    alive: deque[PodView] = field(default_factory=deque)

    def __call__(self, state: ClusterState, pod: PodView, decision: Decision) -> None:
        assume(state, pod, decision)
        self.alive.append(pod)
        oldest = self.alive.popleft()
        if state.is_assumed(oldest.uid):
            state.forget(oldest)
        else:
            state.remove_pod(oldest)


def _preemption(size: Size) -> Workload:
    state = ClusterState()
    for i in range(size.nodes):
        manifest = node_manifests(1)[0]
        manifest["metadata"] = {"name": f"node-{i:05d}", "labels": {HOSTNAME: f"node-{i:05d}"}}
        manifest["status"] = {"capacity": FULL_NODE, "allocatable": FULL_NODE}
        state.add_node(msgspec.convert(manifest, objects.Node))
    for i in range(2 * size.nodes):
        state.add_pod(_pod(f"low-{i:06d}", {"nodeName": f"node-{i % size.nodes:05d}", "priority": 0}, cpu="4"))
    pods = tuple(_pod(f"high-{i:06d}", {"priority": 1000}, cpu="4") for i in range(size.pods))
    return Workload(state=state, pods=pods, after_decision=_evict)


def _evict(state: ClusterState, pod: PodView, decision: Decision) -> None:
    for victim in decision.victims:
        state.remove_pod(victim)
    if decision.nominated is not None:
        state.assume(decision.chain.assigned_on(pod, state.snapshot(), decision.nominated), decision.nominated)


def _constrained(spec: Spec, service: bool = False) -> Callable[[Size], Workload]:
    def make(size: Size) -> Workload:
        state = _cluster(size)
        if service:
            manifest = {"metadata": {"name": APP, "namespace": "default"}, "spec": {"selector": {"app": APP}}}
            state.objects.put(msgspec.convert(manifest, objects.Service))
        return Workload(state=state, pods=tuple(_pod(f"pod-{i:06d}", spec) for i in range(size.pods)))

    return make


def _cluster(size: Size) -> ClusterState:
    state = ClusterState()
    for node in msgspec.convert(node_manifests(size.nodes), list[objects.Node]):
        state.add_node(node)
    for pod in _running(size):
        state.add_pod(pod)
    return state


def _running(size: Size) -> tuple[PodView, ...]:
    return _pods(list(running_manifests(size.running, size.nodes)))


def _pods(manifests: list[dict[str, Any]]) -> tuple[PodView, ...]:
    return tuple(PodView(pod) for pod in msgspec.convert(manifests, list[objects.Pod]))


def _pod(name: str, spec: Spec, cpu: str = "100m") -> PodView:
    container = {"name": "main", "image": f"{APP}:1", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": APP}}
    return PodView(msgspec.convert({"metadata": metadata, "spec": {"containers": [container], **spec}}, objects.Pod))


def _spread(when: str) -> Spec:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": SELECTOR}
    return {"topologySpreadConstraints": [constraint]}


def _affinity(kind: str, key: str, *, required: bool) -> Spec:
    term = {"labelSelector": SELECTOR, "topologyKey": key}
    if required:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}}}


FAMILIES: Mapping[str, Callable[[Size], Workload]] = {
    "basic": _basic,
    "spread-zone": _constrained(_spread("DoNotSchedule")),
    "spread-zone-soft": _constrained(_spread("ScheduleAnyway")),
    "spread-default": _constrained({}, service=True),
    "anti-affinity": _constrained(_affinity("podAntiAffinity", HOSTNAME, required=True)),
    "anti-affinity-preferred": _constrained(_affinity("podAntiAffinity", HOSTNAME, required=False)),
    "affinity": _constrained(_affinity("podAffinity", ZONE, required=True)),
    "affinity-preferred": _constrained(_affinity("podAffinity", ZONE, required=False)),
    "churn": _churn,
    "unschedulable": _constrained({"nodeSelector": {"nowhere": "true"}}),
    "preemption": _preemption,
}
"""Workloads by the name that `wharf bench --family` takes."""
