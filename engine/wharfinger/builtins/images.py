"""Images that a node already has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.context import AtNode, AtRows
from wharfinger.builtins.signatures import NOT_NEGATIVE, always
from wharfinger.language.catalogue import Function, Volatility
from wharfinger.language.types import Kind, Shape


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
