"""`wharf dry-run --optimal` on generated clusters of 1,000 nodes and 5,000 pods: the outcome, and the processor time until it is known.

`python -m tests.bench.optimal [--nodes N] [--seconds N] [--seeds N] [CASE…]`
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import checkpoint_of
from wharfinger.what_if.optimal.search import optimal

CASES = {
    "fragmented": "running pods leave the free CPUs scattered, and large pods wait: some must move",
    "overfull": "more is asked for than there is: there is no placement",
    "priorities": "the cluster is full of pods of low priority, and pods of high priority wait: some must be evicted",
    "waiting": "nothing runs, and nearly as much waits as there is",
    "halves": "one pod more waits than nodes have room for one of its size each, though all have room together: there is no placement",
}
PODS_PER_NODE = 5
PLATFORM = ((8, 32), (16, 64), (32, 128))
KINDS = 120


def node(number: int, cpus: int, memory: int) -> objects.Node:
    """A node of that many CPUs and GiB."""
    amounts = {"cpu": str(cpus), "memory": f"{memory}Gi", "pods": "110"}
    name = f"node-{number:04d}"
    manifest = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": {"allocatable": amounts}}
    return msgspec.convert(manifest, objects.Node)


def pod(name: str, kind: int, milli: int, mebi: int, *, at: str = "", priority: int = 0) -> PodView:
    """A pod of a ReplicaSet, one for each kind; those of one kind are alike."""
    app = f"app-{kind}-{milli}-{mebi}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": True}
    container = {"name": "main", "resources": {"requests": {"cpu": f"{milli}m", "memory": f"{mebi}Mi"}}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}, "ownerReferences": [owner]}
    spec: dict[str, Any] = {"nodeName": at, "containers": [container], "priority": priority}
    return PodView(msgspec.convert({"metadata": metadata, "spec": spec}, objects.Pod))


class Cluster:
    """Nodes, and what is free on each."""

    def __init__(self, chance: random.Random, n_nodes: int) -> None:
        self.chance = chance
        self.state = ClusterState()
        self.free: list[list[int]] = []
        for number in range(n_nodes):
            cpus, memory = chance.choice(PLATFORM)
            self.free.append([cpus * 1000, memory * 1024])
            self.state.add_node(node(number, cpus, memory))

    def sizes(self) -> list[tuple[int, int, int]]:
        """(number, thousandths of a CPU, MiB) of each kind of pods."""
        return [
            (kind, self.chance.choice((500, 1000, 2000, 4000, 8000)), self.chance.choice((512, 1024, 2048, 4096, 8192)))
            for kind in range(KINDS)
        ]

    @property
    def n_free(self) -> int:
        """The thousandths of CPUs that are free."""
        return sum(cpu for cpu, _ in self.free)

    def fill(self, count: int, priority: int = 0) -> None:
        """Add running pods at random, where there is room."""
        sizes = self.sizes()
        for number in range(count):
            kind, milli, mebi = self.chance.choice(sizes)
            for _ in range(20):
                at = self.chance.randrange(len(self.free))
                if self.free[at][0] >= milli and self.free[at][1] >= mebi:
                    self.free[at][0] -= milli
                    self.free[at][1] -= mebi
                    self.state.add_pod(pod(f"running-{number}", kind, milli, mebi, at=f"node-{at:04d}", priority=priority))
                    break


def fragmented(cluster: Cluster, n_pods: int) -> Iterator[PodView]:
    """Pods wait that need a little more than any node has free; running pods can make room for them."""
    cluster.fill(n_pods)
    most = max(cpu for cpu, _ in cluster.free)
    yield from (pod(f"large-{number}", 0, most + 500, 4096) for number in range(len(cluster.free) // 50))


def overfull(cluster: Cluster, n_pods: int) -> Iterator[PodView]:
    """A tenth more is requested than is free."""
    cluster.fill(n_pods * 9 // 10)
    yield from (pod(f"more-{number}", number % 7, 500, 256) for number in range(cluster.n_free * 11 // 10 // 500))


def priorities(cluster: Cluster, n_pods: int) -> Iterator[PodView]:
    """Pods of a high priority ask for a little more than is free."""
    cluster.fill(n_pods * 9 // 10, priority=1)
    yield from (pod(f"high-{number}", number % 3, 2000, 256, priority=9) for number in range(cluster.n_free * 102 // 100 // 2000))


def waiting(cluster: Cluster, n_pods: int) -> Iterator[PodView]:
    """Pods of random sizes that ask for 98 % of all CPUs."""
    sizes = cluster.sizes()
    whole = cluster.n_free * 98 // 100
    for number in range(2 * n_pods):
        kind, milli, _ = cluster.chance.choice(sizes)
        milli = min(milli, whole)
        if milli:
            whole -= milli
            yield pod(f"waiting-{number}", kind, milli, 512)


def halves(cluster: Cluster, n_pods: int) -> Iterator[PodView]:
    """As many pods wait as there are large nodes and one more, each of more than half of such a node."""
    half = max(cpu for cpu, _ in cluster.free) // 2 + 1000
    large = sum(cpu > half for cpu, _ in cluster.free)
    cluster.fill(n_pods - large)
    yield from (pod(f"half-{number}", 0, half, 256) for number in range(large + 1))


MAKE = {"fragmented": fragmented, "overfull": overfull, "priorities": priorities, "waiting": waiting, "halves": halves}


def main() -> int:
    """Prints a row for each cluster."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.optimal", description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    print("| cluster | seed | running | waiting | answer | evicted | moves | fewest | CPU s |\n|---|---|---|---|---|---|---|---|---|")
    for case in asked.cases or CASES:
        for seed in range(1, asked.seeds + 1):
            cluster = Cluster(random.Random(seed), asked.nodes)
            pods = list(MAKE[case](cluster, asked.nodes * PODS_PER_NODE))
            running = sum(1 for _ in cluster.state.placements())
            began = time.process_time()
            found = optimal(assemble(()), checkpoint_of(cluster.state), cluster.state.snapshot().now, pods, asked.seconds)
            took = time.process_time() - began
            cells = (
                case,
                seed,
                running,
                len(pods),
                f"{found.answer.value} {found.why}".strip(),
                len(found.evicted),
                found.moves,
                found.fewest,
            )
            print(f"| {' | '.join(map(str, cells))} | {took:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
