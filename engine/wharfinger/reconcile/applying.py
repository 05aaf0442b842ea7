"""Objects made for others: applied only when they are not as they should be, and never over somebody else's."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from wharfinger.crd.names import APP_LABEL, NAMESPACE_LABEL
from wharfinger.errors import WharfingerError
from wharfinger.kube import refusals
from wharfinger.kube.custom_resources import KINDS, PlainObject, collection
from wharfinger.kube.object_writer import ObjectWriter
from wharfinger.model import decode
from wharfinger.model.objects_meta import ObjectMeta
from wharfinger.reconcile.app_objects import holds


class NotOurs(WharfingerError):
    """There is an object of that name which was not made for this app."""


def is_app_of(found: PlainObject, app: ObjectMeta) -> bool:
    """Whether an object was made for this very app."""
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
    """Whether something had to be written. NotOurs when somebody else's object is in the way; ApiError as the writer."""
    if found is not None and is_app_of(found, app) and _as_wanted(wanted, found):
        return False
    if found is None or not is_app_of(found, app):
        await _claim(writer, wanted, app)
    await writer.apply(wanted)
    return True


async def remove(writer: ObjectWriter, found: PlainObject) -> None:
    """None, once the object is going, or gone."""
    with contextlib.suppress(refusals.NotFound):
        await writer.delete(found)


def _as_wanted(wanted: Mapping[str, Any], found: PlainObject) -> bool:
    meta, wanted_meta = found.metadata, wanted["metadata"]
    return (
        meta.deletion_timestamp is None
        and holds(wanted_meta["labels"], meta.labels)
        and holds(wanted_meta["annotations"], meta.annotations)
        and holds(wanted["spec"], found.spec)
    )


async def _claim(writer: ObjectWriter, wanted: Mapping[str, Any], app: ObjectMeta) -> None:
    """None when the name is free or the object ours, though not seen yet or stripped of its labels."""
    meta = wanted["metadata"]
    there = await living(writer, wanted["kind"], meta.get("namespace", ""), meta["name"])
    if there is not None and not is_app_of(there, app):
        raise NotOurs(f"there is a {wanted['kind']} {meta['name']} already that was not made for this app; rename one of the two")


async def living(writer: ObjectWriter, kind: str, namespace: str, name: str) -> PlainObject | None:
    """An object as the API server has it now, None if it has not."""
    try:
        found = await writer.get(f"{collection(kind, namespace)}/{name}")
    except refusals.NotFound:
        return None
    return decode.convert(found, KINDS[kind])
