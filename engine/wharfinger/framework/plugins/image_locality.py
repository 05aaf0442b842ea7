"""ImageLocality: prefer nodes that already hold the pod's images, unless only few nodes do.

An image counts with its size times the fraction of nodes that hold it. An image that few nodes hold counts little, so that its pods do not
all go to the first node that pulled it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.evaluation.question import CycleState
from wharfinger.framework.extension import ScorePlugin
from wharfinger.framework.verdict import Mask, PreScoreAnswer, Rows
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

MEBIBYTE = 1024 * 1024
LEAST = 23 * MEBIBYTE
MOST_PER_CONTAINER = 1000 * MEBIBYTE


class ImageLocality(ScorePlugin):
    """`pkg/scheduler/framework/plugins/imagelocality`, Kubernetes 1.36."""

    name = "ImageLocality"
    score_volatility = Volatility.GLOBAL

    def pre_score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, feasible: Mask) -> PreScoreAnswer:  # noqa: ARG002 — the extension point
        """Computes the points of all nodes, which change only with the node objects."""
        known = cycle.get(self.name)
        if known is None or _nodes_changed(snapshot, known[0]):
            cycle[self.name] = snapshot.revision, _points(pod, snapshot)
        return None

    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:  # noqa: ARG002 — the extension point
        """Points for `rows`, 0..100."""
        points: NDArray[np.int64] = cycle[self.name][1]
        return points[rows]

    def score_changes(
        self,
        cycle: CycleState,  # noqa: ARG002 — the extension point
        pod: PodView,  # noqa: ARG002 — the extension point
        snapshot: Snapshot,
        since: int,
        flipped: NDArray[np.intp],  # noqa: ARG002 — the extension point
    ) -> Rows | None:
        """All rows if a node object changed, as the share of nodes with an image may have changed too; None otherwise."""
        return slice(None) if _nodes_changed(snapshot, since) else None


def _nodes_changed(snapshot: Snapshot, since: int) -> bool:
    changed = snapshot.node_changes(since)
    return changed is None or len(changed) > 0


def _points(pod: PodView, snapshot: Snapshot) -> NDArray[np.int64]:
    held = np.zeros(snapshot.n_nodes, np.int64)
    for image in pod.images:
        state = snapshot.image(image)
        if state.n_nodes:
            # Kubernetes keeps one size per image, from the node that reported it first; here it is the size on the first row.
            held[state.rows] += int(float(state.sizes[0]) * (state.n_nodes / snapshot.n_nodes))
    spec = pod.object.spec
    most = MOST_PER_CONTAINER * (len(spec.init_containers) + len(spec.containers))
    if most <= LEAST:  # a pod without containers: all nodes are equal
        return np.zeros(snapshot.n_nodes, np.int64)
    return 100 * (np.clip(held, LEAST, most) - LEAST) // (most - LEAST)
