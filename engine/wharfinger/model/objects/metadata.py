"""The parts that many Kubernetes objects share: metadata, owners, selectors, resource lists, times.

Structs name only what scheduling needs; decoding skips everything else in the JSON. They are frozen and without cycles, so the garbage
collector does not track them: a hundred thousand pods cost no collection pauses.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import field

# The grammar of quantities (see quantity.py), so that a bad one is found while decoding. The API server refuses negative ones of resources.
_SIGN = r"(\+|-(?![0-9.]*[1-9]))?"
_QUANTITY_GRAMMAR = rf"^\s*(?=[^\s])(?![+-]?\.?[PE]i){_SIGN}[0-9]*(\.[0-9]*)?([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]?)\s*$"

# Marks text that Kubernetes also accepts as a bare number (`cpu: 2`), and as null, which then is "0"; model/reading/decode.py acts on it.
QUANTITY = "quantity"

Quantity = Annotated[str, msgspec.Meta(extra={QUANTITY: True}, pattern=_QUANTITY_GRAMMAR)]
Quantities = dict[str, Quantity]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class KubeStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of every Kubernetes object and part: JSON names in camelCase, absent means the zero value."""


class OwnerReference(KubeStruct, frozen=True):
    """An owner of an object; at most one owner is the controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(KubeStruct, frozen=True):
    """metadata of any object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class LabelSelectorRequirement(KubeStruct, frozen=True):
    """One of matchExpressions: In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(KubeStruct, frozen=True):
    """A selector over labels; empty selects everything, an absent selector (None where it is used) nothing."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(KubeStruct, frozen=True):
    """One requirement on a node: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(KubeStruct, frozen=True):
    """Requirements that must all match; a term without requirements matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(KubeStruct, frozen=True):
    """Terms; one of them must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ResourceRequirements(KubeStruct, frozen=True):
    """requests and limits by resource name, as text."""

    requests: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)


class ObjectReference(KubeStruct, frozen=True):
    """A reference to an object by kind, namespace, name and uid."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class LocalReference(KubeStruct, frozen=True):
    """A reference to an object by name, in the same namespace or cluster-wide."""

    name: str = ""


_MICRO = 1_000_000


def time_text(seconds: float) -> str:
    """A time as Kubernetes' Time: `2026-01-02T03:04:05Z`."""
    return f"{_to_the_second(round(seconds * _MICRO) // _MICRO)}Z"


def micro_time(seconds: float) -> str:
    """A time as Kubernetes' MicroTime: `2026-01-02T03:04:05.000006Z`."""
    whole, micro = divmod(round(seconds * _MICRO), _MICRO)
    return f"{_to_the_second(whole)}.{micro:06d}Z"


@lru_cache(maxsize=64)  # thousands of events happen in one second
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
