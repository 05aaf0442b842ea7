"""Which placed pods have a value: found by the value, without asking all of them.

A selection counts pods that satisfy a predicate; an index finds those of which some value is equal to a given one. It follows the pods that
come and go as a selection does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Final

from wharfinger.model.pod import PodView
from wharfinger.model.pod_table import Placement, PodClass, PodTable

MOST_INDEXES: Final = 256

ValueOf = Callable[[PodView], Hashable]
NONE: Final[Mapping[int, Placement]] = {}
NO_CLASS: Final[Mapping[int, PodClass]] = {}


class PlacementIndex:
    """The placements of pods by a value that differs between pods of one template, such as the name.

    `asked` counts how often `value_of` was asked, which is once for each pod that came.
    """

    __slots__ = ("_by_value", "_pods", "_seen", "_value_of", "asked")

    def __init__(self, pods: PodTable, value_of: ValueOf) -> None:
        self._pods = pods
        self._value_of = value_of
        self._by_value: dict[Hashable, dict[int, Placement]] = {}
        self._seen = -1
        self.asked = 0

    def of(self, value: Hashable) -> Collection[Placement]:
        """The placements of the pods that have the value, in the order in which they came."""
        self._follow()
        return self._by_value.get(value, NONE).values()

    def _follow(self) -> None:
        if self._seen == self._pods.n_changes:
            return
        changes = None if self._seen < 0 else self._pods.changes_since(self._seen)
        if changes is None:
            self._by_value = {}
            for placement in self._pods.entries:
                self._put(placement)
        else:
            for placement, _, sign in changes:
                if sign > 0:
                    self._put(placement)
                else:
                    self._drop(placement)
        self._seen = self._pods.n_changes

    def _put(self, placement: Placement) -> None:
        self.asked += 1
        self._by_value.setdefault(self._value_of(placement.pod), {})[id(placement)] = placement

    def _drop(self, placement: Placement) -> None:
        value = self._value_of(placement.pod)
        found = self._by_value.get(value)
        if found is not None:
            found.pop(id(placement), None)
            if not found:
                del self._by_value[value]


class ClassIndex:
    """The classes of placed pods by a value that is equal for all pods of a template; `asked` as for placements."""

    __slots__ = ("_by_value", "_pods", "_seen", "_value_of", "_values", "asked")

    def __init__(self, pods: PodTable, value_of: ValueOf) -> None:
        self._pods = pods
        self._value_of = value_of
        self._values: dict[int, Hashable] = {}
        self._by_value: dict[Hashable, dict[int, PodClass]] = {}
        self._seen = -1
        self.asked = 0

    def of(self, value: Hashable) -> Collection[PodClass]:
        """The classes whose pods have the value; some of them may have no pod any more."""
        self._follow()
        return self._by_value.get(value, NO_CLASS).values()

    def _follow(self) -> None:
        if self._seen == self._pods.n_changes:
            return
        changes = None if self._seen < 0 else self._pods.changes_since(self._seen)
        if changes is None or len(self._values) > 2 * len(self._pods.classes) + 1024:
            self._find_all()
        else:
            for placement, _, _ in changes:
                self._put(placement.group)
        self._seen = self._pods.n_changes

    def _find_all(self) -> None:
        """Begin anew with the classes there are; what is known of them is not asked again."""
        known, self._values, self._by_value = self._values, {}, {}
        for group in self._pods.classes.values():
            if group.serial in known:
                self._values[group.serial] = known[group.serial]
                self._by_value.setdefault(known[group.serial], {})[group.serial] = group
            else:
                self._put(group)

    def _put(self, group: PodClass) -> None:
        if group.serial not in self._values:
            self.asked += 1
            value = self._values[group.serial] = self._value_of(group.example)
            self._by_value.setdefault(value, {})[group.serial] = group


class PodIndexes:
    """The indexes asked for lately."""

    __slots__ = ("_by_key", "_pods")

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods
        self._by_key: OrderedDict[Hashable, PlacementIndex | ClassIndex] = OrderedDict()

    def placements(self, key: Hashable, value_of: ValueOf) -> PlacementIndex:
        """The index of placements of a key, which stands for `value_of`."""
        found = self._by_key.get(("placements", key))
        if not isinstance(found, PlacementIndex):
            found = PlacementIndex(self._pods, value_of)
        self._keep(("placements", key), found)
        return found

    def classes(self, key: Hashable, value_of: ValueOf) -> ClassIndex:
        """The index of classes of a key, which stands for `value_of`; it is asked once per template."""
        found = self._by_key.get(("classes", key))
        if not isinstance(found, ClassIndex):
            found = ClassIndex(self._pods, value_of)
        self._keep(("classes", key), found)
        return found

    def _keep(self, key: Hashable, index: PlacementIndex | ClassIndex) -> None:
        self._by_key[key] = index
        self._by_key.move_to_end(key)
        if len(self._by_key) > MOST_INDEXES:
            self._by_key.popitem(last=False)
