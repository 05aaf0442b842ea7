"""What is made for a PolicyApp, as a pure function of it, and whether what is there is that."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.crd.app import PolicyAppSpec
from wharfinger.crd.names import API_VERSION, APP_LABEL, GROUP, MANAGED_BY, MANAGER, NAMESPACE_LABEL, POLICY_LABEL
from wharfinger.errors import InvalidObject
from wharfinger.model import quantity
from wharfinger.model.objects_meta import ObjectMeta
from wharfinger.reconcile.inline_policy import held_to

CONTAINER = "app"
APPLIED = f"{GROUP}/applied"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_QUANTITIES = {"requests", "limits"}


def made(body: dict[str, Any]) -> dict[str, Any]:
    """The same object with a digest of it as an annotation: something that it no longer has is as good a reason to write as a change."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return {**body, "metadata": {**body["metadata"], "annotations": {APPLIED: digest}}}


def labels(app: ObjectMeta) -> dict[str, str]:
    """The labels of everything that is made for an app."""
    return {MANAGED_BY: MANAGER, "app.kubernetes.io/name": app.name, APP_LABEL: app.name}


def selector(app: ObjectMeta) -> str:
    """What selects the pods of an app, as text."""
    return f"{APP_LABEL}={app.name}"


def deployment(app: ObjectMeta, spec: PolicyAppSpec) -> dict[str, Any]:
    """The Deployment of an app."""
    pod_labels = labels(app)
    if spec.policy is not None and spec.policy.name is not None and _LABEL_VALUE.fullmatch(spec.policy.name):
        pod_labels[POLICY_LABEL] = spec.policy.name
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(app),
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": {APP_LABEL: app.name}},
            "template": {
                "metadata": {"labels": pod_labels},
                "spec": {"schedulerName": spec.scheduler_name, "containers": [_container(spec)]},
            },
        },
    }
    return made(body)


def service(app: ObjectMeta, spec: PolicyAppSpec) -> dict[str, Any] | None:
    """The Service of an app, None where it serves nothing."""
    if spec.port is None:
        return None
    port = {"name": "main", "port": spec.port, "targetPort": spec.port, "protocol": "TCP"}
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(app),
        "spec": {"selector": {APP_LABEL: app.name}, "ports": [port]},
    }
    return made(body)


def policy_name(app: ObjectMeta) -> str:
    """The name of the policy that an app brings along; no namespace has a dot in its name, so no two apps share one."""
    return f"{app.namespace}.{app.name}"


def inline_policy(app: ObjectMeta, spec: PolicyAppSpec) -> dict[str, Any] | None:
    """The SchedulingPolicy of an app's inline policy, None without one; PolicyError or NoPolicy for a text that is none.

    No owner reference leads from an object of the whole cluster to one of a namespace, so labels say whose it is.
    """
    if spec.policy is None or spec.policy.inline is None:
        return None
    name = policy_name(app)
    body = {
        "apiVersion": API_VERSION,
        "kind": "SchedulingPolicy",
        "metadata": {"name": name, "labels": {**labels(app), NAMESPACE_LABEL: app.namespace}},
        "spec": {
            "source": held_to(spec.policy.inline, name=name, namespace=app.namespace, app=app.name),
            "mode": "Enforce",
            "namespace": app.namespace,
            **({"params": dict(spec.policy.params)} if spec.policy.params else {}),
        },
    }
    return made(body)


def _metadata(app: ObjectMeta) -> dict[str, Any]:
    owner = {"apiVersion": API_VERSION, "kind": "PolicyApp", "name": app.name, "uid": app.uid}
    return {
        "name": app.name,
        "namespace": app.namespace,
        "labels": labels(app),
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }


def _container(spec: PolicyAppSpec) -> dict[str, Any]:
    container: dict[str, Any] = {"name": CONTAINER, "image": spec.image}
    if spec.env:
        container["env"] = [{"name": each.name, "value": each.value} for each in spec.env]
    if spec.port is not None:
        container["ports"] = [{"name": "main", "containerPort": spec.port, "protocol": "TCP"}]
    resources = {name: dict(found) for name, found in (("requests", spec.resources.requests), ("limits", spec.resources.limits)) if found}
    if resources:
        container["resources"] = resources
    return container


def holds(wanted: Any, found: Any, place: str = "") -> bool:
    """Whether everything that is wanted is there: what else is there is not ours to judge. Quantities are compared by their amount."""
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return not wanted and found is None
        return all(
            _amounts_equal(each, found.get(key)) if place in _QUANTITIES else holds(each, found.get(key), key)
            for key, each in wanted.items()
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return isinstance(found, Sequence) and _items_hold(wanted, found)
    if wanted in ("", None) and found in ("", None):
        return True
    return bool(wanted == found)


def _items_hold(wanted: Sequence[Any], found: Sequence[Any]) -> bool:
    """Whether each wanted item is among those found, by its name or uid where it has one."""
    for item in wanted:
        name = next((key for key in ("uid", "name") if isinstance(item, Mapping) and key in item), None)
        among = [other for other in found if name is None or (isinstance(other, Mapping) and other.get(name) == item[name])]
        if not any(holds(item, other) for other in among):
            return False
    return True


def _amounts_equal(left: Any, right: Any) -> bool:
    try:
        return right is not None and quantity.nano(str(left)) == quantity.nano(str(right))
    except InvalidObject:
        return False
