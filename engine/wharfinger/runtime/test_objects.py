"""Nodes and pods of a `test` block as Kubernetes manifests.

A test names only what matters to it; the rest has unremarkable defaults: a node with 8 CPUs, 32Gi of memory and room for 110 pods, a pod in
namespace `default` that asks for nothing. The fields are those of the language reference; quantities keep the text they were written in,
so that they are read by the same code as a cluster's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from wharfinger.language import ast, units
from wharfinger.language.types import Kind
from wharfinger.model import quantity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""What time it is in a test: fixed, so that a test gives the same answer for ever."""

Manifest = dict[str, Any]
Fields = Mapping[str, Any]

NODE_DEFAULTS: Fields = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_SPELLING = {"ephemeral_storage": "ephemeral-storage"}
_NODE_AMOUNTS = ("cpu", "memory", "ephemeral_storage", "pods")


def plain(value: ast.Expr | tuple[ast.ObjectField, ...]) -> Any:
    """A literal or an object as plain values: numbers as the text of a quantity, sets as lists, objects as dicts."""
    if isinstance(value, tuple):
        return {field.name: plain(field.value) for field in value}
    if isinstance(value, ast.Number):
        return _number(value)
    if isinstance(value, ast.String | ast.Boolean):
        return value.value
    if isinstance(value, ast.SetLiteral):
        return [plain(item) for item in value.items]
    if isinstance(value, ast.Unary) and value.op is ast.UnaryOp.MINUS:
        return f"-{plain(value.operand)}"
    raise TypeError(f"{type(value).__name__} in a test object")


def _number(literal: ast.Number) -> str | float:
    kind = units.literal_kind(literal.digits, literal.unit)
    if kind in (Kind.DURATION, Kind.PERCENT):
        return units.base_value(literal.digits, literal.unit) or 0.0
    return literal.digits + ("" if literal.unit in ("cpu", "B") else literal.unit)  # the other units are Kubernetes' own suffixes


def merged(base: Fields, own: Fields) -> Fields:
    """The fields of an object declared `like` another: its own replace the other's, and objects are merged key by key."""
    both = {name: {**base[name], **own[name]} for name in base.keys() & own.keys() if isinstance(own[name], dict)}
    return {**base, **own, **both}


def node_manifest(name: str, fields: Fields) -> Manifest:
    """A node as a manifest."""
    amounts = {**NODE_DEFAULTS, **{key: fields[key] for key in _NODE_AMOUNTS if key in fields}, **fields.get("resources", {})}
    allocatable = {_SPELLING.get(key, key): value for key, value in amounts.items()}
    conditions = {"Ready": "True", **fields.get("conditions", {})}
    return {
        "metadata": _metadata(name, fields) | {"labels": {"kubernetes.io/hostname": name, **fields.get("labels", {})}},
        "spec": {"unschedulable": fields.get("unschedulable", False), "taints": [_taint(text) for text in fields.get("taints", ())]},
        "status": {
            "allocatable": allocatable,
            "capacity": {**allocatable, **_amounts(fields.get("capacity", {}))},
            "conditions": [{"type": kind, "status": str(status)} for kind, status in conditions.items()],
            "images": [{"names": [image], "sizeBytes": quantity.value(size)} for image, size in fields.get("images", {}).items()],
        },
    }


def pod_manifest(name: str, fields: Fields, *, node: str | None = None) -> Manifest:
    """A pod as a manifest; running on `node`, or pending."""
    metadata = _metadata(name, fields) | {"namespace": fields.get("namespace", "default")}
    if "owner" in fields:
        metadata["ownerReferences"] = [{"controller": True, **fields["owner"]}]
    spec: Manifest = {
        "containers": _containers(fields),
        "priority": int(fields.get("priority", 0)),
        "tolerations": [_toleration(text) for text in fields.get("tolerations", ())],
        "nodeName": node or "",
    }
    for field, key in _POD_SPEC.items():
        if field in fields:
            spec[key] = fields[field]
    status: Manifest = {"phase": "Running" if node else "Pending"}
    if "qos" in fields:
        status["qosClass"] = fields["qos"]
    return {"metadata": metadata, "spec": spec, "status": status}


_POD_SPEC = {
    "node_selector": "nodeSelector",
    "priority_class": "priorityClassName",
    "scheduler_name": "schedulerName",
    "service_account": "serviceAccountName",
}


def _metadata(name: str, fields: Fields) -> Manifest:
    metadata: Manifest = {"name": name, "labels": fields.get("labels", {}), "annotations": fields.get("annotations", {})}
    if "age" in fields:
        metadata["creationTimestamp"] = (NOW - timedelta(seconds=fields["age"])).isoformat()
    return metadata


def _containers(fields: Fields) -> list[Manifest]:
    """One container with the requests, limits and host ports; one more for each image after the first."""
    first, *others = fields.get("images") or [""]
    resources = {"requests": _amounts(fields.get("requests", {})), "limits": _amounts(fields.get("limits", {}))}
    ports = [{"containerPort": int(port), "hostPort": int(port), "protocol": "TCP"} for port in fields.get("host_ports", ())]
    return [
        {"name": "main", "image": first, "resources": resources, "ports": ports},
        *({"name": f"other-{i}", "image": image} for i, image in enumerate(others)),
    ]


def _amounts(fields: Fields) -> Manifest:
    return {_SPELLING.get(key, key): value for key, value in fields.items()}


def _taint(text: str) -> Manifest:
    """`key=value:Effect` or `key:Effect`, as kubectl writes taints."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _toleration(text: str) -> Manifest:
    """`key=value:Effect` tolerates that taint, `key:Effect` any value of the key, `key` any value and effect."""
    pair, colon, effect = text.rpartition(":") if ":" in text else (text, "", "")
    key, equals, value = pair.partition("=")
    return {"key": key, "operator": "Equal" if equals else "Exists", "value": value, "effect": effect if colon else ""}
