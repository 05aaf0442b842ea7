"""Everything that a state consists of at one moment, in an order from which an equal state can be built again.

Equal means: the same rows in the same order, the same pods in the same order on them, the same revision. What decides afterwards decides
the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wharfinger.model import objects
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.metric_table import Samples
from wharfinger.model.pod import PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A state by reference: everything in it is a value that nobody changes.

    `pods` stand on the nodes of `names`, `assumed` or not, by row and in the order on it, then those whose node is not known: lists side by
    side, as a tuple for each of fifty thousand pods would take ten times as long. `nominations` are (pod, node).
    """

    revision: int
    nodes: tuple[objects.Node, ...]
    others: tuple[objects.AnyObject, ...]
    pods: Sequence[PodView]
    names: Sequence[str]
    assumed: Sequence[bool]
    nominations: tuple[tuple[PodView, str], ...]
    metrics: Mapping[str, Samples]


def checkpoint_of(state: ClusterState) -> Checkpoint:
    """The state as it is; some milliseconds for tens of thousands of pods."""
    tables = state._tables  # noqa: SLF001 — rows in order are nobody else's business
    names = tables.nodes.names
    placed = [placement for members in tables.pods.by_row for placement in members.values()]
    aside = list(state._aside)  # noqa: SLF001 — likewise
    return Checkpoint(
        revision=tables.revision,
        nodes=tuple(tables.nodes.objects),
        others=tuple(tables.objects),
        pods=[placement.pod for placement in placed] + [pod for pod, _, _ in aside],
        names=[names[placement.row] for placement in placed] + [name for _, name, _ in aside],
        assumed=[placement.assumed for placement in placed] + [assumed for _, _, assumed in aside],
        nominations=tuple(tables.nominations.items()),
        metrics=dict(tables.metrics.samples),
    )


def put_back(state: ClusterState, pod: PodView, node: str, *, assumed: bool) -> None:
    """None; the pod of a checkpoint takes its place in a state that has the nodes already."""
    if not assumed:
        state.add_pod(pod if pod.node_name == node else pod.placed_on(node))
    elif node in state._tables.nodes.row_of:  # noqa: SLF001 — likewise
        state.assume(pod, node)
    else:
        state._aside.put(pod.placed_on(node), node, assumed=True)  # noqa: SLF001 — likewise


def stand_at(state: ClusterState, revision: int) -> None:
    """None; the state is complete, and goes on counting from that revision."""
    tables = state._tables  # noqa: SLF001 — likewise
    tables.revision = tables.layout_revision = revision
