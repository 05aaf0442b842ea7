"""A part of the live cluster that a new policy is tried on before it decides anything.

Taken on the event loop in a moment, by reference; made into a cluster of its own by the thread that compiles, so that scheduling neither
waits for it nor changes it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from wharfinger.model import objects
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot

MOST_NODES = 300
MOST_PLACED = 2000
MOST_PROBES = 50


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Some nodes with their pods, and pods to try. `whole`: these are all nodes there are."""

    nodes: tuple[objects.Node, ...]
    placed: tuple[PodView, ...]
    probes: tuple[PodView, ...]
    namespaces: tuple[objects.Namespace, ...]
    now: float
    whole: bool

    @cached_property
    def snapshot(self) -> Snapshot:
        """The sample as a cluster."""
        state = ClusterState()
        for node in self.nodes:
            state.add_node(node)
        for pod in self.placed:
            state.add_pod(pod)
        for namespace in self.namespaces:
            state.put(namespace)
        return state.snapshot(self.now)


def sample_of(snapshot: Snapshot, waiting: Iterable[PodView]) -> Sample:
    """A sample of the cluster, evenly spread over its nodes; probes are waiting pods, then placed ones, one of each template."""
    rows = np.unique(np.linspace(0, max(0, snapshot.n_nodes - 1), min(MOST_NODES, snapshot.n_nodes)).astype(np.intp)).tolist()
    placed = tuple(islice((pod for row in rows for pod in snapshot.pods_on(row)), MOST_PLACED))
    return Sample(
        nodes=tuple(snapshot.node(row).object for row in rows),
        placed=placed,
        probes=_different([*islice(waiting, 20 * MOST_PROBES), *placed]),
        namespaces=tuple(snapshot.objects.all(objects.Namespace))[:MOST_PLACED],
        now=snapshot.now,
        whole=len(rows) == snapshot.n_nodes,
    )


def _different(pods: Iterable[PodView]) -> tuple[PodView, ...]:
    found: dict[bytes, PodView] = {}
    for pod in pods:
        found.setdefault(pod.template, pod)
        if len(found) == MOST_PROBES:
            break
    return tuple(found.values())
