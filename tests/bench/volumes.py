"""Decisions about pods that mount their own volume: `python -m tests.bench.volumes [--nodes 5000] [--running 10] [--pods 200]`.

Each node has a CSI driver that attaches 25 volumes, and running pods that each mount a volume, which is attached. Every pod to be placed
has its own unbound claim, as those of a StatefulSet have, or mounts nothing. Each is assumed after its decision, as in a scheduler. Prints
the CPU time of the longest step before the first decision, in which the volumes of nodes are read, of that decision, and the median of the
others.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.garbage_collection import without_full_collections
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

DRIVER = "csi.example.com"
CLASS = {"metadata": {"name": "disks"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}


def cluster(n_nodes: int, running: int) -> ClusterState:
    """The nodes with their drivers, and the running pods with their volumes."""
    state = ClusterState(now=1_800_000_000.0)
    for plugin in assemble().precomputing:
        plugin.follow(state.objects)
    state.put(decode.convert(CLASS, objects.StorageClass))
    for number in range(n_nodes):
        name = f"n{number:05}"
        allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": {"allocatable": allocatable}}
        state.put(decode.convert(node, objects.Node))
        drivers = [{"name": DRIVER, "nodeID": name, "allocatable": {"count": 25}}]
        state.put(decode.convert({"metadata": {"name": name}, "spec": {"drivers": drivers}}, objects.CSINode))
        for place in range(running):
            mounted = f"{name}-{place}"
            holder = {"namespace": "default", "name": mounted, "uid": mounted}
            source = {"csi": {"driver": DRIVER, "volumeHandle": mounted}, "storageClassName": "disks", "claimRef": holder}
            attached = {"attacher": DRIVER, "nodeName": name, "source": {"persistentVolumeName": mounted}}
            state.put(decode.convert({"metadata": {"name": mounted}, "spec": source}, objects.PersistentVolume))
            state.put(decode.convert({"metadata": {"name": mounted}, "spec": attached}, objects.VolumeAttachment))
            state.put(claim(mounted, volume=mounted))
            state.put(pod(mounted, claimed=True, node=name))
    return state


def claim(name: str, volume: str = "") -> objects.PersistentVolumeClaim:
    """A claim, bound if it has a volume."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec = {"storageClassName": "disks", "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
    return decode.convert({"metadata": metadata, "spec": spec}, objects.PersistentVolumeClaim)


def pod(name: str, *, claimed: bool, node: str = "") -> objects.Pod:
    """A pod, with the claim of its name if it has one."""
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": name}}] if claimed else []
    containers = [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]
    spec = {"containers": containers, "nodeName": node, "volumes": volumes}
    return decode.convert({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}, objects.Pod)


def measured(state: ClusterState, n_pods: int, *, claimed: bool) -> tuple[int, float, float, float]:
    """The number of steps before the first decision, the milliseconds of the longest, of the decision, and the median of the others."""
    decider, took, steps = Decider(assemble()), [], [0.0]
    for number in range(n_pods):
        name = f"new-{claimed}-{number}".lower()
        if claimed:
            state.put(claim(name))
        asking, began = PodView(pod(name, claimed=claimed)), time.process_time()
        for _ in decider.precompute(state.snapshot, asking):
            steps.append(1000 * (time.process_time() - began))
            began = time.process_time()
        decision = decider.decide(state.snapshot(), asking)
        took.append(1000 * (time.process_time() - began))
        if decision.node is None:
            raise SystemExit(f"{name} has no node: {decision.message}")
        state.assume(asking, decision.node)
    return len(steps) - 1, max(steps), took[0], statistics.median(took[1:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--running", type=int, default=10, help="pods on each node")
    parser.add_argument("--pods", type=int, default=200, help="pods to place in each case")
    options = parser.parse_args(arguments)
    state = cluster(options.nodes, options.running)
    with without_full_collections():  # as the scheduler does
        for title, claimed in (("without a volume", False), ("a volume each", True)):
            n_steps, longest, first, median = measured(state, options.pods, claimed=claimed)
            steps = f"{n_steps:,} steps of at most {longest:.1f} ms, " if n_steps else ""
            sys.stdout.write(f"{title}: {steps}first decision {first:.1f} ms, median of the others {median:.2f} ms\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
