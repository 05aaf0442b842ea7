"""What kinds of things placed pods bring with them, and how many pods bring each: topology keys of affinity terms, claims in use, volumes.

A selection answers "how many pods are like this"; a tally answers "what is there at all" without being told what to look for. It follows
the pods that come and go like a selection does.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from wharfinger.model.pod import PodView
from wharfinger.model.pod_table import Placement, PodTable

MOST_TALLIES: Final = 64

Derive = Callable[[PodView], Iterable[Hashable]]


class Tally:
    """The things that `derive` finds in placed pods; it is asked once per template. `version` changes when a thing appears or vanishes."""

    __slots__ = ("_derive", "_found", "_memo", "_pods", "_seen", "version")

    def __init__(self, pods: PodTable, derive: Derive) -> None:
        self._pods = pods
        self._derive = derive
        self._memo: dict[int, tuple[Hashable, ...]] = {}
        self._found: Counter[Hashable] = Counter()
        self._seen = -1
        self.version = 0

    @property
    def found(self) -> Counter[Hashable]:
        """How many placed pods bring each thing; only those that some pod brings. Not to be changed by the caller."""
        self.follow()
        return self._found

    def follow(self) -> int:
        """Catch up with the pods; the version then."""
        if self._seen != self._pods.n_changes:
            changes = None if self._seen < 0 else self._pods.changes_since(self._seen)
            if changes is None:
                self._recount()
            else:
                for placement, _, sign in changes:
                    self._count(placement, sign)
            self._seen = self._pods.n_changes
            if len(self._memo) > 2 * len(self._pods.classes) + 1024:
                self._forget_classes()
        return self.version

    def _count(self, placement: Placement, sign: int) -> None:
        things = self._memo.get(placement.group.serial)
        if things is None:
            things = self._memo[placement.group.serial] = tuple(self._derive(placement.group.example))
        for thing in things:
            before = self._found[thing]
            self._found[thing] = before + sign
            if not before or not before + sign:
                self.version += 1
                if not before + sign:
                    del self._found[thing]

    def _recount(self) -> None:
        self._forget_classes()
        before = self._found.keys()
        self._found = Counter()
        version = self.version
        for group in self._pods.classes.values():
            things = self._memo.get(group.serial)
            if things is None:
                things = self._memo[group.serial] = tuple(self._derive(group.example))
            for thing in things:
                self._found[thing] += group.count
        self.version = version + (self._found.keys() != before)

    def _forget_classes(self) -> None:
        live = {group.serial for group in self._pods.classes.values()}
        self._memo = {serial: things for serial, things in self._memo.items() if serial in live}


class Tallies:
    """The tallies asked for lately."""

    __slots__ = ("_by_key", "_pods")

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods
        self._by_key: OrderedDict[Hashable, Tally] = OrderedDict()

    def of(self, key: Hashable, derive: Derive) -> Tally:
        """The tally of a key, which stands for `derive`."""
        tally = self._by_key.get(key)
        if tally is None:
            tally = self._by_key[key] = Tally(self._pods, derive)
            if len(self._by_key) > MOST_TALLIES:
                self._by_key.popitem(last=False)
        else:
            self._by_key.move_to_end(key)
        return tally
