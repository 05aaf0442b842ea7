"""A copy of the cluster's state that is made in steps, so that nobody has to wait for all of it.

What is copied is the state at the first step: nodes and pods are values that nobody changes, so taking note of which there are is enough,
and quick. Building the tables takes the time, and happens in the steps that follow.
"""

from __future__ import annotations

from collections.abc import Generator

from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.snapshot import Snapshot

STEP = 50
"""Objects per step: well below a millisecond of work."""


def copied(snapshot: Snapshot) -> Generator[None, None, ClusterState]:
    """A generator of steps that returns the copy; the first step has to come while the snapshot is current."""
    tables = snapshot._current()  # noqa: SLF001 — row by row would take twice as long, and everybody waits for this step
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
