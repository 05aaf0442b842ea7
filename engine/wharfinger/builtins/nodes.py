"""Functions of a node's images and taints."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.signature import NOT_NEGATIVE, AtNode, AtRows, always, text
from wharfinger.language.semantics.catalogue import Function, Parameter, Volatility
from wharfinger.language.semantics.types import Kind, Shape
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.objects.pod_view import PodView


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


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>[A-Za-z]+)")


def effect_fault(effect: object) -> str | None:
    """What is wrong with the name of a taint effect, None if nothing; the empty name stands for all effects."""
    return None if effect in (*EFFECTS, "") else f"not a taint effect; use one of {', '.join(EFFECTS)}"


def taint_fault(taint: object) -> str | None:
    """What is wrong with a taint written as kubectl writes it, None if nothing."""
    found = TAINT.fullmatch(str(taint))
    if found is None:
        return 'not a taint; write it as "key=value:NoSchedule" or "key:NoSchedule"'
    return effect_fault(found["effect"])


def tolerates(pod: PodView, taint: str) -> bool:
    """True if a toleration of the pod tolerates `key=value:Effect` (component-helpers `scheduling/corev1`, `ToleratesTaint`, 1.36)."""
    found = TAINT.fullmatch(taint)
    if found is None:
        return False
    written = objects.Taint(key=found["key"], value=found["value"] or "", effect=found["effect"])
    return matching.tolerated(pod.object.spec.tolerations, written)


def _taints(context: AtNode, _node: object, effect: str) -> float:
    taints = context.snapshot.taints(int(context.snapshot.taint_set[context.row]))
    return float(sum(effect in ("", taint.effect) for taint in taints))


def _taints_kernel(context: AtRows, _node: object, effect: str) -> NDArray[np.float64]:
    sets, inverse = np.unique(context.snapshot.taint_set[context.rows], return_inverse=True)
    counts = [sum(effect in ("", taint.effect) for taint in context.snapshot.taints(int(s))) for s in sets]
    return np.array(counts, dtype=np.float64)[inverse]


TAINTS = (
    Function(
        name="tolerates",
        parameters=(Parameter(name="pod", kinds=frozenset({Kind.POD})), text("taint", literal=True, validate=taint_fault)),
        result=always(Kind.BOOL),
        doc='Whether a toleration of the pod tolerates the taint, written as kubectl does: `"key=value:Effect"` or `"key:Effect"`.',
        example='tolerates(pod, "dedicated=gpu:NoSchedule")',
        scalar=tolerates,
        vector=tolerates,
    ),
    Function(
        name="taints",
        parameters=(
            Parameter(name="node", kinds=frozenset({Kind.NODE})),
            Parameter(name="effect", kinds=frozenset({Kind.STRING}), default="", required=False, literal=True, validate=effect_fault),
        ),
        result=always(Kind.COUNT, shape=Shape.NODE),
        doc="How many taints of that effect the node has; of any effect when none is named.",
        example='taints(node, "PreferNoSchedule") == 0',
        scalar=_taints,
        vector=_taints_kernel,
        interval=lambda *_: NOT_NEGATIVE,
        context=True,
        volatility=Volatility.STATIC,
        own_shape=True,
    ),
)
