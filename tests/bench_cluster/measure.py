"""One scheduler on one workload, from an empty cluster back to an empty cluster."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench_cluster import binding_watch, workloads
from tests.bench_cluster.contenders import ROOT, WHARFINGER, Contender, cpu_seconds, longest_step, peak_megabytes
from tests.bench_cluster.load import Load, Request
from tests.bench_cluster.workloads import Workload
from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import Program
from wharfinger.kube.connection import MERGE_PATCH

BARE = "bare"
PODS = "/api/v1/namespaces/default/pods"
RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
DEVICE_OBJECTS = {
    "DeviceClass": f"{RESOURCE}/deviceclasses",
    "ResourceSlice": f"{RESOURCE}/resourceslices",
    "ResourceClaimTemplate": f"{RESOURCE}/namespaces/default/resourceclaimtemplates",
}
"""Their paths, by kind."""
PODGROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
LONGEST = 300.0
"""Seconds until a run is given up."""
QUIET = 0.02
"""CPU seconds in half a second that count as having nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The measurements of a run.

    `rate`: pods/s from the first to the last binding; latencies in seconds from the creation of a pod to its binding. `cpu_seconds` are
    those of the scheduler until its events are written; until the last binding it had used `burst_cpu_seconds`, and the API server with
    its etcd `server_cpu_seconds`. `first` is in seconds from the start of the scheduler to its first binding. `longest_step` is that of
    Wharfinger's event loop, in seconds, from its start or in the last minute at least.
    """

    workload: str
    contender: str
    pods: int
    bound: int
    rate: float
    p50: float | None = None
    p99: float | None = None
    cpu_seconds: float = 0.0
    burst_cpu_seconds: float = 0.0
    server_cpu_seconds: float = 0.0
    megabytes: float = 0.0
    events: int = 0
    first: float | None = None
    longest_step: float | None = None

    @property
    def cpu_per_thousand(self) -> float:
        """CPU seconds of the scheduler, its start and its events included, per 1,000 pods."""
        return self.cpu_seconds * 1000 / max(1, self.bound)


class Bench:
    """Runs workloads on a control plane without other clients: kwok and the controllers are stopped, and nodes stay ready."""

    def __init__(self, cluster: ControlPlane) -> None:
        cluster.kwok.stop()
        cluster.controllers.stop()
        self._cluster = cluster
        self._load = Load(cluster)
        self._nodes = 0
        self._running = 0

    def measure(self, workload: Workload, contender: Contender) -> Run:
        """One run of a scheduler."""
        self._grow(workload.nodes)
        self._fill(workload)
        pods = self._pods(workload, contender.answers_to)
        self._load.send(Load.request("POST", PODGROUPS, group["metadata"]["name"], group) for group in workload.podgroups())
        self._load.send(
            Load.request("POST", DEVICE_OBJECTS[each["kind"]], each["metadata"]["name"], each) for each in workload.device_objects()
        )
        try:
            return self._paced(workload, contender, pods) if workload.pace else self._burst(workload, contender, pods)
        finally:
            self._cluster.end_others()
            self._clear()

    def bare(self, workload: Workload) -> Run:
        """The bind rate of a loop of binds and nothing else."""
        self._grow(workload.nodes)
        try:
            self._load.send(self._pods(workload, BARE))
            watch, file = self._watch(BARE, workload.pods)
            served = self._server_cpu()
            self._load.send(self._bindings(workload))
            bound = self._bindings_seen(watch, file)
            served = self._server_cpu() - served
        finally:
            self._cluster.end_others()
            self._clear()
        return Run(
            workload=workload.name, contender=BARE, pods=workload.pods, bound=len(bound), rate=_rate(bound), server_cpu_seconds=served
        )

    def _burst(self, workload: Workload, contender: Contender, pods: list[Request]) -> Run:
        """All pods wait before the scheduler starts."""
        self._load.send(pods)
        if workload.devices:
            self._make_claims(workload.pods)
        events = self._events()
        watch, file = self._watch(contender.answers_to, workload.pods)
        served = self._server_cpu()
        started = time.monotonic()
        scheduler = contender.start(self._cluster, workload.gang > 0)
        bound = self._bindings_seen(watch, file, scheduler)
        used: dict[str, Any] = {"burst_cpu_seconds": cpu_seconds(scheduler), "server_cpu_seconds": self._server_cpu() - served}
        self._wait_until_idle(scheduler)
        run = self._run(workload, contender, scheduler, bound, cpu=cpu_seconds(scheduler), events=self._events() - events)
        return replace(run, first=min(bound.values()) - started if bound else None, **used)

    def _paced(self, workload: Workload, contender: Contender, pods: list[Request]) -> Run:
        """Pods are created in sequence while a scheduler runs."""
        scheduler = contender.start(self._cluster, workload.gang > 0)
        self._warm_up(contender, scheduler)
        before, events = cpu_seconds(scheduler), self._events()
        watch, file = self._watch(contender.answers_to, workload.pods)
        sent = self._load.send(pods, per_second=workload.pace)
        bound = self._bindings_seen(watch, file, scheduler)
        self._wait_until_idle(scheduler)
        waits = sorted(bound[name] - sent[name] for name in bound)
        return self._run(
            workload, contender, scheduler, bound, cpu=cpu_seconds(scheduler) - before, events=self._events() - events, waits=waits
        )

    @staticmethod
    def _run(
        workload: Workload, contender: Contender, scheduler: Program, bound: dict[str, float], *, cpu: float, events: int, waits: Any = ()
    ) -> Run:
        return Run(
            workload=workload.name,
            contender=contender.name,
            pods=workload.pods,
            bound=len(bound),
            rate=_rate(bound),
            p50=waits[len(waits) // 2] if waits else None,
            p99=waits[len(waits) * 99 // 100] if waits else None,
            cpu_seconds=cpu,
            megabytes=peak_megabytes(scheduler),
            events=events,
            longest_step=longest_step(scheduler) if contender.name == WHARFINGER else None,
        )

    # ── the cluster ──

    def _grow(self, count: int) -> None:
        self._load.send(
            Load.request("POST", "/api/v1/nodes", node["metadata"]["name"], node) for node in workloads.nodes(self._nodes, count)
        )
        self._nodes = max(self._nodes, count)

    def _fill(self, workload: Workload) -> None:
        """Create the pods that run already; they stay, as nodes do."""
        pods = workloads.running(self._running, workload.running, workload.nodes)
        path = PODS.replace("/default/", f"/{workloads.RUNNING}/")
        self._load.send(Load.request("POST", path, pod["metadata"]["name"], pod) for pod in pods)
        self._running = max(self._running, workload.running)

    @staticmethod
    def _pods(workload: Workload, scheduler: str) -> list[Request]:
        return [Load.request("POST", PODS, pod["metadata"]["name"], pod) for pod in workload.manifests(scheduler)]

    @staticmethod
    def _bindings(workload: Workload) -> list[Request]:
        requests = []
        for i, pod in enumerate(workload.manifests(BARE)):
            name = pod["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{i % workload.nodes:05d}"}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "default"}, "target": target}
            requests.append(Load.request("POST", f"{PODS}/{name}/binding", name, body))
        return requests

    def _make_claims(self, pods: int) -> None:
        """Let Kubernetes' controller make the claims of all pods, which then say so in their status."""
        self._cluster.controllers.start()
        try:
            deadline = time.monotonic() + LONGEST
            while sum(bool(pod["status"].get("resourceClaimStatuses")) for pod in self._cluster.api.list("Pod", "default")) < pods:
                if time.monotonic() > deadline:
                    raise AssertionError(f"the claims were not made: {self._cluster.controllers.tail()}")
                time.sleep(0.5)
        finally:
            self._cluster.controllers.stop()

    def _clear(self) -> None:
        """Delete all pods, PodGroups, claims and devices. Events stay: they cost nothing but space, and deleting them a minute."""
        names = [pod["metadata"]["name"] for pod in self._cluster.api.list("Pod", "default")]
        self._load.send(Load.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0", name) for name in names)
        groups = [group["metadata"]["name"] for group in self._cluster.api.list("PodGroup", "default")]
        claims = [claim["metadata"]["name"] for claim in self._cluster.api.list("ResourceClaim", "default")]
        self._release(PODGROUPS, groups)
        self._release(CLAIMS, claims)
        for kind, path in DEVICE_OBJECTS.items():
            known = [each["metadata"]["name"] for each in self._cluster.api.list(kind)]
            self._load.send(Load.request("DELETE", f"{path}/{name}", name) for name in known)

    def _release(self, path: str, names: Sequence[str]) -> None:
        """Delete objects with finalizers, of which the controllers that take them away are stopped."""
        released = {"metadata": {"finalizers": None}}
        self._load.send(Load.request("PATCH", f"{path}/{name}", name, released, MERGE_PATCH) for name in names)
        self._load.send(Load.request("DELETE", f"{path}/{name}", name) for name in names)

    def _server_cpu(self) -> float:
        return cpu_seconds(self._cluster.api_server) + cpu_seconds(self._cluster.etcd)

    def _events(self) -> int:
        """The number of events."""
        answer = self._cluster.api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events?limit=1")
        return len(answer["items"]) + answer["metadata"].get("remainingItemCount", 0)

    # ── waiting ──

    def _warm_up(self, contender: Contender, scheduler: Program) -> None:
        """Return when the scheduler has bound a first pod and has nothing else to do."""
        watch, file = self._watch(contender.answers_to, 1)
        self._cluster.api.create(objects.pod("first", scheduler=contender.answers_to))
        self._bindings_seen(watch, file, scheduler)
        self._wait_until_idle(scheduler)

    def _watch(self, scheduler: str, count: int) -> tuple[Program, Path]:
        """A process that watches the bindings from now on, and where it will say what it saw."""
        version = self._cluster.api.request("GET", "/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        file = self._cluster.folder / f"bindings-{time.monotonic_ns()}.json"
        arguments = (self._cluster.port, self._cluster.certificate, version, scheduler, count, file)
        name = file.with_suffix("").name
        watch = self._cluster.run(
            name,
            *(sys.executable, "-m", binding_watch.__name__, *arguments),
            ready=lambda: binding_watch.READY in watch.tail(),
            env={"PYTHONPATH": str(ROOT)},
        )
        watch.wait_ready()
        return watch, file

    @staticmethod
    def _bindings_seen(watch: Program, file: Path, scheduler: Program | None = None) -> dict[str, float]:
        """The bindings that a watch has seen at its end, at the end of the scheduler, or at the timeout."""
        deadline = time.monotonic() + LONGEST
        while watch.running and time.monotonic() < deadline and (scheduler is None or scheduler.running):
            time.sleep(0.05)
        watch.stop()
        if scheduler is not None and not scheduler.running:
            raise AssertionError(f"{scheduler.name} ended: {scheduler.tail()}")
        if not file.exists():
            raise AssertionError(f"no bindings were seen: {watch.tail()}")
        bound: dict[str, float] = json.loads(file.read_text("utf-8"))
        return bound

    @staticmethod
    def _wait_until_idle(scheduler: Program, within: float = 60.0) -> None:
        """Return when the scheduler has written its events and does nothing any more."""
        deadline = time.monotonic() + within
        used, quiet = cpu_seconds(scheduler), 0
        while quiet < 2 and time.monotonic() < deadline:
            time.sleep(0.5)
            before, used = used, cpu_seconds(scheduler)
            quiet = quiet + 1 if used - before <= QUIET else 0


def _rate(bound: dict[str, float]) -> float:
    """Bindings per second from the first to the last."""
    times = sorted(bound.values())
    return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 and times[-1] > times[0] else 0.0
