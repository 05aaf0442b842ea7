"""Functions of a node's images, and of what a pod requires of its node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.signature import NOT_NEGATIVE, AtNode, AtRows, always
from wharfinger.language.semantics.catalogue import Function, Parameter, Volatility
from wharfinger.language.semantics.types import Kind, Shape
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state import node_selection


def _image_bytes(context: AtNode) -> float:
    total = 0.0
    for name in context.pod.images:
        image = context.snapshot.image(name)
        if image is not None:
            total += sum(float(size) for row, size in zip(image.rows, image.sizes, strict=True) if row == context.row)
    return total


def _image_bytes_kernel(context: AtRows) -> NDArray[np.float64]:
    total = np.zeros(context.snapshot.n_nodes)
    for name in context.pod.images:
        image = context.snapshot.image(name)
        if image is not None:
            total[image.rows] += image.sizes
    return total[context.rows]


IMAGES = (
    Function(
        name="image_bytes_present",
        parameters=(),
        result=always(Kind.MEMORY, shape=Shape.NODE),
        doc="How many bytes of the pod's images the node has already; an image that two containers share counts for each.",
        example="image_bytes_present() >= 500Mi",
        scalar=_image_bytes,
        vector=_image_bytes_kernel,
        interval=lambda *_: NOT_NEGATIVE,
        context=True,
        volatility=Volatility.STATIC,
        own_shape=True,
        of_cluster=True,
    ),
)


def _matches(context: AtNode, pod: PodView) -> bool:
    needed = node_selection.required(pod.object)
    node = context.snapshot.node(context.row)
    return needed is None or needed.matches_node(node.labels, node.name)


def _matches_kernel(context: AtRows, pod: PodView) -> NDArray[np.bool_]:
    needed = node_selection.required(pod.object)
    return np.ones(context.n_rows, dtype=np.bool_) if needed is None else needed.matches(context.snapshot, context.rows)


AFFINITY = (
    Function(
        name="node_affinity_matches",
        parameters=(Parameter(name="pod", kinds=frozenset({Kind.POD})),),
        result=always(Kind.BOOL, shape=Shape.NODE),
        doc="Whether the node satisfies the pod's `nodeSelector` and required node affinity, as the NodeAffinity plugin; true for a pod "
        "without them.",
        example="node_affinity_matches(pod)",
        scalar=_matches,
        vector=_matches_kernel,
        context=True,
        volatility=Volatility.STATIC,
        own_shape=True,
    ),
)
