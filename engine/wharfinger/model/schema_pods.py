"""The attributes of a pod, one row each: of the pod to be placed (`pod.…`), and of a placed one inside a selection (`it.…`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from wharfinger.language.catalogue import Attribute, Subject
from wharfinger.language.types import Kind, Shape, Type
from wharfinger.model import limits
from wharfinger.model.pod import PodView

LOWEST_PRIORITY: Final = -(2.0**31)
HIGHEST_PRIORITY: Final = 2.0**31 - 1
NATIVE: Final = {"cpu": Kind.CPU, "memory": Kind.MEMORY, "ephemeral_storage": Kind.MEMORY}


def _row(path: str, kind: Kind, doc: str, read: Callable[..., Any], **more: Any) -> Attribute:
    type_ = Type(kind, Shape.POD, more.pop("optional", False), more.pop("element", None))
    return Attribute(subject=Subject.POD, path=path, type=type_, doc=doc, read=read, **more)


def _labels(read: Callable[[PodView], Mapping[str, str]]) -> Callable[..., Any]:
    """Without a key the whole mapping, with a key its value or None."""
    return lambda pod, key=None: read(pod) if key is None else read(pod).get(key)


def _requests() -> list[Attribute]:
    rows = []
    for name, kind in NATIVE.items():
        resource = name.replace("_", "-")
        doc = f"How much {resource} the pod requests, counted as Kubernetes does (init containers, sidecars, overhead); 0 when none."
        rows.append(_row(f"requests.{name}", kind, doc, _requested(resource), low=0.0))
        doc = f"How much {resource} the pod may use; absent when one of its containers has no limit."
        rows.append(_row(f"limits.{name}", kind, doc, _limit(resource), optional=True, low=0.0))
    return rows


def _requested(resource: str) -> Callable[[PodView], int]:
    return lambda pod: pod.requests.get(resource, 0)


def _limit(resource: str) -> Callable[[PodView], int | None]:
    return lambda pod: limits.pod_limits(pod.object).get(resource)


def _owner(part: str) -> Callable[[PodView], str | None]:
    return lambda pod: getattr(pod.controller, part) if pod.controller is not None else None


COMMON: Final = (
    _row("name", Kind.STRING, "The pod's name.", lambda pod: pod.name, identity=True),
    _row("namespace", Kind.STRING, "The pod's namespace.", lambda pod: pod.namespace),
    _row("uid", Kind.STRING, "The pod's uid; namespace/name where it has none yet.", lambda pod: pod.uid, identity=True),
    _row("labels", Kind.LABELS, "The pod's labels.", _labels(lambda pod: pod.labels), keyed=True),
    _row("annotations", Kind.STRING, "An annotation of the pod.", lambda pod, key: pod.annotations.get(key), keyed=True, optional=True),
    _row(
        "priority",
        Kind.NUMBER,
        "The pod's priority; 0 when it has none.",
        lambda pod: pod.priority,
        low=LOWEST_PRIORITY,
        high=HIGHEST_PRIORITY,
    ),
    _row(
        "priority_class",
        Kind.STRING,
        "The name of the pod's priority class.",
        lambda pod: pod.object.spec.priority_class_name or None,
        optional=True,
    ),
    _row("qos", Kind.STRING, '"Guaranteed", "Burstable" or "BestEffort".', lambda pod: pod.qos),
    _row(
        "service_account",
        Kind.STRING,
        'The pod\'s service account; "default" unless it names one.',
        lambda pod: pod.object.spec.service_account_name or "default",
    ),
    _row(
        "scheduler_name",
        Kind.STRING,
        'Which scheduler the pod asks for; "default-scheduler" unless it names one.',
        lambda pod: pod.object.spec.scheduler_name or "default-scheduler",
    ),
    _row("owner_kind", Kind.STRING, "The kind of the controller that made the pod: ReplicaSet, Job, ….", _owner("kind"), optional=True),
    _row("owner_name", Kind.STRING, "The name of the controller that made the pod.", _owner("name"), optional=True),
    _row("created", Kind.TIME, "When the pod was created.", lambda pod: pod.created, optional=True, identity=True, low=0.0),
    *_requests(),
    _row(
        "requests",
        Kind.COUNT,
        'An extended resource that the pod requests, in units: `pod.requests["nvidia.com/gpu"]`.',
        lambda pod, key: pod.requests.get(key),
        keyed=True,
        optional=True,
        low=0.0,
    ),
    _row(
        "limits",
        Kind.COUNT,
        "The limit of an extended resource, in units; absent when one of the containers has none.",
        lambda pod, key: limits.pod_limits(pod.object).get(key),
        keyed=True,
        optional=True,
        low=0.0,
    ),
    _row("host_network", Kind.BOOL, "Whether the pod uses the node's network.", lambda pod: pod.object.spec.host_network),
    _row(
        "images",
        Kind.SET,
        "The images of the pod's containers, tagged (`nginx:latest`).",
        lambda pod: frozenset(pod.images),
        element=Kind.STRING,
    ),
)

PLACED: Final = (
    _row("node_name", Kind.STRING, "The node the pod is on.", lambda pod: pod.node_name, identity=True),
    _row("terminating", Kind.BOOL, "Whether the pod is being deleted.", lambda pod: pod.terminating),
    _row(
        "started",
        Kind.TIME,
        "When the kubelet took the pod on; absent until it has.",
        lambda pod: pod.started,
        optional=True,
        identity=True,
        low=0.0,
    ),
)


def _as_item(attribute: Attribute) -> Attribute:
    return replace(attribute, subject=Subject.ITEM, type=attribute.type.shaped(Shape.ITEM))


ATTRIBUTES: Final = (*COMMON, *(_as_item(attribute) for attribute in (*COMMON, *PLACED)))
