"""Workloads to measure a chain with, one per kind of constraint that people worry about.

Each is a cluster with pods running on it and pods to be placed, all of one kind. What happens after a decision belongs to the kind too:
most assume the placement, `churn` also deletes the oldest pod of the cluster, `preemption` evicts the victims first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from wharfinger.framework.decision import Decision
from wharfinger.model import objects
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.pod import PodView
from wharfinger.runtime import generate

Settle = Callable[[ClusterState, PodView, Decision], None]
Spec = dict[str, Any]

APP = "measured"
SELECTOR = {"matchLabels": {"app": APP}}
ZONE = generate.ZONE_LABEL
HOSTNAME = "kubernetes.io/hostname"
CHURN_TEMPLATES = 20
FULL_NODE = {"cpu": "8", "memory": "16Gi", "pods": "110"}


def assume(state: ClusterState, pod: PodView, decision: Decision) -> None:
    """None; the placement counts for the pods after it."""
    if decision.node is not None:
        state.assume(pod, decision.node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A cluster, the pods to place on it in order, and what follows each decision."""

    state: ClusterState
    pods: tuple[PodView, ...]
    settle: Settle = assume


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a workload is made."""

    nodes: int
    pods: int
    running: int
    templates: int = 1


def workload(family: str, size: Size) -> Workload:
    """The workload of that family (a name in `FAMILIES`)."""
    return FAMILIES[family](size)


def _basic(size: Size) -> Workload:
    return Workload(state=_cluster(size), pods=_pods(generate.pod_manifests(size.pods, size.templates)))


def _churn(size: Size) -> Workload:
    waiting = _pods(generate.pod_manifests(size.pods, CHURN_TEMPLATES))
    state = _cluster(size)
    return Workload(state=state, pods=waiting, settle=_Churn(deque(_running(size))))


@dataclass(slots=True)
class _Churn:
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
        manifest = generate.node_manifests(1)[0]
        manifest["metadata"] = {"name": f"node-{i:05d}", "labels": {HOSTNAME: f"node-{i:05d}"}}
        manifest["status"] = {"capacity": FULL_NODE, "allocatable": FULL_NODE}
        state.add_node(msgspec.convert(manifest, objects.Node))
    for i in range(2 * size.nodes):
        state.add_pod(_pod(f"low-{i:06d}", {"nodeName": f"node-{i % size.nodes:05d}", "priority": 0}, cpu="4"))
    pods = tuple(_pod(f"high-{i:06d}", {"priority": 1000}, cpu="4") for i in range(size.pods))
    return Workload(state=state, pods=pods, settle=_evict)


def _evict(state: ClusterState, pod: PodView, decision: Decision) -> None:
    for victim in decision.victims:
        state.remove_pod(victim)
    if decision.nominated is not None:
        state.assume(pod, decision.nominated)


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
    for node in msgspec.convert(generate.node_manifests(size.nodes), list[objects.Node]):
        state.add_node(node)
    for pod in _running(size):
        state.add_pod(pod)
    return state


def _running(size: Size) -> tuple[PodView, ...]:
    return _pods(list(generate.running_manifests(size.running, size.nodes)))


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
