"""Many scenarios at work on one control plane at the same time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import wharfinger
from tests.cluster.control_plane import ControlPlane
from tests.cluster.live import NAME
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually
from tests.cluster.what_if_scenarios import ABSENT, Pause, Scenario, by_origin

WHARF = Path(sys.executable).with_name("wharf")
PARALLEL = 8
DECISION_LOG = "decisions.jsonl"
"""The name of the file in which the scheduler records its decisions, in the folder of the snapshot."""
Plain = dict[str, Any]


class Batch:
    """Scenarios, the control plane that they are on, and the process that schedules."""

    def __init__(self, control_plane: ControlPlane, scheduler: WharfProcess, scenarios: Sequence[Scenario]) -> None:
        self._cluster = control_plane
        self._api = control_plane.api
        self._scheduler = scheduler
        self._scenarios = scenarios

    def build(self) -> None:
        """Create the nodes, the pods and the budgets; returns when everybody knows of everything."""
        nodes = [node for one in self._scenarios for node in one.nodes]
        self._api.create_many(nodes)
        eventually(lambda: sum(map(is_ready, self._api.list("Node"))) == len(nodes))
        self._api.create_many(made for one in self._scenarios for made in one.others)
        eventually(lambda: all(map(has_its_volume, self._api.list("PersistentVolumeClaim"))))
        self._api.create_many(pod for one in self._scenarios for pod in one.pods.values() if "nodeName" in pod["spec"])
        self._create([pod for pod in one.pods.values() if "nodeName" not in pod["spec"]] for one in self._scenarios)
        self._wait_until_idle()
        self._api.create_many(workload for one in self._scenarios for workload in one.workloads)
        eventually(self._workloads_have_their_pods)
        self._api.create_many(budget for one in self._scenarios for budget in one.budgets)
        eventually(self._budgets_are_known)
        for one in self._scenarios:
            one.uids = {name: pod["metadata"]["uid"] for name, pod in self._pods(one).items()}

    def foretell(self, folder: Path, policies: Mapping[str, Path]) -> None:
        """Answer every question on a snapshot of the cluster as it is now; `policies` has the file of each scheduler."""
        snapshot = folder / "now.json.gz"
        subprocess.run([WHARF, "snapshot", "-o", snapshot, f"--kubeconfig={self._cluster.kubeconfig}"], check=True, capture_output=True)
        compiled = {name: wharfinger.load_policies(path) for name, path in policies.items()}
        cluster = wharfinger.load_snapshot(snapshot)
        for one in self._scenarios:
            one.url, one.control_plane, one.decision_log = self._scheduler.url, self._cluster, folder / DECISION_LOG
            one.rebalancing = [str(WHARF), "rebalance", "--live", f"--kubeconfig={self._cluster.kubeconfig}", f"--policy={policies[NAME]}"]
            one.foretell(cluster, compiled)

    def do(self) -> None:
        """Do what was asked about in every scenario, one step of each at a time."""
        at_work = [one.work(self._api) for one in self._scenarios]
        try:
            while at_work:
                with ThreadPoolExecutor(PARALLEL) as pool:
                    made = list(pool.map(lambda work: next(work, None), at_work))
                at_work = [work for work, pods in zip(at_work, made, strict=True) if pods is not None]
                if Pause.CONTROLLERS in made:
                    eventually(self._budgets_are_known)
                    self._signal_controllers(signal.SIGSTOP)
                elif Pause.END in made:
                    self._let_controllers_create()
                else:
                    self._create(pods for pods in made if pods)
                self._wait_until_idle()
        finally:
            self._signal_controllers(signal.SIGCONT)

    def compare(self) -> None:
        """Add to each scenario what is not as it was predicted."""
        for one in self._scenarios:
            one.compare(self._pods(one))

    def remove(self) -> None:
        """Remove everything that was created."""
        for one in self._scenarios:
            for kind in ("Deployment", "ReplicaSet", "PodDisruptionBudget", "Pod", "PodGroup", "PersistentVolumeClaim"):
                self._api.delete_all(kind, one.namespace)
        eventually(lambda: not self._api.any("Pod"))
        for kind in ("Node", "ResourceSlice", "PersistentVolume"):
            self._api.delete_all(kind)
        eventually(lambda: not any(map(self._api.any, ("Node", "ResourceSlice", "ResourceClaim", "PersistentVolume"))))

    def _create(self, pods: Iterable[Sequence[Plain]]) -> None:
        """Create the pods of several scenarios at the same time, those of each one after the other.

        The scheduler is stopped until all of them and their claims are there: it would try the first of them again before the last is
        there, and those with claims after all others.
        """
        self._scheduler.signal(signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(PARALLEL) as pool:
                list(pool.map(lambda members: [self._api.create(pod) for pod in members], pods))
            eventually(lambda: all(map(_has_its_claims, self._api.list("Pod"))))
        finally:
            self._scheduler.signal(signal.SIGCONT)

    def _let_controllers_create(self) -> None:
        """Let the controllers go on, and the scheduler once they have created all that they create now."""
        self._scheduler.signal(signal.SIGSTOP)
        try:
            self._signal_controllers(signal.SIGCONT)
            eventually(lambda: all(one.is_replaced(self._api.list("Pod", one.namespace)) for one in self._scenarios))
            eventually(lambda: all(map(_has_its_claims, self._api.list("Pod"))))
        finally:
            self._scheduler.signal(signal.SIGCONT)

    def _signal_controllers(self, number: signal.Signals) -> None:
        os.kill(self._cluster.controllers.pid, number)

    def _workloads_have_their_pods(self) -> bool:
        """True if every pod that a workload selects is owned by it."""
        wanted = {(one.namespace, workload["metadata"]["name"]) for one in self._scenarios for workload in one.workloads}
        pods = [pod["metadata"] for pod in self._api.list("Pod")]
        return wanted == {(pod["namespace"], owner["name"]) for pod in pods for owner in pod.get("ownerReferences", ())} & wanted

    def _wait_until_idle(self) -> None:
        """Returns when the scheduler has nothing to do now and every pod with a node runs, and that lasts for a moment."""

        def rests() -> bool:
            pods = self._api.list("Pod")
            depths = self._queue_depths()
            busy = {queue: depth for queue, depth in depths.items() if depth and queue in {"active", "backoff"}}
            assert not busy, f"the scheduler has pods in its queues: {busy}"
            untried = [pod for pod in pods if not _is_settled(pod)]
            members = [pod for pod in untried if "schedulingGroup" in pod["spec"] and "nodeName" not in pod["spec"]]
            if len(untried) > len(members) or len(members) > depths["gated"]:  # members of a group that is not complete are not tried
                raise AssertionError(f"pods neither run nor were tried: {[_described(pod) for pod in untried]}")
            assert not (left := self._claims_without_pods(pods)), f"claims whose pods have left: {left}"
            return True

        eventually(lambda: rests() and _after_a_moment(rests), every=0.05)

    def _queue_depths(self) -> Counter[str]:
        """The pods in each queue of the scheduler."""
        _, metrics = self._scheduler.get("/metrics")
        found = re.findall(r'^scheduler_pending_pods\{[^}]*queue="(\w+)"[^}]*\} (\S+)$', metrics, re.MULTILINE)
        assert found, "there is no metric of the queue"
        depths: Counter[str] = Counter()
        for queue, depth in found:
            depths[queue] += int(float(depth))
        return depths

    def _claims_without_pods(self, pods: Iterable[Plain]) -> list[str]:
        """The claims that were made for pods that have left, and still have their devices."""
        there = {pod["metadata"]["uid"] for pod in pods}
        claims = (claim["metadata"] for claim in self._api.list("ResourceClaim"))
        return [f"{claim['namespace']}/{claim['name']}" for claim in claims if claim["ownerReferences"][0]["uid"] not in there]

    def _budgets_are_known(self) -> bool:
        """True if the controller of budgets has counted all pods that each covers."""
        ready = [pod["metadata"] for pod in self._api.list("Pod") if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
        for budget in self._api.list("PodDisruptionBudget"):
            wanted = budget["spec"]["selector"].get("matchLabels", {}).items()
            namespace, status = budget["metadata"]["namespace"], budget.get("status", {})
            n_pods = sum(each["namespace"] == namespace and wanted <= each.get("labels", {}).items() for each in ready)
            allowed = max(0, n_pods - budget["spec"]["minAvailable"])
            if [status.get(name) for name in ("observedGeneration", "currentHealthy", "disruptionsAllowed")] != [1, n_pods, allowed]:
                return False
        return True

    def _pods(self, one: Scenario) -> dict[str, Plain]:
        return by_origin(self._api.list("Pod", one.namespace))


def _after_a_moment(condition: Callable[[], bool]) -> bool:
    """True if the condition still holds after the time that a watch event may take."""
    time.sleep(0.3)
    return condition()


def _condition(found: Plain, kind: str) -> str | None:
    return next((each["status"] for each in found.get("status", {}).get("conditions", ()) if each["type"] == kind), None)


def is_ready(found: Plain) -> bool:
    """True if a node or a pod is ready."""
    return _condition(found, "Ready") == "True"


def has_its_volume(claim: Plain) -> bool:
    """True if a claim is bound, or names no volume."""
    return "volumeName" not in claim["spec"] or claim.get("status", {}).get("phase") == "Bound"


def _has_its_claims(pod: Plain) -> bool:
    """True if the controller has made the claims of a pod."""
    return len(pod["spec"].get("resourceClaims", ())) == len(pod.get("status", {}).get("resourceClaimStatuses", ()))


def _described(pod: Plain) -> str:
    """A pod in one line."""
    metadata, status = pod["metadata"], pod.get("status", {})
    node, conditions = pod["spec"].get("nodeName", "no node"), status.get("conditions", ())
    said = ", ".join(f"{each['type']} {each['status']} {each.get('reason', '')} {each.get('message', '')}".strip() for each in conditions)
    leaves = ", leaves" if "deletionTimestamp" in metadata else ""
    return f"{metadata['namespace']}/{metadata['name']} ({node}, {status.get('phase')}{leaves}: {said})"


def _is_settled(pod: Plain) -> bool:
    """True if a pod runs, was tried and found no node, or belongs to no scheduler."""
    if "nodeName" in pod["spec"]:
        return is_ready(pod)
    return pod["spec"]["schedulerName"] == ABSENT or _condition(pod, "PodScheduled") == "False"
