"""Compares `wharf capacity` with cluster-capacity: the same pods on the same API server, their counts and times.

Small random clusters compare the counts, one large cluster the times: the CPU time of each process, which other processes of the machine
change little, and the seconds until it ends. cluster-capacity has the plugins of kube-scheduler 1.30; the pods here are decided in the same
way in 1.36. Prints a line for each question, and exits with 1 if a count differs.

`python -m tests.bench_cluster.capacity [--clusters N] [--nodes N] [--pods N] [--kinds KIND…]`
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.figures import compile_sources
from tests.bench_cluster.load import Load
from tests.bench_cluster.workloads import READY
from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.testbed import build

Manifest = dict[str, Any]

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
MOST = 20_000  # of the pods that either counts
SELECTOR = {"matchLabels": {"app": "new"}}
OWN = {"labelSelector": SELECTOR, "topologyKey": "kubernetes.io/hostname"}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "half a CPU": {"cpu": "500m"},
    "much memory": {"cpu": "50m", "memory": "3Gi"},
    "one zone": {"cpu": "250m", "nodeSelector": {"zone": "b"}},
    "tolerates": {"cpu": "700m", "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    "one per node": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [OWN]}}},
    "spread over zones": {
        "cpu": "300m",
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR},
        ],
    },
    "beside web": {
        "cpu": "200m",
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        },
    },
}


def random_nodes(seed: int, count: int) -> Iterator[Manifest]:
    """Nodes of several sizes in three zones, some of them tainted."""
    chance = random.Random(seed)
    for number in range(count):
        taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if chance.random() < 0.2 else []
        node = objects.node(
            f"node-{number:05d}",
            cpu=str(chance.choice((2, 4, 8, 16))),
            memory=f"{chance.choice((8, 16, 32))}Gi",
            pods=chance.choice((10, 30, 110)),
            labels={"zone": chance.choice("abc")},
            taints=taints,
        )
        node["status"]["conditions"] = [READY]
        yield node


def random_pods(seed: int, nodes: int, count: int) -> Iterator[Manifest]:
    """Pods that run on these nodes already."""
    chance = random.Random(seed + 1)
    for number in range(count):
        yield objects.pod(
            f"running-{number:06d}",
            cpu=f"{chance.choice((100, 250, 500))}m",
            memory=f"{chance.choice((128, 512, 1024))}Mi",
            labels={"app": chance.choice(("web", "db", "batch"))},
            nodeName=f"node-{chance.randrange(nodes):05d}",
        )


def fill(cluster: ControlPlane, nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> None:
    """Empties the cluster and creates these objects."""
    load = Load(cluster)
    for path, kind in ((PODS, "Pod"), (NODES, "Node")):
        names = [each["metadata"]["name"] for each in cluster.api.list(kind)]
        load.send(load.request("DELETE", f"{path}/{name}?gracePeriodSeconds=0", name) for name in names)
    load.send(load.request("POST", NODES, each["metadata"]["name"], each) for each in nodes)
    load.send(load.request("POST", PODS, each["metadata"]["name"], each) for each in pods)


def with_defaults(cluster: ControlPlane, pod: Manifest) -> Manifest:
    """The pod as the API server completes it, which cluster-capacity expects."""
    made: Manifest = cluster.api.request("POST", f"{PODS}?dryRun=All", pod)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": made["spec"]}


class Took(NamedTuple):
    """The duration of a process, in seconds."""

    cpu: float
    wall: float


def timed(*command: object) -> tuple[str, Took]:
    """The output of a command, and its duration."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]}: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, Took(cpu, time.monotonic() - began)


def theirs(cluster: ControlPlane, pod: Path) -> tuple[int, Took]:
    """The count of cluster-capacity, and how long it took."""
    program = build.program("cluster-capacity")
    printed, took = timed(program, "--kubeconfig", cluster.kubeconfig, "--podspec", pod, "--max-limit", MOST, "-o", "json")
    if not printed.startswith("{"):  # it exits with 0 after an error
        raise SystemExit(f"cluster-capacity: {printed}")
    return json.loads(printed)["status"]["replicas"], took


def ours(cluster: ControlPlane, pod: Path) -> tuple[int, Took]:
    """The count of `wharf capacity`, and how long it took, reading the cluster and the changes that would help included."""
    wharf = [sys.executable, "-m", "wharfinger", "capacity"]
    printed, took = timed(*wharf, "--live", "--kubeconfig", cluster.kubeconfig, "-f", pod, "--most", MOST - 1, "--format", "json")
    room = json.loads(printed)["workloads"][0]
    return room["placed"] + room["more"], took


def compared(cluster: ControlPlane, where: str, kinds: Iterable[str]) -> Iterator[bool]:
    """A line for each kind of pod; yields True for equal counts."""
    for kind in kinds:
        spec = KINDS[kind]
        manifest = with_defaults(cluster, objects.pod("new", labels={"app": "new"}, **spec))
        path = cluster.folder / "new.json"
        path.write_text(json.dumps(manifest), "utf-8")
        (count, other), (own, took) = theirs(cluster, path), ours(cluster, path)
        verdict = "equal" if count == own else "DIFFERENT"
        cpu = f"CPU {other.cpu:.1f} s against {took.cpu:.1f} s, {other.cpu / took.cpu:.1f} x"
        wall = f"{other.wall:.1f} s against {took.wall:.1f} s, {other.wall / took.wall:.1f} x"
        print(f"{where}, {kind}: cluster-capacity {count}, wharf {own}: {verdict}; {cpu}; {wall}", flush=True)
        yield count == own


def main() -> int:
    """0 if all counts are equal."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_cluster.capacity", description=__doc__.partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=5, help="small random clusters")
    parser.add_argument("--nodes", type=int, default=1000, help="of the large cluster; 0 for none")
    parser.add_argument("--pods", type=int, default=5000, help="that run on the large cluster")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="the pods to count")
    asked = parser.parse_args()
    equal: list[bool] = []
    compile_sources()
    with ControlPlane() as cluster:
        cluster.kwok.stop()
        cluster.controllers.stop()
        for seed in range(asked.clusters):
            fill(cluster, random_nodes(seed, 25), random_pods(seed, 25, 40))
            equal += compared(cluster, f"cluster {seed}", asked.kinds)
        if asked.nodes:
            fill(cluster, random_nodes(99, asked.nodes), random_pods(99, asked.nodes, asked.pods))
            equal += compared(cluster, f"{asked.nodes} nodes", asked.kinds)
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
