"""The invariants of a cluster after any fault of its scheduler; one function checks them for all scenarios.

Every pod is bound once, or pending for a reason that is true; no node carries more than it offers; the scheduler holds nothing back for
a pod that does not exist.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.cluster.api import Api
from tests.cluster.control_plane import ControlPlane
from tests.cluster.snapshot import read_cluster
from tests.cluster.waiting import PATIENCE, eventually
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.cluster import Cluster

SHOWN = 20
ASSIGNED = re.compile(r"Successfully assigned \S+ to (\S+)")


def assert_sound(
    cluster: ControlPlane,
    *,
    chain: Chain | None = None,
    schedulers: Collection[str] = ("default-scheduler", "wharfinger"),
    assumed: Callable[[], Collection[str]] = tuple,
    removed_nodes: Collection[str] = (),
    within: float = PATIENCE,
) -> None:
    """Returns when the cluster is sound, which it must be `within` seconds; raises AssertionError with what is wrong.

    `chain` is what the scheduler decides by (default: Kubernetes' own plugins). Pods of other `schedulers` may be pending for whatever
    reason. `assumed` returns the pods that the scheduler has decided and not seen bound. Pods may be on `removed_nodes`: no controller runs
    that would delete them.
    """

    def sound() -> bool:
        found = [*problems(cluster.api, chain or assemble(), schedulers, removed_nodes), *(f"{key} is still assumed" for key in assumed())]
        assert not found, f"{len(found)} problems:\n" + "\n".join(found[:SHOWN])
        return True

    eventually(sound, within=within, every=0.5)


def problems(api: Api, chain: Chain, schedulers: Collection[str], removed_nodes: Collection[str]) -> Iterator[str]:
    """A sentence for each thing that is wrong now."""
    found = read_cluster(api)
    pods = api.list("Pod")
    yield from _bindings(pods, {node.metadata.name for node in found.objects.nodes} | set(removed_nodes))
    yield from _events(pods, api.list("Event"))
    yield from overcommitted(found.state)
    yield from _pending(found, [pod for pod in pods if pod["spec"]["schedulerName"] in schedulers], chain)


def overcommitted(state: ClusterState) -> Iterator[str]:
    """A sentence for each node and resource of which its pods request more than the node offers."""
    snapshot = state.snapshot()
    for resource, row in zip(*np.nonzero(snapshot.requested > snapshot.allocatable), strict=True):
        requested, offered = snapshot.requested[resource, row], snapshot.allocatable[resource, row]
        yield f"node {snapshot.names[row]} offers {offered} of resource {resource}, its pods request {requested}"
    for row in np.flatnonzero(snapshot.pod_count > snapshot.allowed_pods):
        yield f"node {snapshot.names[row]} has {snapshot.pod_count[row]} pods and allows {snapshot.allowed_pods[row]}"


def _bindings(pods: Iterable[Any], nodes: Collection[str]) -> Iterator[str]:
    for pod in pods:
        if (node := pod["spec"].get("nodeName")) is None:
            continue
        if node not in nodes:
            yield f"{_key(pod)} is bound to {node}, which is not there"
        if (condition := _scheduled(pod)) is not None and condition["status"] != "True":
            yield f"{_key(pod)} is bound to {node}, and its condition PodScheduled is {condition['status']}"


def _events(pods: Sequence[Any], events: Iterable[Any]) -> Iterator[str]:
    """Two decisions that were both taken for bindings: two events for one pod, or one that names another node."""
    reported = [event for event in events if event["reason"] == "Scheduled" and event["regarding"]["kind"] == "Pod"]
    times = Counter(event["regarding"]["uid"] for event in reported)
    node_of = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in pods}
    for event in reported:
        uid, match = event["regarding"]["uid"], ASSIGNED.match(event.get("note", ""))
        if times[uid] > 1:
            yield f"{event['regarding']['name']} ({uid}) was said to be bound {times[uid]} times: {event.get('note')}"
        if match and uid in node_of and node_of[uid] != match[1]:
            yield f"{event['regarding']['name']} is bound to {node_of[uid]}, and an event says {match[1]}"


def _pending(found: Cluster, pods: Iterable[Any], chain: Chain) -> Iterator[str]:
    waiting = {pod.uid: pod for pod in found.pending}
    decider, snapshot = Decider(chain), found.state.snapshot()
    for pod in pods:
        if (view := waiting.get(pod["metadata"]["uid"])) is None:
            continue
        condition = _scheduled(pod) or {}
        if condition.get("status") != "False" or not condition.get("message"):
            yield f"{_key(pod)} is pending without a reason"
        elif condition["reason"] == "SchedulingGated":
            if not pod["spec"].get("schedulingGates"):
                yield f"{_key(pod)} is said to be gated, and has no gates"
        elif (decision := decider.decide(snapshot, view)).node is not None:
            yield f"{_key(pod)} is pending, and {decision.feasible} nodes have room for it; it says: {condition['message']}"
        elif not reasons(condition["message"]) & reasons(decision.message):
            yield f"{_key(pod)} is pending for {decision.message!r}, and says {condition['message']!r}"


def reasons(message: str) -> set[str]:
    """The reasons that a message like `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) …. preemption: …` gives, without counts."""
    _, _, rest = message.partition(": ")
    parts = rest.partition(". ")[0].rstrip(".").split(", ")
    return {re.sub(r"^\d+ ", "", part) for part in parts}


def _scheduled(pod: Any) -> Any:
    return next((condition for condition in pod["status"].get("conditions", ()) if condition["type"] == "PodScheduled"), None)


def _key(pod: Any) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
