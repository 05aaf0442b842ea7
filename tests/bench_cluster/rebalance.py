"""Compares `wharf rebalance` with descheduler's HighNodeUtilization: what each frees per moved pod on the same cluster.

Nodes with GPUs of the OpenB trace, or all of its nodes, are filled with pods of it, on a real API server with kwok, by
`policies/gpu-bin-pack.policy`; then 40 % of the pods leave at random. `wharf run` with the same policy places what is evicted, for both:
HighNodeUtilization needs a scheduler that packs, and runs again and again until it evicts nothing more. `wharf rebalance --apply` may make
as many moves as it has made; with `--moves` it runs alone. Whole GPUs and nodes without pods are counted before and after.

`python -m tests.bench_cluster.rebalance [--nodes N|whole] [--seeds N] [--thresholds PERCENT…] [--goals GOAL…] [--moves N]`
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.rebalance import POLICIES, churned, small
from tests.bench_cluster.contenders import ROOT, WHARF_RUN
from tests.bench_cluster.load import Load
from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import free_ports
from tests.cluster.waiting import eventually
from tests.testbed import build
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate import openb
from wharfinger.what_if.rebalance.gains import SHARED_GPU

Manifest = dict[str, Any]

CHAIN = "gpu-bin-pack"
WHARF = Path(sys.executable).with_name("wharf")
NAMES = {"Pod": "/api/v1/namespaces/default/pods", "Node": "/api/v1/nodes", "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets"}
ROUNDS = 10
"""HighNodeUtilization is started at most so often."""
MILLI = 1000
LEAVING = 0.4
"""The share of the pods that leave at random."""
WHOLE = "whole"
GOALS = ("free-nodes", "free-gpus")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The free amounts of a cluster."""

    nodes: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """The amounts that a program has freed, its moves, and the pods that are left without a node."""

    name: str
    nodes: int
    gpus: int
    moves: int
    pending: int

    def line(self) -> str:
        """A row of the table, without its first column."""
        per = (f"{freed / max(1, self.moves):.2f}" for freed in (self.nodes, self.gpus))
        return "".join(f"| {cell} " for cell in (self.name, self.moves, self.nodes, self.gpus, *per, self.pending)) + "|"


class Bench:
    """A control plane with a scheduler, and the cluster that everybody begins with."""

    def __init__(self, cluster: ControlPlane, seed: int, n_nodes: int | None) -> None:
        self._cluster = cluster
        self._load = Load(cluster)
        state = churned(CHAIN, seed, LEAVING) if n_nodes is None else small(CHAIN, seed, n_nodes, LEAVING)
        snapshot = state.snapshot()
        self._nodes = [
            _node(
                snapshot.node(row).object.metadata.labels,
                {name: int(snapshot.allocatable[index, row]) for index, name in enumerate(snapshot.resource_names)},
            )
            for row in range(snapshot.n_nodes)
        ]
        self._pods: dict[bytes, list[PodView]] = defaultdict(list)
        for pod, _ in state.placements():
            self._pods[pod.template].append(pod)
        self._n_begun = 0

    def begin(self) -> Worth:
        """The cluster as at the beginning; returns what is free. The controllers stop meanwhile, so that they make no pods."""
        self._cluster.end_others()
        self._cluster.controllers.stop()
        self._n_begun += 1  # in the names of the pods: kwok may still delete a former pod by its name
        for kind, path in (("ReplicaSet", NAMES["ReplicaSet"]), ("Pod", NAMES["Pod"]), ("Node", NAMES["Node"])):
            names = [each["metadata"]["name"] for each in self._cluster.api.list(kind)]
            self._load.send(self._load.request("DELETE", f"{path}/{name}?gracePeriodSeconds=0", name) for name in names)
            eventually(lambda kind=kind: not self._cluster.api.any(kind), within=300)
        self._create("Node", self._nodes)
        sets = [
            self._cluster.api.create(_replica_set(f"set-{self._n_begun}-{number}", pods)) for number, pods in enumerate(self._pods.values())
        ]
        self._create("Pod", [pod for made, pods in zip(sets, self._pods.values(), strict=True) for pod in _members(made, pods)])
        eventually(lambda: [_runs(pod) for pod in self._cluster.api.list("Pod")] == [True] * self._n_pods(), within=300)
        self._cluster.controllers.start()
        flags = ["--policy", ROOT / POLICIES[CHAIN][0], "--kubeconfig", self._cluster.kubeconfig, "--no-leader-elect"]
        self._cluster.run("wharfinger", *WHARF_RUN.split(), *flags, "--port", free_ports(1)[0])
        return self.worth()

    def _create(self, kind: str, made: Sequence[Manifest]) -> None:
        self._load.send(self._load.request("POST", NAMES[kind], each["metadata"]["name"], each) for each in made)

    def after(self, name: str, before: Worth, act: Callable[[], object]) -> Freed:
        """The amounts that are freed by a program that evicts pods."""
        known = self._uids()
        act()
        self.wait_until_idle()
        now, gone = self.worth(), known - self._uids()
        pending = sum(not pod["spec"].get("nodeName") for pod in self._cluster.api.list("Pod"))
        return Freed(name=name, nodes=now.nodes - before.nodes, gpus=now.gpus - before.gpus, moves=len(gone), pending=pending)

    def wait_until_idle(self) -> None:
        """Returns when there are as many pods as at the beginning, and each runs or was found to have no place."""

        def rests() -> bool:
            pods = self._cluster.api.list("Pod")
            return len(pods) == self._n_pods() and all(_runs(pod) or _has_no_place(pod) for pod in pods)

        eventually(rests, within=300)

    def _n_pods(self) -> int:
        return sum(map(len, self._pods.values()))

    def _uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self._cluster.api.list("Pod")}

    def worth(self) -> Worth:
        """The nodes without pods, and the whole GPUs without shares."""
        taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in self._cluster.api.list("Pod"):
            requests = pod["spec"]["containers"][0]["resources"].get("requests", {})
            taken[pod["spec"].get("nodeName", "")].update({openb.GPU: int(requests.get(openb.GPU, 0)), SHARED_GPU: _plain(requests)})
        nodes = self._cluster.api.list("Node")
        gpus = 0
        for node in nodes:
            offered, used = node["status"]["allocatable"], taken[node["metadata"]["name"]]
            gpus += min(int(offered[openb.GPU]) - used[openb.GPU], (_plain(offered) - used[SHARED_GPU]) // MILLI)
        used_nodes = {pod["spec"].get("nodeName") for pod in self._cluster.api.list("Pod")}
        return Worth(nodes=sum(node["metadata"]["name"] not in used_nodes for node in nodes), gpus=gpus)

    def high_node_utilization(self, threshold: int) -> None:
        """Starts descheduler until it evicts nothing more."""
        path = self._cluster.folder / "descheduler.json"
        path.write_text(json.dumps(_descheduler_policy(threshold)), "utf-8")
        flags = ["--policy-config-file", path, "--kubeconfig", self._cluster.kubeconfig, "--secure-port", free_ports(1)[0]]
        for _ in range(ROUNDS):
            before = self._uids()
            _run(build.program("descheduler"), *flags)
            self.wait_until_idle()
            if before == self._uids():
                return

    def rebalance(self, goal: str, most_moves: int) -> None:
        """`wharf rebalance --apply` with as many moves."""
        where = ["--live", "--kubeconfig", self._cluster.kubeconfig, "--policy", ROOT / POLICIES[CHAIN][0]]
        said = _run(WHARF, "rebalance", *where, "--goal", goal, "--most-moves", most_moves, "--min-age", "0s", "--apply", codes=(0, 1))
        for line in said.splitlines():
            if ": left out" in line:  # the plan goes on with its other moves, and the exit code is 1
                sys.stderr.write(f"{line}\n")


def _node(labels: Mapping[str, str], offered: Mapping[str, int]) -> Manifest:
    more = {resource: str(amount) for resource, amount in offered.items() if "/" in resource}
    made = objects.node(labels["kubernetes.io/hostname"], cpu=f"{offered['cpu']}m", memory=str(offered["memory"]), pods=110, labels=labels)
    made["status"]["allocatable"].update(more)
    made["status"]["capacity"] = made["status"]["allocatable"]
    return made


def _template(pod: PodView) -> Manifest:
    """The spec of a pod: limits are equal to requests where the API server requires it."""
    amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in pod.requests.items() if amount}
    whole = {name: amount for name, amount in amounts.items() if "/" in name}
    spec = objects.pod("", scheduler="wharfinger")["spec"]
    spec["containers"][0]["resources"] = {"requests": amounts, "limits": whole}
    return spec


def _replica_set(name: str, pods: Sequence[PodView]) -> Manifest:
    labels = {"set": name}
    template = {"metadata": {"labels": labels}, "spec": _template(pods[0])}
    spec = {"replicas": len(pods), "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _members(made: Manifest, pods: Sequence[PodView]) -> Iterator[Manifest]:
    """The pods of a ReplicaSet, on their nodes."""
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}
    for number, pod in enumerate(pods):
        metadata = {"name": f"{name}-{number}", "namespace": "default", "labels": {"set": name}, "ownerReferences": [owner]}
        spec = {**_template(pod), "nodeName": pod.node_name}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _descheduler_policy(threshold: int) -> Manifest:
    thresholds = {"cpu": threshold, "memory": threshold, "pods": threshold, SHARED_GPU: threshold}
    configured = [
        {"name": "DefaultEvictor", "args": {"nodeFit": True}},
        {"name": "HighNodeUtilization", "args": {"thresholds": thresholds}},
    ]
    profile = {"name": "packed", "pluginConfig": configured, "plugins": {"balance": {"enabled": ["HighNodeUtilization"]}}}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}


def _plain(amounts: Mapping[str, Any]) -> int:
    """An amount of shares of GPUs; the API server writes thousands as `k`."""
    text = str(amounts.get(SHARED_GPU, 0))
    return int(text.removesuffix("k")) * (MILLI if text.endswith("k") else 1)


def _runs(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _has_no_place(pod: Manifest) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def _run(*command: object, codes: Sequence[int] = (0,)) -> str:
    """The stderr of the command; SystemExit for another exit code than these."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise SystemExit(f"{command[0]}: {done.stderr[-2000:]}")
    return done.stderr


def alone(bench: Bench, goals: Sequence[str], moves: int) -> Iterator[str]:
    """A row for each goal on one cluster."""
    for goal in goals:
        before = bench.begin()
        yield bench.after(f"wharf rebalance, {goal}", before, partial(bench.rebalance, goal, moves)).line()


def compared(bench: Bench, thresholds: Sequence[int], goals: Sequence[str]) -> Iterator[str]:
    """A row for each run on one cluster."""
    for threshold in thresholds:
        before = bench.begin()
        theirs = bench.after(f"HighNodeUtilization, {threshold} %", before, partial(bench.high_node_utilization, threshold))
        yield theirs.line()
        yield from alone(bench, goals, max(1, theirs.moves))


def main() -> int:
    """Prints a row for each run."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_cluster.rebalance", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--nodes",
        type=lambda text: None if text == WHOLE else int(text),
        default=100,
        help=f"of the cluster: that many with GPUs, or {WHOLE}: all nodes of the trace, with all pods that were placed on them",
    )
    parser.add_argument("--seeds", type=int, default=2, help="that many clusters")
    parser.add_argument("--thresholds", type=int, nargs="+", default=[20, 40, 60], help="of HighNodeUtilization, in percent")
    parser.add_argument("--goals", nargs="+", choices=GOALS, default=GOALS, help="of wharf rebalance")
    parser.add_argument("--moves", type=int, help="of wharf rebalance at most; HighNodeUtilization does not run")
    asked = parser.parse_args()
    print(
        "| cluster | who | moves | nodes freed | GPUs freed | nodes per move | GPUs per move | pending |\n|---|---|---|---|---|---|---|---|"
    )
    with ControlPlane() as cluster:
        for seed in range(1, asked.seeds + 1):
            bench = Bench(cluster, seed, asked.nodes)
            rows = compared(bench, asked.thresholds, asked.goals) if asked.moves is None else alone(bench, asked.goals, asked.moves)
            for line in rows:
                print(f"| seed {seed} {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
