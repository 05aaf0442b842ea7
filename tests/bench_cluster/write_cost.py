"""The CPU that a binding and an event cost the API server and etcd.

    python -m tests.bench_cluster.write_cost --rounds 20

The server has no other client. Each round sends the same number of each kind of write, in alternating order; the least and the median of
all rounds are printed.
"""

from __future__ import annotations

import argparse
from itertools import count
from statistics import median

from tests.bench_cluster import workloads
from tests.bench_cluster.contenders import cpu_seconds
from tests.bench_cluster.load import Load, Request
from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane

NAMESPACE = "/api/v1/namespaces/default"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
NODES = 500
KINDS = ("event", "binding")


def event(name: str) -> Request:
    """The request that writes the event of a pod, which need not be there."""
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.187d2f5b4c6a", "namespace": "default"},
        "eventTime": "2026-11-23T06:00:00.123456Z",
        "reportingInstance": "host_0011223344556677",
        "reportingController": "wharfinger",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": name,
            "namespace": "default",
            "uid": "0aa3d9cd-1111-4444-8888-1234567890ab",
        },
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": f"Successfully assigned default/{name} to node-00001",
    }
    return Load.request("POST", EVENTS, name, body)


def binding(name: str, number: int) -> Request:
    """The request that binds a pod to one of the nodes."""
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % NODES:05d}"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "default"}, "target": target}
    return Load.request("POST", f"{NAMESPACE}/pods/{name}/binding", name, body)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_cluster.write_cost", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writes", type=int, default=600, help="of each kind in a round")
    asked = parser.parse_args()
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    batches = count()
    with ControlPlane() as cluster:
        cluster.kwok.stop()
        cluster.controllers.stop()
        load = Load(cluster)
        load.send(Load.request("POST", "/api/v1/nodes", node["metadata"]["name"], node) for node in workloads.nodes(0, NODES))
        for turn in range(asked.rounds):
            for kind in KINDS[:: -1 if turn % 2 else 1]:
                names = [f"written-{next(batches)}-{number}" for number in range(asked.writes)]
                if kind == "event":
                    requests = [event(name) for name in names]
                else:
                    pods = (objects.pod(name, scheduler="absent-scheduler") for name in names)
                    load.send(Load.request("POST", f"{NAMESPACE}/pods", pod["metadata"]["name"], pod) for pod in pods)
                    requests = [binding(name, number) for number, name in enumerate(names)]
                before = cpu_seconds(cluster.api_server) + cpu_seconds(cluster.etcd)
                load.send(requests)
                spent = cpu_seconds(cluster.api_server) + cpu_seconds(cluster.etcd) - before
                taken[kind].append(1e6 * spent / asked.writes)
    for kind, spent_each in taken.items():
        print(f"{kind:8} {min(spent_each):6.0f} µs at least, median {median(spent_each):.0f}")


if __name__ == "__main__":
    main()
