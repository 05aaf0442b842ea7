"""The objects that the controllers know, by kind and key, and the handlers that are called on changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from wharfinger.crd.fields import APP_LABEL
from wharfinger.model.objects.metadata import ObjectMeta

Changed = Callable[[Any], None]


class HasMetadata(Protocol):
    """Any object."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""


def key_of(obj: HasMetadata) -> str:
    """`namespace/name`, or `name` for what is in no namespace."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class ObjectCache:
    """A `ClusterSink` that stores objects. Handlers get the object, the last known one when it is gone."""

    def __init__(self, kinds: Collection[str]) -> None:
        self._by_kind: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
        self._handlers: dict[str, list[Changed]] = defaultdict(list)
        self._syncs: dict[str, list[Callable[[], None]]] = defaultdict(list)
        self.synced_kinds: set[str] = set()

    def watch(self, kind: str, handler: Changed) -> None:
        """Calls the handler on every change of an object of the kind."""
        self._handlers[kind].append(handler)

    def when_synced(self, kind: str, handler: Callable[[], None]) -> None:
        """Calls the handler as soon as the kind is synced."""
        self._syncs[kind].append(handler)

    def get(self, kind: str, key: str) -> Any | None:
        """The object of that key, or None."""
        return self._by_kind[kind].get(key)

    def all(self, kind: str) -> list[Any]:
        """All objects of the kind, sorted by key."""
        found = self._by_kind[kind]
        return [found[key] for key in sorted(found)]

    def upsert(self, kind: str, obj: Any) -> None:
        """Stores the object, and calls the handlers if it is new or has changed."""
        if kind in self._by_kind:
            key = key_of(obj)
            known = self._by_kind[kind].get(key)
            self._by_kind[kind][key] = obj
            if known is None or known.metadata.resource_version != obj.metadata.resource_version:
                self._notify(kind, obj)

    def delete(self, kind: str, obj: Any) -> None:
        """Removes the object, and calls the handlers if it was known."""
        known = self._by_kind.get(kind, {}).pop(key_of(obj), None)
        if known is not None:
            self._notify(kind, known)

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Replaces all objects of the kind."""
        if kind in self._by_kind:
            there = {key_of(obj) for obj in objs}
            for gone in [obj for key, obj in self._by_kind[kind].items() if key not in there]:
                self.delete(kind, gone)
            for obj in objs:
                self.upsert(kind, obj)

    def synced(self, kind: str) -> None:
        """Marks the kind as synced: all its objects have been listed."""
        self.synced_kinds.add(kind)
        for handler in self._syncs[kind]:
            handler()

    def _notify(self, kind: str, obj: Any) -> None:
        for handler in self._handlers[kind]:
            handler(obj)


class AppPods:
    """A `ClusterSink` that stores the pods of PolicyApps only. `changed` is called with the key of the app."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._pods: dict[str, dict[str, Any]] = {}
        self._app_of: dict[str, str] = {}
        self._changed = changed

    def of(self, app: str) -> list[Any]:
        """The pods of an app that are there and not about to go, sorted by name."""
        found = self._pods.get(app, {})
        return [found[key] for key in sorted(found) if found[key].metadata.deletion_timestamp is None]

    def upsert(self, kind: str, obj: Any) -> None:
        """Stores the object if it is a pod of an app."""
        if kind != "Pod":
            return
        key, name = key_of(obj), obj.metadata.labels.get(APP_LABEL)
        app = f"{obj.metadata.namespace}/{name}" if name else None
        if self._app_of.get(key) != app:
            self.delete(kind, obj)
        if app is not None:
            self._app_of[key] = app
            self._pods.setdefault(app, {})[key] = obj
            self._changed(app)

    def delete(self, kind: str, obj: Any) -> None:
        """Removes the object."""
        app = self._app_of.pop(key_of(obj), None) if kind == "Pod" else None
        if app is not None:
            del self._pods[app][key_of(obj)]
            if not self._pods[app]:
                del self._pods[app]
            self._changed(app)

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Replaces all objects of the kind."""
        if kind == "Pod":
            there = {key_of(obj) for obj in objs}
            for app, key in [(app, key) for key, app in self._app_of.items() if key not in there]:
                self.delete(kind, self._pods[app][key])
            for obj in objs:
                self.upsert(kind, obj)

    def synced(self, kind: str) -> None:
        """Ignored: pods are not waited for."""
