"""ImageLocality: prefer nodes that already hold the pod's images, unless only few nodes do.

An image counts with its size times the fraction of nodes that hold it. An image that few nodes hold counts little, so that its pods do not
all go to the first node that pulled it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.extension import ScorePlugin
from wharfinger.framework.prepared import OUTDATED, Affected, Attempt, Changes, Mask, PreparedScore, Rows
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.columns.node_table import MAX_IMAGES

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

MEBIBYTE = 1024 * 1024
MIN_THRESHOLD = 23 * MEBIBYTE
MAX_CONTAINER_THRESHOLD = 1000 * MEBIBYTE


class ImageLocality(ScorePlugin):
    """`pkg/scheduler/framework/plugins/imagelocality`, Kubernetes 1.36."""

    name = "ImageLocality"
    score_volatility = Volatility.GLOBAL

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore:  # noqa: ARG002 — the extension point
        """Never skips."""
        return ImagePoints(attempt.pod, attempt.snapshot)


class ImagePoints(PreparedScore):
    """Points for the images that nodes hold, 0..100; they change only with the node objects."""

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        self._points = _points(pod, snapshot)

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:  # noqa: ARG002 — the extension point
        """The points."""
        return self._points[rows]

    def affected(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flipped: NDArray[np.intp]) -> Affected:  # noqa: ARG002 — the extension point
        """`OUTDATED` if a node object changed, as the share of nodes with an image may have changed too."""
        return OUTDATED if len(changes.node_rows) else None


def _points(pod: PodView, snapshot: Snapshot) -> NDArray[np.int64]:
    held = np.zeros(snapshot.n_nodes, np.int64)
    for image in pod.images[:MAX_IMAGES]:
        state = snapshot.image(image)
        if state.n_nodes:
            # Kubernetes keeps one size per image, from the node that reported it first; here it is the size on the first row.
            held[state.rows] += int(float(state.sizes[0]) * (state.n_nodes / snapshot.n_nodes))
    spec = pod.object.spec
    most = MAX_CONTAINER_THRESHOLD * (len(spec.init_containers) + len(spec.containers))
    if most <= MIN_THRESHOLD:  # a pod without containers: all nodes are equal
        return np.zeros(snapshot.n_nodes, np.int64)
    return 100 * (np.clip(held, MIN_THRESHOLD, most) - MIN_THRESHOLD) // (most - MIN_THRESHOLD)
