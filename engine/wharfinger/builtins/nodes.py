"""Functions of the node object alone: its taints, its images, and whether it is one that the pod requires.

A pod tolerates a taint by the rules of Kubernetes (`model.objects.matching`), which the TaintToleration plugin uses too. Nodes repeat a
handful of lists of taints, so a kernel looks at each distinct list once, and if it asks for a key, only at the lists that have it: a policy
may ask for a thousand keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.builtins.signature import NOT_NEGATIVE, AtNode, AtRows, always, text
from wharfinger.language.report.wording import closest
from wharfinger.language.semantics.catalogue import Function, Parameter, Volatility
from wharfinger.language.semantics.types import Kind, Shape
from wharfinger.model import objects
from wharfinger.model.columns.arrays import ABSENT
from wharfinger.model.columns.node_table import MAX_IMAGES
from wharfinger.model.objects import matching
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state import node_selection

Taints = tuple[objects.Taint, ...]

EFFECTS = (matching.NO_SCHEDULE, matching.PREFER_NO_SCHEDULE, matching.NO_EXECUTE)
TAINT = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>[A-Za-z]+)")
PATTERN = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^=:]*))?(?::(?P<effect>[^=:]*))?")


def effect_fault(effect: object) -> str | None:
    """The error in the name of a taint effect, or None; the empty name means all effects."""
    if effect in (*EFFECTS, ""):
        return None
    near = closest(str(effect), EFFECTS)
    return f"not a taint effect; use one of {', '.join(EFFECTS)}" + (f". Did you mean {near}?" if near else "")


def taint_fault(taint: object) -> str | None:
    """The error in a taint written as kubectl writes it, or None."""
    found = TAINT.fullmatch(str(taint))
    if found is None:
        return 'not a taint; write it as "key=value:NoSchedule" or "key:NoSchedule"'
    return effect_fault(found["effect"])


def key_fault(key: object) -> str | None:
    """The error in the key of a taint, or None."""
    return None if matching.valid_key(str(key)) else 'no taint can have this key; a key is like "dedicated" or "example.com/dedicated"'


def pattern_fault(pattern: object) -> str | None:
    """The error in a text that selects taints, None if there is none."""
    found = PATTERN.fullmatch(str(pattern))
    if found is None or not matching.valid_key(found["key"]):
        return 'not a taint; write it as "key", "key:NoSchedule", "key=value" or "key=value:NoSchedule"'
    if not matching.valid_value(found["value"] or ""):
        return f"no taint can have the value {found['value']}"
    return None if found["effect"] is None else effect_fault(found["effect"] or "nothing behind the colon")


class TaintPattern(Struct, frozen=True):
    """The taints that a text means: what it leaves out may be anything."""

    key: str
    value: str | None
    effect: str | None

    def matches(self, taint: objects.Taint) -> bool:
        """True if a taint is one of them."""
        return taint.key == self.key and self.value in (None, taint.value) and self.effect in (None, taint.effect)


@lru_cache(maxsize=1024)
def pattern_of(text: str) -> TaintPattern:
    """The pattern of a checked text."""
    found = PATTERN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} names no taint")
    return TaintPattern(found["key"], found["value"], found["effect"])


def tolerates(pod: PodView, taint: str) -> bool:
    """True if a toleration of the pod tolerates `key=value:Effect` (component-helpers `scheduling/corev1`, `ToleratesTaint`, 1.36)."""
    found = TAINT.fullmatch(taint)
    if found is None:
        return False
    written = objects.Taint(key=found["key"], value=found["value"] or "", effect=found["effect"])
    return pod.tolerations.tolerate(written)


def _taints_of(context: AtNode) -> Taints:
    return context.snapshot.taints(int(context.snapshot.taint_set[context.row]))


def _per_list(context: AtRows, read: Callable[[Taints], Any], dtype: type[np.generic]) -> NDArray[Any]:
    """The result of `read` for the taints of each row; it is called once for each distinct list."""
    sets, inverse = np.unique(context.snapshot.taint_set[context.rows], return_inverse=True)
    return np.array([read(context.snapshot.taints(number)) for number in sets.tolist()], dtype=dtype)[inverse]


def _per_list_with(context: AtRows, key: str, read: Callable[[Taints], Any], without: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """The result of `read` for the taints of each row that has a taint with a key; `without` for all other rows."""
    snapshot = context.snapshot
    numbers = snapshot.taint_sets_with(key)
    if not numbers:
        return np.full(context.n_rows, without, dtype)
    found = np.full(snapshot.n_taint_sets, without, dtype)
    for number in numbers:
        found[number] = read(snapshot.taints(number))
    return found[snapshot.taint_set[context.rows]]


def _count(taints: Taints, effect: str) -> int:
    return sum(effect in ("", taint.effect) for taint in taints)


def _taints(context: AtNode, _node: object, effect: str) -> float:
    return float(_count(_taints_of(context), effect))


def _taints_kernel(context: AtRows, _node: object, effect: str) -> NDArray[np.float64]:
    return _per_list(context, lambda taints: _count(taints, effect), np.float64)


def _untolerated(pod: PodView, taints: Taints, effect: str) -> int:
    return len(pod.tolerations.untolerated(taints, {effect} if effect else EFFECTS))


def _untolerated_taints(context: AtNode, pod: PodView, _node: object, effect: str) -> float:
    return float(_untolerated(pod, _taints_of(context), effect))


def _untolerated_taints_kernel(context: AtRows, pod: PodView, _node: object, effect: str) -> NDArray[np.float64]:
    return _per_list(context, lambda taints: _untolerated(pod, taints, effect), np.float64)


def _has_taint(context: AtNode, _node: object, taint: str) -> bool:
    return any(map(pattern_of(taint).matches, _taints_of(context)))


def _has_taint_kernel(context: AtRows, _node: object, taint: str) -> NDArray[np.bool_]:
    pattern = pattern_of(taint)
    return _per_list_with(context, pattern.key, lambda taints: any(map(pattern.matches, taints)), False, np.bool_)


def _value(taints: Taints, key: str) -> str | None:
    return next((taint.value for taint in taints if taint.key == key), None)


def _taint_value(context: AtNode, _node: object, key: str) -> str | None:
    return _value(_taints_of(context), key)


def _taint_value_kernel(context: AtRows, _node: object, key: str) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    strings = context.snapshot.strings

    def code(taints: Taints) -> int:
        return strings.code(_value(taints, key))

    codes = _per_list_with(context, key, code, ABSENT, np.int32)
    return codes, np.greater_equal(codes, 0)


_POD = Parameter(name="pod", kinds=frozenset({Kind.POD}))
_NODE = Parameter(name="node", kinds=frozenset({Kind.NODE}))
_EFFECT = Parameter(name="effect", kinds=frozenset({Kind.STRING}), default="", required=False, literal=True, validate=effect_fault)

TAINTS = (
    Function(
        name="tolerates",
        parameters=(_POD, text("taint", literal=True, validate=taint_fault)),
        result=always(Kind.BOOL),
        doc='True if a toleration of the pod tolerates the taint, written as kubectl does: `"key=value:Effect"` or `"key:Effect"`.',
        example='tolerates(pod, "dedicated=gpu:NoSchedule")',
        scalar=tolerates,
        vector=tolerates,
    ),
    Function(
        name="taints",
        parameters=(_NODE, _EFFECT),
        result=always(Kind.COUNT, shape=Shape.NODE),
        doc="The number of taints of that effect that the node has; of any effect if none is named.",
        example='taints(node, "PreferNoSchedule") == 0',
        scalar=_taints,
        vector=_taints_kernel,
        interval=lambda *_: NOT_NEGATIVE,
        context=True,
        volatility=Volatility.STATIC,
        own_shape=True,
    ),
    Function(
        name="untolerated_taints",
        parameters=(_POD, _NODE, _EFFECT),
        result=always(Kind.COUNT, shape=Shape.NODE),
        doc="The number of taints of that effect that no toleration of the pod tolerates; of any effect if none is named.",
        example='untolerated_taints(pod, node, effect: "PreferNoSchedule") == 0',
        scalar=_untolerated_taints,
        vector=_untolerated_taints_kernel,
        interval=lambda *_: NOT_NEGATIVE,
        context=True,
        volatility=Volatility.STATIC,
        own_shape=True,
    ),
    Function(
        name="has_taint",
        parameters=(_NODE, text("taint", literal=True, validate=pattern_fault)),
        result=always(Kind.BOOL, shape=Shape.NODE),
        doc='True if the node has such a taint: `"key=value:Effect"`, or less of it, `"key:Effect"`, `"key=value"` or `"key"`; '
        "what is left out may be anything.",
        example='has_taint(node, "dedicated=gpu:NoSchedule")',
        scalar=_has_taint,
        vector=_has_taint_kernel,
        context=True,
        volatility=Volatility.STATIC,
        own_shape=True,
    ),
    Function(
        name="taint_value",
        parameters=(_NODE, text("key", literal=True, validate=key_fault)),
        result=always(Kind.STRING, optional=True, shape=Shape.NODE),
        doc="The value of the node's taint with that key, of the first where several effects have one; missing where there is none.",
        example='taint_value(node, "dedicated") ?? "nobody"',
        scalar=_taint_value,
        vector=_taint_value_kernel,
        context=True,
        volatility=Volatility.STATIC,
        own_shape=True,
    ),
)


def _image_bytes(context: AtNode) -> float:
    total = 0.0
    for name in context.pod.images[:MAX_IMAGES]:
        image = context.snapshot.image(name)
        total += sum(float(size) for row, size in zip(image.rows, image.sizes, strict=True) if row == context.row)
    return total


def _image_bytes_kernel(context: AtRows) -> NDArray[np.float64]:
    total = np.zeros(context.snapshot.n_nodes)
    for name in context.pod.images[:MAX_IMAGES]:
        image = context.snapshot.image(name)
        total[image.rows] += image.sizes
    return total[context.rows]


IMAGES = (
    Function(
        name="image_bytes_present",
        parameters=(),
        result=always(Kind.MEMORY, shape=Shape.NODE),
        doc="The bytes of the pod's images that the node has already, of the first 50; an image that two containers share counts for each.",
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
        parameters=(_POD,),
        result=always(Kind.BOOL, shape=Shape.NODE),
        doc="True if the node satisfies the pod's `nodeSelector` and required node affinity, as the NodeAffinity plugin; true for a pod "
        "without them.",
        example="node_affinity_matches(pod)",
        scalar=_matches,
        vector=_matches_kernel,
        context=True,
        volatility=Volatility.STATIC,
        own_shape=True,
    ),
)
