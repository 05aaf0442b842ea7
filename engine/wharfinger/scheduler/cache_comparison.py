"""Compares the state of the scheduler with the API server.

As kube-scheduler's cache debugger does on SIGUSR2 (pkg/scheduler/backend/cache/debugger/comparer.go, Kubernetes 1.36), and beyond it: also
where a pod is on another node, and whether the sums that decisions read are the sums of what is there. Watches run behind the API server
by some milliseconds, so a difference means something when it is still there a little later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wharfinger.model.objects import Node, Pod
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

Demand = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnOtherNode:
    """A pod that is on another node than the scheduler has it on."""

    pod: str
    believed: str
    actual: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongSum:
    """A node whose sum of requested resources is not the sum over its pods."""

    node: str
    believed: Demand
    actual: Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences. `missing_…` is in the API server alone, `extra_…` in the scheduler alone; pods by `namespace/name`.

    `assumed` are pods with the nodes that were chosen for them, whose binding the watch has not shown yet: no difference, unless they stay.
    """

    n_nodes: int
    n_pods: int
    missing_nodes: tuple[str, ...]
    extra_nodes: tuple[str, ...]
    missing_pods: tuple[str, ...]
    extra_pods: tuple[str, ...]
    other_node: tuple[OnOtherNode, ...]
    wrong_sums: tuple[WrongSum, ...]
    assumed: Mapping[str, str]

    @property
    def equal(self) -> bool:
        """True if there is no difference."""
        return not any((self.missing_nodes, self.extra_nodes, self.missing_pods, self.extra_pods, self.other_node, self.wrong_sums))


def compare(state: ClusterState, nodes: Sequence[Node], pods: Iterable[Pod]) -> Comparison:
    """How a state differs from all nodes and pods of the API server; the state is not changed."""
    actual = {view.uid: view for view in map(PodView, pods) if view.node_name and not view.finished}
    believed = {view.uid: (view, assumed) for view, assumed in state.placements()}
    snapshot = state.snapshot()
    known, there = set(snapshot.names), {node.metadata.name for node in nodes}
    both = [(view, actual[uid]) for uid, (view, _) in believed.items() if uid in actual]
    moved = [
        OnOtherNode(pod=own.key, believed=own.node_name, actual=other.node_name) for own, other in both if own.node_name != other.node_name
    ]
    return Comparison(
        n_nodes=len(there),
        n_pods=len(actual),
        missing_nodes=tuple(sorted(there - known)),
        extra_nodes=tuple(sorted(known - there)),
        missing_pods=tuple(sorted(view.key for uid, view in actual.items() if uid not in believed)),
        extra_pods=tuple(sorted(view.key for uid, (view, assumed) in believed.items() if not assumed and uid not in actual)),
        other_node=tuple(sorted(moved, key=lambda one: one.pod)),
        wrong_sums=tuple(_wrong_sums(snapshot, nodes, [view for view, _ in believed.values()])),
        assumed={view.key: view.node_name for uid, (view, assumed) in sorted(believed.items()) if assumed and uid not in actual},
    )


def _wrong_sums(snapshot: Snapshot, nodes: Iterable[Node], believed: Iterable[PodView]) -> Iterable[WrongSum]:
    """The nodes whose sums, kept by adding and subtracting, differ from sums computed anew."""
    anew = ClusterState()
    for node in nodes:
        anew.add_node(node)
    for pod in believed:
        anew.add_pod(pod)
    fresh = anew.snapshot()
    for name in sorted(set(snapshot.names) & set(fresh.names)):
        kept, made = _sums(snapshot, name), _sums(fresh, name)
        if kept != made:
            yield WrongSum(node=name, believed=kept, actual=made)


def _sums(snapshot: Snapshot, name: str) -> Demand:
    """What is requested on a node by resource, and the number of its pods, in the columns; without zeros."""
    row = snapshot.row(name)
    amounts = [*zip(snapshot.resource_names, snapshot.requested[:, row], strict=True), ("pods", snapshot.pod_count[row])]
    return {resource: int(amount) for resource, amount in amounts if amount}
