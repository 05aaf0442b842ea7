"""The placed pods: one entry per pod, grouped in classes of equal template, with indexes and tallies that follow changes.

Pods with equal templates are of one class: predicates and values are evaluated once per class. Entries are dense arrays (row and class per
pod), so a full count of a selection is one `np.bincount`. From then on readers follow the log of added and removed pods. An index finds the
pods with a given value; a tally counts the pods that have each value of some kind (topology keys, claims, volumes).
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.columns import arrays
from wharfinger.model.objects.pod_view import PodView

LOG_LIMIT: Final = 1024  # additions and removals kept; a reader further behind recounts
MAX_READERS: Final = 256
"""Indexes and tallies kept at a time; the least recently used is dropped first."""
READ_PER_STEP: Final = 16
"""Pods, or classes of pods, that are read in one step."""


class ReadInSteps(Protocol):
    """Numbers of the placed pods, which are read at once when they are needed, or in steps before."""

    def read_in_steps(self) -> Generator[None]:
        """The steps of reading the pods as they are, some in each. Changes between the steps are left to the next call."""


class PodClass:
    """Pods that differ in identity only. `serial` is never reused, `number` is reused once the class is empty."""

    __slots__ = ("count", "example", "number", "serial")

    def __init__(self, example: PodView, number: int, serial: int) -> None:
        self.example = example
        self.number = number
        self.serial = serial
        self.count = 0


class Placement:
    """A pod on a node: assumed (decided here, not yet confirmed) or placed; `started` as of `started_at`."""

    __slots__ = ("assumed", "entry", "group", "pod", "row", "started")

    def __init__(self, pod: PodView, row: int, group: PodClass, *, assumed: bool) -> None:
        self.pod = pod
        self.row = row
        self.group = group
        self.started = started_at(pod)
        self.assumed = assumed
        self.entry = -1


def started_at(pod: PodView) -> float:
    """The start of a pod in seconds since 1970; +inf if it has not started, -inf if it runs and its start is unknown."""
    started = pod.started
    if started is not None:
        return started
    return -math.inf if pod.object.status.phase == "Running" else math.inf


Change = tuple[Placement, int, int]  # the placement, its row then, and +1 (added) or -1 (removed)


class PodTable:
    """Every placement, by uid and by row; `n_changes` counts additions and removals since the start."""

    __slots__ = ("_free_numbers", "_log", "_n_classes", "_rows", "_table", "by_row", "by_uid", "classes", "entries", "n_changes")

    def __init__(self) -> None:
        self.by_uid: dict[str, Placement] = {}
        self.by_row: list[dict[str, Placement]] = []
        self._rows = arrays.Rows()
        self._table = (self._rows.column(np.int32, -1), self._rows.column(np.int32, -1), self._rows.column(np.float64, 0.0))
        self.entries: list[Placement] = []
        self.classes: dict[bytes, PodClass] = {}
        self._free_numbers: list[int] = []
        self._n_classes = 0
        self._log: list[Change] = []
        self.n_changes = 0

    @property
    def entry_rows(self) -> NDArray[np.int32]:
        """The node row of each pod, (n_pods,) int32."""
        return self._table[0].view

    @property
    def entry_classes(self) -> NDArray[np.int32]:
        """The class number of each pod, (n_pods,) int32."""
        return self._table[1].view

    @property
    def entry_starts(self) -> NDArray[np.float64]:
        """The start of each pod, (n_pods,) float64, as `started_at` defines it."""
        return self._table[2].view

    @property
    def class_numbers(self) -> int:
        """The number of class numbers: all class numbers are below it."""
        return len(self.classes) + len(self._free_numbers)

    def add(self, pod: PodView, row: int, *, assumed: bool) -> Placement:
        """Add a pod that has no placement; returns its placement."""
        group = self._class_of(pod)
        group.count += 1
        placement = Placement(pod, row, group, assumed=assumed)
        placement.entry = entry = self._rows.add()
        rows, classes, starts = self._table
        rows.array[entry] = row
        classes.array[entry] = group.number
        starts.array[entry] = placement.started
        self.entries.append(placement)
        self.by_uid[pod.uid] = placement
        self.by_row[row][pod.uid] = placement
        self._record(placement, row, 1)
        return placement

    def remove(self, placement: Placement) -> None:
        """Remove a placement."""
        uid, entry = placement.pod.uid, placement.entry
        del self.by_uid[uid]
        del self.by_row[placement.row][uid]
        last = self._rows.remove(entry)
        self.entries[entry] = self.entries[last]
        self.entries[entry].entry = entry
        self.entries.pop()
        self._leave_class(placement)
        self._record(placement, placement.row, -1)

    def renew(self, placement: Placement, pod: PodView) -> None:
        """Replace a pod by a later version, which is not assumed any more; readers see that one was removed and the other added."""
        row, entry = placement.row, placement.entry
        group = self._class_of(pod)
        group.count += 1
        renewed = Placement(pod, row, group, assumed=False)
        renewed.entry = entry
        _, classes, starts = self._table
        classes.array[entry] = group.number
        starts.array[entry] = renewed.started
        self.entries[entry] = self.by_uid[pod.uid] = self.by_row[row][pod.uid] = renewed
        self._leave_class(placement)
        self._record(placement, row, -1)
        self._record(renewed, row, 1)

    def _leave_class(self, placement: Placement) -> None:
        group = placement.group
        group.count -= 1
        if not group.count:
            del self.classes[placement.pod.template]
            self._free_numbers.append(group.number)

    def _class_of(self, pod: PodView) -> PodClass:
        group = self.classes.get(pod.template)
        if group is None:
            number = self._free_numbers.pop() if self._free_numbers else len(self.classes)
            self._n_classes += 1
            group = self.classes[pod.template] = PodClass(pod, number, self._n_classes)
        return group

    def _record(self, placement: Placement, row: int, sign: int) -> None:
        self._log.append((placement, row, sign))
        self.n_changes += 1
        if len(self._log) > 2 * LOG_LIMIT:
            del self._log[:-LOG_LIMIT]

    def changes_since(self, n_changes: int) -> Iterable[Change] | None:
        """The additions and removals after the first `n_changes`, oldest first; None if they are no longer kept."""
        behind = self.n_changes - n_changes
        if behind > len(self._log):
            return None
        return self._log[-behind:] if behind else ()

    def added_since(self, n_changes: int) -> list[Placement] | None:
        """The pods that were added after the first `n_changes`; None if that is not known any more."""
        changes = None if n_changes < 0 else self.changes_since(n_changes)
        return None if changes is None else [placement for placement, _, sign in changes if sign > 0]

    def row_added(self) -> None:
        """Add an empty last row."""
        self.by_row.append({})

    def row_removed(self, row: int, last: int) -> None:
        """Follow the removal of `row`, which has no pods any more: the pods of the row `last` move to it."""
        if row != last:
            self.by_row[row] = self.by_row[last]
            rows = self._table[0].array
            for placement in self.by_row[row].values():
                placement.row = row
                rows[placement.entry] = row
        self.by_row.pop()
        self._log.clear()  # row numbers in the log may refer to other nodes now


ValueOf = Callable[[PodView], Hashable]
Derive = Callable[[PodView], Iterable[Hashable]]
NO_PLACEMENTS: Final[Mapping[int, Placement]] = {}
NO_CLASSES: Final[Mapping[int, PodClass]] = {}


class _PodReader:
    """Follows added and removed pods by the log of the table; counts all pods again if the log does not reach back far enough."""

    __slots__ = ("_pods", "_seen")

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods
        self._seen = -1

    def _follow(self) -> None:
        pods = self._pods
        if self._seen == pods.n_changes:
            return
        changes = None if self._seen < 0 else pods.changes_since(self._seen)
        if changes is None:
            self._recount()
        else:
            for placement, _, sign in changes:
                self._apply(placement, sign)
        self._seen = pods.n_changes

    def _recount(self) -> None:
        raise NotImplementedError

    def _apply(self, placement: Placement, sign: int) -> None:
        raise NotImplementedError


class PlacementIndex(_PodReader):
    """The placements of pods by a value that may differ between pods of one template, such as the name."""

    __slots__ = ("_by_value", "_value_of")

    def __init__(self, pods: PodTable, value_of: ValueOf) -> None:
        super().__init__(pods)
        self._value_of = value_of
        self._by_value: dict[Hashable, dict[int, Placement]] = {}

    def of(self, value: Hashable) -> Collection[Placement]:
        """The placements of the pods with the value, in the order in which they were added."""
        self._follow()
        return self._by_value.get(value, NO_PLACEMENTS).values()

    def read_in_steps(self) -> Generator[None]:
        """The steps of reading the value of each pod."""
        pods, seen = self._pods, self._pods.n_changes
        if pods.added_since(self._seen) is not None:
            return
        fresh = PlacementIndex(pods, self._value_of)
        for number, placement in enumerate(list(pods.entries), start=1):
            fresh._apply(placement, 1)
            if not number % READ_PER_STEP:
                yield
        if self._seen < seen:  # otherwise another caller has read it between two steps
            self._by_value, self._seen = fresh._by_value, seen

    def _recount(self) -> None:
        self._by_value = {}
        for placement in self._pods.entries:
            self._apply(placement, 1)

    def _apply(self, placement: Placement, sign: int) -> None:
        value = self._value_of(placement.pod)
        if sign > 0:
            self._by_value.setdefault(value, {})[id(placement)] = placement
            return
        found = self._by_value.get(value)
        if found is not None:
            found.pop(id(placement), None)
            if not found:
                del self._by_value[value]


class ClassIndex(_PodReader):
    """The classes of placed pods by a value that is equal for all pods of a template; the value is read once per template."""

    __slots__ = ("_by_value", "_value_of", "_values")

    def __init__(self, pods: PodTable, value_of: ValueOf) -> None:
        super().__init__(pods)
        self._value_of = value_of
        self._values: dict[int, Hashable] = {}
        self._by_value: dict[Hashable, dict[int, PodClass]] = {}

    def of(self, value: Hashable) -> Collection[PodClass]:
        """The classes whose pods have the value; a class may have no pods any more."""
        self._follow()
        if len(self._values) > 2 * len(self._pods.classes) + 1024:
            self._recount()
        return self._by_value.get(value, NO_CLASSES).values()

    def read_in_steps(self) -> Generator[None]:
        """The steps of reading the value of each template."""
        pods, seen = self._pods, self._pods.n_changes
        if pods.added_since(self._seen) is not None:
            return
        fresh = ClassIndex(pods, self._value_of)
        for number, group in enumerate(list(pods.classes.values()), start=1):
            fresh._put(group, self._values)
            if not number % READ_PER_STEP:
                yield
        if self._seen < seen:  # otherwise another caller has read it between two steps
            self._values, self._by_value, self._seen = fresh._values, fresh._by_value, seen

    def _recount(self) -> None:
        known, self._values, self._by_value = self._values, {}, {}
        for group in self._pods.classes.values():
            self._put(group, known)

    def _apply(self, placement: Placement, sign: int) -> None:  # noqa: ARG002 — classes stay until the next recount
        if placement.group.serial not in self._values:
            self._put(placement.group, {})

    def _put(self, group: PodClass, known: Mapping[int, Hashable]) -> None:
        value = known[group.serial] if group.serial in known else self._value_of(group.example)
        self._values[group.serial] = value
        self._by_value.setdefault(value, {})[group.serial] = group


class Tally(_PodReader):
    """The number of placed pods for each value of those that `derive` returns, read once per template.

    `version` changes when a value gets its first pod or loses its last one.
    """

    __slots__ = ("_derive", "_found", "_memo", "version")

    def __init__(self, pods: PodTable, derive: Derive) -> None:
        super().__init__(pods)
        self._derive = derive
        self._memo: dict[int, tuple[Hashable, ...]] = {}
        self._found: Counter[Hashable] = Counter()
        self.version = 0

    @property
    def found(self) -> Counter[Hashable]:
        """The number of placed pods for each value that at least one pod has. The caller must not change it."""
        self._follow()
        return self._found

    def follow(self) -> int:
        """Follow the pods; returns the version."""
        self._follow()
        if len(self._memo) > 2 * len(self._pods.classes) + 1024:
            self._forget_classes()
        return self.version

    def read_in_steps(self) -> Generator[None]:
        """The steps of deriving the values of each template."""
        unread = unread_classes(self._pods, self._seen, self._memo)
        for number, group in enumerate(unread, start=1):
            self._values_of(group)
            if not number % READ_PER_STEP:
                yield
        if unread:
            self._follow()

    def _apply(self, placement: Placement, sign: int) -> None:
        for value in self._values_of(placement.group):
            before = self._found[value]
            self._found[value] = before + sign
            if not before or not before + sign:
                self.version += 1
                if not before + sign:
                    del self._found[value]

    def _recount(self) -> None:
        if len(self._memo) > len(self._pods.classes):
            self._forget_classes()
        before = self._found.keys()
        self._found = Counter()
        for group in self._pods.classes.values():
            for value in self._values_of(group):
                self._found[value] += group.count
        self.version += self._found.keys() != before

    def _values_of(self, group: PodClass) -> tuple[Hashable, ...]:
        values = self._memo.get(group.serial)
        if values is None:
            values = self._memo[group.serial] = tuple(self._derive(group.example))
        return values

    def _forget_classes(self) -> None:
        live = {group.serial for group in self._pods.classes.values()}
        self._memo = {serial: values for serial, values in self._memo.items() if serial in live}


def unread_classes(pods: PodTable, seen: int, known: Mapping[int, object]) -> list[PodClass]:
    """The classes of pods that are not `known` by serial to a reader that has read the first `seen` changes.

    With `seen` below 0, or too old, all classes are looked at.
    """
    added = pods.added_since(seen)
    found = pods.classes.values() if added is None else {placement.group.serial: placement.group for placement in added}.values()
    return [group for group in found if group.serial not in known]


Reader = TypeVar("Reader", PlacementIndex, ClassIndex, Tally)


class PodReaders:
    """The indexes and tallies in use, each created at its first use. A key identifies the function that it was created with."""

    __slots__ = ("_by_key", "_pods")

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods
        self._by_key: OrderedDict[tuple[type, Hashable], Any] = OrderedDict()

    def placements(self, key: Hashable, value_of: ValueOf) -> PlacementIndex:
        """The index of placements by `value_of`, which is read once per pod."""
        return self._kept(PlacementIndex, key, value_of)

    def classes(self, key: Hashable, value_of: ValueOf) -> ClassIndex:
        """The index of classes by `value_of`, which is read once per template."""
        return self._kept(ClassIndex, key, value_of)

    def tally(self, key: Hashable, derive: Derive) -> Tally:
        """The tally of the values that `derive` returns for pods."""
        return self._kept(Tally, key, derive)

    def _kept(self, kind: type[Reader], key: Hashable, function: Callable[[PodView], Any]) -> Reader:
        found: Reader | None = self._by_key.get((kind, key))
        if found is None:
            found = self._by_key[kind, key] = kind(self._pods, function)
            if len(self._by_key) > MAX_READERS:
                self._by_key.popitem(last=False)
        else:
            self._by_key.move_to_end((kind, key))
        return found
