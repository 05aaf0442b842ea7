"""The measured workloads: clusters, pods and the goal of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.cluster import devices, objects

ZONES = 10
RACKS = 50
DEVICES = 8
RUNNING = "kube-system"
"""The namespace of pods that run already; every API server has it."""
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
APP = {"app": "measured"}
SELECTOR = {"matchLabels": APP}
ZONE = "topology.kubernetes.io/zone"
RACK = "topology.kubernetes.io/rack"
HOSTNAME = "kubernetes.io/hostname"

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`pods` of one kind on that many nodes.

    Without a `pace` they all wait when the scheduler starts; with one they are created that many a second while it runs. `ratio` is how
    many times kube-scheduler's pods/s are wanted, `more_than` and `below` are wanted pods/s and seconds at the 99th percentile, which are
    three times as good as those of schedulers before this one, and `share` is of the bare bind rate. `memory`, `latency`: no more
    of it, and no later at the 99th percentile, than kube-scheduler. `running` other pods run already, and the first binding is wanted
    within `first` seconds of the scheduler's start. With a `gang` that many pods each are a group that is placed whole or not at all, and
    with `one_rack` on nodes of one rack. With `devices` each pod has a claim of a template for this number, which have the attribute
    `match` in common; every node has eight, four of each NUMA node.
    """

    name: str
    nodes: int
    pods: int
    spec: Spec = field(default_factory=dict)
    pace: float | None = None
    ratio: float | None = None
    more_than: float | None = None
    below: float | None = None
    share: float | None = None
    memory: bool = False
    latency: bool = False
    bare: bool = False
    running: int = 0
    first: float | None = None
    gang: int = 0
    one_rack: bool = False
    devices: int = 0
    match: str = ""

    def scaled(self, scale: float) -> Workload:
        """The same, that many times smaller or larger."""
        nodes, pods = max(4, round(self.nodes * scale)), max(20, round(self.pods * scale))
        return replace(self, nodes=nodes, pods=pods, running=round(self.running * scale))

    def manifests(self, scheduler: str) -> Iterator[dict[str, Any]]:
        """The pods, for the scheduler of that name."""
        kind = devices.pod if self.devices else objects.pod
        for i in range(self.pods):
            group = {"schedulingGroup": {"podGroupName": self._group(i)}} if self.gang else {}
            yield kind(f"{self.name}-{i:05d}", labels=APP, scheduler=scheduler, **group, **self.spec)

    def podgroups(self) -> Iterator[dict[str, Any]]:
        """The PodGroups of the pods; the last may have fewer members than the others."""
        for first in range(0, self.pods if self.gang else 0, max(1, self.gang)):
            members = min(self.gang, self.pods - first)
            yield objects.podgroup(self._group(first), members, within=RACK if self.one_rack else "")

    def device_objects(self) -> Iterator[dict[str, Any]]:
        """The class of devices, the template of claims, and the devices of all nodes."""
        if self.devices:
            more = {"constraints": [{"matchAttribute": self.match}]} if self.match else {}
            yield devices.device_class()
            yield devices.template(self.devices, **more)
            yield from (devices.resource_slice(node_name(i), DEVICES) for i in range(self.nodes))

    def _group(self, pod: int) -> str:
        return f"{self.name}-{pod // self.gang:05d}"


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number:05d}"


def nodes(first: int, end: int) -> Iterator[dict[str, Any]]:
    """Ready nodes of 32 cores over ten zones and fifty racks."""
    for i in range(first, end):
        node = objects.node(node_name(i), cpu="32", memory="256Gi", labels={ZONE: f"zone-{i % ZONES}", RACK: f"rack-{i % RACKS}"})
        node["status"]["conditions"] = [READY]
        yield node


def running(first: int, end: int, n_nodes: int) -> Iterator[dict[str, Any]]:
    """Pods that run already, spread over the nodes."""
    for i in range(first, end):
        pod = objects.pod(f"running-{i:05d}", namespace=RUNNING, labels={"app": f"app-{i % 500}"})
        pod["spec"]["nodeName"] = node_name(i % n_nodes)
        yield pod


def _term(key: str) -> dict[str, Any]:
    return {"labelSelector": SELECTOR, "topologyKey": key}


SPREAD = {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_term(ZONE)}]}
ANTI_AFFINITY = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(HOSTNAME)]}}}
PREFERRED = [{"weight": 100, "podAffinityTerm": _term(ZONE)}]
PREFERRED_AFFINITY = {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}}}

# In the order of their nodes and of the pods that run already: a cluster only grows.
WORKLOADS = (
    Workload(name="sixteen", nodes=16, pods=1000, more_than=3 * 317),
    Workload(name="sixteen-paced", nodes=16, pods=1000, pace=100, below=0.068 / 3),
    Workload(name="hundred", nodes=100, pods=5000, more_than=3 * 89.6),
    Workload(name="hundred-paced", nodes=100, pods=1000, pace=100, below=0.317 / 3),
    Workload(name="claims", nodes=500, pods=1000, devices=1, ratio=3),
    Workload(name="claims-match", nodes=500, pods=1000, devices=4, match=devices.NUMA, ratio=3),
    Workload(name="paced", nodes=1000, pods=6000, pace=100, latency=True),
    Workload(name="bare", nodes=1000, pods=5000, bare=True),
    Workload(name="basic-1000", nodes=1000, pods=5000, ratio=2, share=0.8),
    Workload(name="basic-5000", nodes=5000, pods=5000, ratio=4, share=0.8),
    Workload(name="spread", nodes=5000, pods=3000, spec=SPREAD, ratio=8),
    Workload(name="anti-affinity", nodes=5000, pods=3000, spec=ANTI_AFFINITY, ratio=8),
    Workload(name="affinity", nodes=5000, pods=3000, spec=PREFERRED_AFFINITY, ratio=8),
    Workload(name="gangs", nodes=5000, pods=3000, gang=4, ratio=5),
    Workload(name="gangs-in-racks", nodes=5000, pods=3000, gang=4, one_rack=True, ratio=15),
    Workload(name="memory", nodes=5000, pods=10_000, memory=True),
    Workload(name="restart", nodes=5000, pods=1000, running=50_000, first=5.0),
)
