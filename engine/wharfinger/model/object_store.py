"""The objects that are neither nodes nor placed pods: services, claims, volumes, budgets, classes, namespaces.

Few plugins read them, and by name, so they are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, cast

from wharfinger.model import objects

CLUSTER_SCOPED = frozenset(kind.__name__ for kind in objects.CLUSTER_SCOPED)

T = TypeVar("T", bound=objects.AnyObject)


class ObjectStore:
    """Objects by kind and key (`namespace/name`, or `name` for cluster-scoped kinds); `revision` changes with every change."""

    __slots__ = ("_by_kind", "_revisions", "revision")

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, objects.AnyObject]] = {}
        self._revisions: dict[str, int] = {}
        self.revision = 0

    def __iter__(self) -> Iterator[objects.AnyObject]:
        for by_key in self._by_kind.values():
            yield from by_key.values()

    def put(self, obj: objects.AnyObject) -> None:
        """Keep an object, instead of an earlier one of that kind and key."""
        kind = objects.kind_of(obj)
        self._by_kind.setdefault(kind, {})[objects.key_of(obj)] = obj
        self._touch(kind)

    def drop(self, kind: str, key: str) -> bool:
        """Whether there was such an object, which is gone now."""
        if self._by_kind.get(kind, {}).pop(key, None) is None:
            return False
        self._touch(kind)
        return True

    def _touch(self, kind: str) -> None:
        self.revision += 1
        self._revisions[kind] = self.revision

    def revision_of(self, *kinds: type[objects.AnyObject]) -> int:
        """The revision of the last change among some kinds; 0 if there was none."""
        return max((self._revisions.get(kind.__name__, 0) for kind in kinds), default=0)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """The object of that name; namespaced kinds need the namespace."""
        key = name if kind.__name__ in CLUSTER_SCOPED else f"{namespace or 'default'}/{name}"
        return cast("T | None", self._by_kind.get(kind.__name__, {}).get(key))

    def all(self, kind: type[T], namespace: str | None = None) -> Sequence[T]:
        """Every object of a kind sorted by key; only those of one namespace if it is given."""
        found = cast("dict[str, T]", self._by_kind.get(kind.__name__, {}))
        prefix = "" if namespace is None else f"{namespace}/"
        return tuple(found[key] for key in sorted(found) if key.startswith(prefix))
