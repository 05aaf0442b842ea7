"""The objects that are neither nodes nor placed pods: services, claims, volumes, budgets, classes, namespaces.

Few plugins read them, and by name, so they are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar, cast

from wharfinger.model import objects

CLUSTER_SCOPED = frozenset(kind.__name__ for kind in objects.CLUSTER_SCOPED)

T = TypeVar("T", bound=objects.AnyObject)

Grouping = Callable[[Any], Hashable]


class ObjectStore:
    """Objects by kind and key (`namespace/name`, or `name` for cluster-scoped kinds); `revision` changes with every change."""

    __slots__ = ("_by_kind", "_groups", "_revisions", "revision")

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, objects.AnyObject]] = {}
        self._revisions: dict[str, int] = {}
        self._groups: dict[str, dict[Grouping, dict[Hashable, dict[str, objects.AnyObject]]]] = {}
        self.revision = 0

    def __iter__(self) -> Iterator[objects.AnyObject]:
        for by_key in self._by_kind.values():
            yield from by_key.values()

    def put(self, obj: objects.AnyObject) -> None:
        """Keep an object, instead of an earlier one of that kind and key."""
        kind, key = objects.kind_of(obj), objects.key_of(obj)
        by_key = self._by_kind.setdefault(kind, {})
        self._ungroup(kind, key, by_key.get(key))
        by_key[key] = obj
        for grouping, groups in self._groups.get(kind, {}).items():
            groups.setdefault(grouping(obj), {})[key] = obj
        self._touch(kind)

    def drop(self, kind: str, key: str) -> bool:
        """Whether there was such an object, which is gone now."""
        obj = self._by_kind.get(kind, {}).pop(key, None)
        if obj is None:
            return False
        self._ungroup(kind, key, obj)
        self._touch(kind)
        return True

    def _ungroup(self, kind: str, key: str, obj: objects.AnyObject | None) -> None:
        for grouping, groups in self._groups.get(kind, {}).items():
            if obj is not None:
                group = grouping(obj)
                del groups[group][key]
                if not groups[group]:
                    del groups[group]

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

    def group(self, kind: type[T], grouping: Callable[[T], Hashable], group: Hashable) -> Sequence[T]:
        """The objects of a kind that `grouping` puts into a group, sorted by key; groups are kept up to date from the first question on.

        `grouping` is a function of a module, the same object at every call: it names the way of grouping.
        """
        kept = self._groups.setdefault(kind.__name__, {})
        groups = kept.get(cast("Grouping", grouping))
        if groups is None:
            groups = kept[cast("Grouping", grouping)] = {}
            for key, obj in self._by_kind.get(kind.__name__, {}).items():
                groups.setdefault(grouping(cast("T", obj)), {})[key] = obj
        found = cast("dict[str, T]", groups.get(group, {}))
        return tuple(found[key] for key in sorted(found))
