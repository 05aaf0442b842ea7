"""The objects that are neither nodes nor placed pods: services, claims, volumes, budgets, classes, namespaces.

Few rules read these objects, and by name, so they are kept as they are, by kind and key. What a rule derives from all objects of some kinds
is kept up to date with them (`ObjectStore.following`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast
from weakref import proxy

from wharfinger.model import objects

T = TypeVar("T", bound=objects.AnyObject)
Facts = TypeVar("Facts")

READ_PER_STEP = 50
"""Objects whose facts are read in one step, which takes some milliseconds."""

Grouping = Callable[[Any], Hashable]


class NamespaceLabels:
    """The labels of all namespaces; equal to another if all labels are."""

    __slots__ = ("_by_name", "_hash")

    def __init__(self, by_name: Mapping[str, Mapping[str, str]]) -> None:
        self._by_name = by_name
        self._hash = hash(frozenset((name, frozenset(labels.items())) for name, labels in by_name.items()))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, NamespaceLabels) and self._hash == other._hash and self._by_name == other._by_name)

    def __hash__(self) -> int:
        return self._hash

    def of(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; empty if it is not known."""
        return self._by_name.get(name, _NO_LABELS)


_NO_LABELS: Mapping[str, str] = {}


class Follower(Protocol):
    """Derives values from the objects of some kinds, and is kept up to date with them (see `ObjectStore.following`)."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]]

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Follow an object of these kinds that was added (`old` is None), changed, or removed (`new` is None)."""


F = TypeVar("F", bound=Follower)


class ObjectFacts(ABC, Generic[T, Facts]):
    """A follower with the facts of each object of some kinds, which are read at the first question about the object."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]]

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[str, tuple[T, Facts]] = {}

    @abstractmethod
    def _read(self, obj: T) -> Facts:
        """The facts of an object."""

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Forget the facts of an object that has changed."""
        for obj in (old, new):
            if obj is not None:
                self._known.pop(objects.key_of(obj), None)

    def has(self, obj: T) -> bool:
        """True if the facts of an object are read already."""
        known = self._known.get(objects.key_of(obj))
        return known is not None and known[0] is obj

    def facts(self, obj: T) -> Facts:
        """The facts of an object."""
        key = objects.key_of(obj)
        known = self._known.get(key)
        if known is None or known[0] is not obj:
            known = self._known[key] = obj, self._read(obj)
        return known[1]

    def reading(self, found: Iterable[T]) -> Iterator[None]:
        """The steps of reading the facts of some objects; empty if they are read already, or are few."""
        unread = [obj for obj in found if not self.has(obj)]
        for number, obj in enumerate(unread, start=1):
            self.facts(obj)
            if number % READ_PER_STEP == 0:
                yield


class ObjectStore:
    """Objects by kind and key (`namespace/name`, or `name` for cluster-scoped kinds); `revision` changes with every change."""

    __slots__ = ("__weakref__", "_by_kind", "_followers", "_following", "_groups", "_namespaces", "_revisions", "revision")

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, objects.AnyObject]] = {}
        self._revisions: dict[str, int] = {}
        self._groups: dict[str, dict[Grouping, dict[Hashable, dict[str, objects.AnyObject]]]] = {}
        self._namespaces: tuple[int, NamespaceLabels] = (0, NamespaceLabels({}))  # as of a revision of the namespaces
        self._followers: dict[Hashable, Follower] = {}
        self._following: dict[str, list[Follower]] = {}  # by kind
        self.revision = 0

    def __iter__(self) -> Iterator[objects.AnyObject]:
        for by_key in self._by_kind.values():
            yield from by_key.values()

    def put(self, obj: objects.AnyObject) -> None:
        """Add an object; replaces an earlier one of that kind and key."""
        kind, key = objects.kind_of(obj), objects.key_of(obj)
        by_key = self._by_kind.setdefault(kind, {})
        old = by_key.get(key)
        self._ungroup(kind, key, old)
        by_key[key] = obj
        for grouping, groups in self._groups.get(kind, {}).items():
            groups.setdefault(grouping(obj), {})[key] = obj
        for follower in self._following.get(kind, ()):
            follower.changed(old, obj)
        self._touch(kind)

    def drop(self, kind: str, key: str) -> bool:
        """Remove an object; True if it was there."""
        obj = self._by_kind.get(kind, {}).pop(key, None)
        if obj is None:
            return False
        self._ungroup(kind, key, obj)
        for follower in self._following.get(kind, ()):
            follower.changed(obj, None)
        self._touch(kind)
        return True

    def following(self, make: Callable[[ObjectStore], F], *, replay: bool = True) -> F:
        """The follower of a class, made at the first call and kept up to date from then on; `make` is the class.

        With `replay`, it is called for each object that exists already; without, it reads those itself.
        """
        known = self._followers.get(make)
        if known is None:
            known = self._followers[make] = make(proxy(self))  # without a cycle, a store is freed with its last reader
            for kind in known.kinds:
                self._following.setdefault(kind.__name__, []).append(known)
                for obj in self._by_kind.get(kind.__name__, {}).values() if replay else ():
                    known.changed(None, obj)
        return cast("F", known)

    def follow_like(self, other: ObjectStore) -> None:
        """Make the followers and groups that another store has: then each object is read when it is put, not all at the first question."""
        for kind, groups in other._groups.items():
            kept = self._groups.setdefault(kind, {})
            for grouping in groups:
                if grouping not in kept:
                    kept[grouping] = self._grouped(kind, grouping)
        for make in tuple(other._followers):
            self.following(cast("Callable[[ObjectStore], Follower]", make))

    def existing_follower(self, make: Callable[[ObjectStore], F]) -> F | None:
        """The follower of a class if `following` has made it already, otherwise None."""
        return cast("F | None", self._followers.get(make))

    def touch(self, kind: type[objects.AnyObject]) -> None:
        """Count a change of a kind without a change of its objects, such as a decision that is not written yet."""
        self._touch(kind.__name__)

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
        """The revision of the last change of some kinds; 0 if there was none."""
        return max((self._revisions.get(kind.__name__, 0) for kind in kinds), default=0)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """The object of that name; namespaced kinds need the namespace."""
        key = name if kind in objects.CLUSTER_SCOPED else f"{namespace or 'default'}/{name}"
        by_key: dict[str, Any] | None = self._by_kind.get(kind.__name__)
        found: T | None = None if by_key is None else by_key.get(key)
        return found

    @property
    def namespace_labels(self) -> NamespaceLabels:
        """The labels of all namespaces; the same object until a label changes."""
        revision, (known_at, known) = self.revision_of(objects.Namespace), self._namespaces
        if revision != known_at:
            found = NamespaceLabels({each.metadata.name: each.metadata.labels for each in self.all(objects.Namespace)})
            self._namespaces = revision, known if found == known else found
        return self._namespaces[1]

    def all(self, kind: type[T], namespace: str | None = None) -> Sequence[T]:
        """Every object of a kind sorted by key; only those of one namespace if it is given."""
        found = cast("dict[str, T]", self._by_kind.get(kind.__name__, {}))
        prefix = "" if namespace is None else f"{namespace}/"
        return tuple(found[key] for key in sorted(found) if key.startswith(prefix))

    def group(self, kind: type[T], grouping: Callable[[T], Hashable], group: Hashable) -> Sequence[T]:
        """The objects of a kind that `grouping` puts into a group, sorted by key; groups are kept up to date from the first call on.

        `grouping` must be a function of a module, the same object at every call, because it is the key of the groups.
        """
        kept = self._groups.setdefault(kind.__name__, {})
        groups = kept.get(cast("Grouping", grouping))
        if groups is None:
            groups = kept[cast("Grouping", grouping)] = self._grouped(kind.__name__, cast("Grouping", grouping))
        found = cast("dict[str, T]", groups.get(group, {}))
        return tuple(found[key] for key in sorted(found))

    def _grouped(self, kind: str, grouping: Grouping) -> dict[Hashable, dict[str, objects.AnyObject]]:
        groups: dict[Hashable, dict[str, objects.AnyObject]] = {}
        for key, obj in self._by_kind.get(kind, {}).items():
            groups.setdefault(grouping(obj), {})[key] = obj
        return groups


class EvaluationContext(Protocol):
    """The values that need no nodes or pods: the time (seconds since 1970), and the other objects. A snapshot is one."""

    @property
    def now(self) -> float:
        """The time, in seconds since 1970."""

    @property
    def objects(self) -> ObjectStore:
        """The objects that are neither nodes nor placed pods."""


class TimeAndObjects(NamedTuple):
    """An `EvaluationContext` apart from any snapshot: the objects are followed as they change."""

    now: float
    objects: ObjectStore
