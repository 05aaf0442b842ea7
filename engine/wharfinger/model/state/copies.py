"""Copies of a cluster's state: one made in steps, and a checkpoint from which an equal state can be built again.

Nodes and pods are values that never change, so listing which there are is enough, and quick. Building the tables of a copy takes the time
and happens in steps, so that nothing else has to wait for all of it. Equal means: the same rows in the same order, the same pods in the
same order on them, the same revision. What decides afterwards decides the same.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from wharfinger.model import objects
from wharfinger.model.columns.metric_table import Samples
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

STEP = 50
"""Objects per step: well below a millisecond of work."""


def copied(snapshot: Snapshot) -> Generator[None, None, ClusterState]:
    """A generator of steps that returns the copy; the first step has to come while the snapshot is current."""
    tables = snapshot._current()  # noqa: SLF001 — row by row would take twice as long, and this step blocks the loop
    nodes = list(tables.nodes.objects)
    pods = [placement.pod for members in tables.pods.by_row for placement in members.values()]
    nominated = [(pod, snapshot.names[row]) for row in snapshot.nominated_rows.tolist() for pod in snapshot.nominated(row)]
    others = list(snapshot.objects)
    metrics = {name: dict(samples) for name, samples in snapshot.samples.items()}
    state = ClusterState(snapshot.now)
    for count, node in enumerate(nodes):
        state.add_node(node)
        if count % STEP == 0:
            yield
    for obj in others:
        state.put(obj)
    for count, pod in enumerate(pods):
        state.add_pod(pod)
        if count % STEP == 0:
            yield
    for pod, name in nominated:
        state.nominate(pod, name)
    for name, samples in metrics.items():
        state.set_metric(name, samples)
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A state by reference: everything in it is a value that never changes.

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
    tables = state._tables  # noqa: SLF001 — only copies need rows in order
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
    """Places a pod of a checkpoint in a state that already has the nodes."""
    if not assumed:
        state.add_pod(pod if pod.node_name == node else pod.placed_on(node))
    elif node in state._tables.nodes.row_of:  # noqa: SLF001 — likewise
        state.assume(pod, node)
    else:
        state._aside.put(pod.placed_on(node), node, assumed=True)  # noqa: SLF001 — likewise


def stand_at(state: ClusterState, revision: int) -> None:
    """Sets the revision of a complete state, which counts on from there."""
    tables = state._tables  # noqa: SLF001 — likewise
    tables.revision = tables.layout_revision = revision
