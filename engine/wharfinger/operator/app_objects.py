"""The objects that are made for a PolicyApp: Deployment, Service and inline policy, as pure functions, and how they are applied.

An object is applied only when it differs from what is wanted, and never over an object that belongs to something else.

The author of a PolicyApp must not decide about pods of others. So the inline policy gets a unique name, and its scope is narrowed to the
app's pods, both in the text itself. Line numbers stay the same. Its tests are taken out, as they are about pods outside the narrower scope.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.crd import API_VERSION, APP_LABEL, GROUP, MANAGED_BY, MANAGER, NAMESPACE_LABEL, POLICY_LABEL
from wharfinger.crd.models import PolicyAppSpec
from wharfinger.errors import InvalidObject, WharfingerError
from wharfinger.kube import api_errors
from wharfinger.kube.custom_resources import KINDS, ObjectWriter, PlainObject, collection
from wharfinger.language import ast
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError, Source
from wharfinger.model.objects import quantity
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.reading import decode


class NoPolicy(WharfingerError):
    """The text holds no policy."""


def restricted_to_app(text: str, *, name: str, namespace: str, app: str) -> str:
    """The policy text with this name, for pods of the app only. PolicyError if it cannot be parsed, NoPolicy if it has no policy."""
    diagnostics = Diagnostics()
    file = parse(Source(name=name, text=text), diagnostics)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    if file is None or file.policy is None:
        raise NoPolicy("the text has no `policy` line")
    edits = [_name(file.policy, name), _scope(file.policy, text, namespace, app), *(_without(test, text) for test in file.tests)]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text.rstrip() + "\n"


Edit = tuple[int, int, str]


def _name(policy: ast.Policy, name: str) -> Edit:
    return policy.name.span.start, policy.name.span.end, f'"{name}"'


def _scope(policy: ast.Policy, text: str, namespace: str, app: str) -> Edit:
    own = f'pod.namespace == "{namespace}" and (pod.labels["{APP_LABEL}"] ?? "") == "{app}"'
    if policy.scope is not None:
        span = policy.scope.span
        return span.start, span.end, f"({text[span.start : span.end]}) and {own}"
    if policy.scope_span is not None:  # `for pods` alone: all of them
        return policy.scope_span.start, policy.scope_span.end, f"for pods where {own}"
    header = policy.version or policy.name
    end = max([header.span.end, *(annotation.span.end for annotation in policy.annotations)])
    return end, end, f" for pods where {own}"


def _without(test: ast.Test, text: str) -> Edit:
    """An edit that replaces a test by its line ends, so that the text after it keeps its line numbers."""
    return test.span.start, test.span.end, "\n" * text.count("\n", test.span.start, test.span.end)


CONTAINER = "app"
APPLIED = f"{GROUP}/applied"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_QUANTITIES = {"requests", "limits"}


def made(body: dict[str, Any]) -> dict[str, Any]:
    """The object with an annotation that holds its digest, so that a field that was removed counts as a change too."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return {**body, "metadata": {**body["metadata"], "annotations": {APPLIED: digest}}}


def labels(app: ObjectMeta) -> dict[str, str]:
    """The labels of everything that is made for an app."""
    return {MANAGED_BY: MANAGER, "app.kubernetes.io/name": app.name, APP_LABEL: app.name}


def selector(app: ObjectMeta) -> str:
    """The label selector of the pods of an app, as text."""
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
    """The name of the inline policy of an app; no namespace has a dot in its name, so no two apps share one."""
    return f"{app.namespace}.{app.name}"


def inline_policy(app: ObjectMeta, spec: PolicyAppSpec) -> dict[str, Any] | None:
    """The SchedulingPolicy of an app's inline policy, None without one; PolicyError or NoPolicy for an invalid text.

    A cluster-scoped object cannot have an owner in a namespace, so labels name the app.
    """
    if spec.policy is None or spec.policy.inline is None:
        return None
    name = policy_name(app)
    body = {
        "apiVersion": API_VERSION,
        "kind": "SchedulingPolicy",
        "metadata": {"name": name, "labels": {**labels(app), NAMESPACE_LABEL: app.namespace}},
        "spec": {
            "source": restricted_to_app(spec.policy.inline, name=name, namespace=app.namespace, app=app.name),
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
    """True if everything that is wanted is found; other fields are ignored. Quantities are compared by their amount."""
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
    """True if each wanted item is among those found, by its name or uid where it has one."""
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


class NotOwned(WharfingerError):
    """An object of that name exists, and was not made for this app."""


def is_app_of(found: PlainObject, app: ObjectMeta) -> bool:
    """True if an object was made for this very app."""
    meta = found.metadata
    if meta.namespace:
        return any(each.uid == app.uid for each in meta.owner_references)
    return meta.labels.get(APP_LABEL) == app.name and meta.labels.get(NAMESPACE_LABEL) == app.namespace


def app_key_of(obj: Any) -> str | None:
    """The key of the app that an object was made for; None for one that was not made for an app."""
    labels = obj.metadata.labels
    name, namespace = labels.get(APP_LABEL), obj.metadata.namespace or labels.get(NAMESPACE_LABEL)
    return f"{namespace}/{name}" if name and namespace else None


async def apply_if_different(writer: ObjectWriter, wanted: Mapping[str, Any], found: PlainObject | None, app: ObjectMeta) -> bool:
    """True if something was written. NotOwned if an object of that name was not made for the app; ApiError as the writer."""
    if found is not None and is_app_of(found, app) and _is_up_to_date(wanted, found):
        return False
    if found is None or not is_app_of(found, app):
        await _claim(writer, wanted, app)
    await writer.apply(wanted)
    return True


async def remove(writer: ObjectWriter, found: PlainObject) -> None:
    """Delete the object, unless it is already deleted."""
    with contextlib.suppress(api_errors.NotFound):
        await writer.delete(found)


def _is_up_to_date(wanted: Mapping[str, Any], found: PlainObject) -> bool:
    meta, wanted_meta = found.metadata, wanted["metadata"]
    return (
        meta.deletion_timestamp is None
        and holds(wanted_meta["labels"], meta.labels)
        and holds(wanted_meta["annotations"], meta.annotations)
        and holds(wanted["spec"], found.spec)
    )


async def _claim(writer: ObjectWriter, wanted: Mapping[str, Any], app: ObjectMeta) -> None:
    """Raise NotOwned unless the name is free or the object is the app's, also if it is not in the cache or its labels were removed."""
    meta = wanted["metadata"]
    current = await existing(writer, wanted["kind"], meta.get("namespace", ""), meta["name"])
    if current is not None and not is_app_of(current, app):
        raise NotOwned(f"there is a {wanted['kind']} {meta['name']} already that was not made for this app; rename one of the two")


async def existing(writer: ObjectWriter, kind: str, namespace: str, name: str) -> PlainObject | None:
    """The present object on the API server; None if it does not exist."""
    try:
        found = await writer.get(f"{collection(kind, namespace)}/{name}")
    except api_errors.NotFound:
        return None
    return decode.convert(found, KINDS[kind])
