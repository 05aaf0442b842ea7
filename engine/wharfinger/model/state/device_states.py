"""The devices of each node and their allocations, as one number per row.

Two nodes with the same number have equal devices, taken in the same parts, so a search for devices gives the same answer on both, apart
from names. The numbers are a column like any other: a rule looks at the distinct ones, and after a change only at the rows whose number
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations, ChangeLog, PoolId
from wharfinger.model.devices.pools import NodePools, Pool, Pools
from wharfinger.model.state.node_reader import NodeReader, moved

if TYPE_CHECKING:
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

MAX_STATES: Final = 100_000
"""States that are remembered at least, although no node is in them any more."""

UsageKey = tuple[tuple[int, Hashable], ...]
"""The taken parts of a pool: (position, key of the usage) of each device that is at least partly taken."""


class State(NamedTuple):
    """The devices of nodes with equal devices: the pools of one of them, and the allocations of each pool."""

    node: NodePools
    usage: tuple[UsageKey, ...]


class DeviceStates(NodeReader):
    """The state number of every row; `epoch` changes when the numbers get another meaning."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = ()

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._pools = store.following(Pools)
        self._allocations = store.following(Allocations)
        self._ids: NDArray[np.int32] = np.empty(0, np.int32)
        self._known: dict[Hashable, int] = {}
        self._states: list[State] = []
        self._layout = self._seen = -1
        self._read = (0, 0)  # the positions in the logs of pools and allocations
        self._pools_epoch = -1  # of the numbers of pools and devices
        self.epoch = 0
        self.log = ChangeLog()

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Do nothing: the states follow pools and allocations instead."""

    def ids(self, snapshot: Snapshot) -> NDArray[np.int32]:
        """The number of each row, (n_nodes,) int32; valid until the next change of the cluster."""
        self.read_all(snapshot)
        return self._ids

    @staticmethod
    def reading(snapshot: Callable[[], Snapshot]) -> Generator[None, None, bool]:
        """A generator that does the work of `ids` in steps of one node; it returns True if more than a few nodes were outdated.

        `snapshot` returns the present cluster.
        """
        return snapshot().objects.following(DeviceStates).read_in_steps(snapshot)

    def state(self, number: int) -> State:
        """The state of a number."""
        return self._states[number]

    @property
    def n_states(self) -> int:
        """The number of states; they are numbered from 0."""
        return len(self._states)

    def at(self, snapshot: Snapshot, row: int) -> State:
        """The pools of a row under their own names, and their allocations."""
        pools = self._pools.on(snapshot.node_object(row))
        return State(pools, tuple(self._usage(pool) for pool in pools.pools))

    def _note(self, snapshot: Snapshot) -> None:
        """Mark the nodes to read: new ones, and those whose labels, slices or allocations may have changed."""
        if snapshot.revision == self._seen:
            return
        names, since, places = snapshot.names, self._seen, self._read
        self._seen, self._read = snapshot.revision, (self._pools.log.end, self._allocations.log.end)
        if snapshot.layout_revision != self._layout:
            self._lay_out(names)
            self._layout = snapshot.layout_revision
        outgrown = len(self._states) > max(MAX_STATES, 4 * len(names))
        if outgrown or self._pools.epoch != self._pools_epoch or since < 0:
            self._begin_again()
            return
        self._unread.update(dict.fromkeys([names[row] for row in snapshot.changed_nodes(since).tolist()], False))
        changed = self._changed_nodes(*places)
        self._unread.update(dict.fromkeys(reversed(self._rows) if changed is None else changed, False))

    def _read_next(self, snapshot: Snapshot) -> None:
        """Read the devices of a node that has to be read, if it exists."""
        name, _ = self._unread.popitem()
        row = self._rows.get(name)
        if row is None:
            return
        number = self._number(snapshot, row)
        if number != self._ids[row]:
            self._ids[row] = number
            self.log.add(row)

    def _lay_out(self, names: Sequence[str]) -> None:
        """Put the column into the order of these nodes; the devices of new ones are not known yet."""
        self._ids = moved(self._ids, self._arrange(names), -1)

    def _begin_again(self) -> None:
        """Number everything again."""
        self.epoch += 1
        self._pools_epoch = self._pools.epoch
        self._known.clear()
        self._states.clear()
        self._ids[:] = -1
        self._unread = dict.fromkeys(reversed(self._rows), False)  # the last is read first

    def _changed_nodes(self, pools_at: int, allocations_at: int) -> set[str] | None:
        """The names of the nodes whose pools, or whose pools' usage, changed; None for all."""
        nodes, pools = self._pools.log.since(pools_at), self._allocations.log.since(allocations_at)
        if nodes is None or pools is None:
            return None
        names: set[str] = set()
        for name in nodes:
            if not isinstance(name, str):
                return None
            names.add(name)
        for pool in set(pools):
            node = self._pools.node_of(_pool_id(pool))
            if node is None:
                return None
            names.add(node)
        return names

    def _number(self, snapshot: Snapshot, row: int) -> int:
        pools = self._pools.on(snapshot.node_object(row))
        usage = tuple(self._usage(pool) for pool in pools.pools)
        key = (pools.groups, tuple(pool.kind for pool in pools.pools), usage)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._states)
            self._states.append(State(pools, usage))
        return number

    def _usage(self, pool: Pool) -> UsageKey:
        used = self._allocations.of_pool(pool.id)
        if not used or not pool.devices:
            return ()
        positions = pool.positions
        found = ((position, usage.key) for name, usage in used.items() for position in positions.get(name, ()))
        return tuple(sorted(found, key=_position))


def _position(entry: tuple[int, Hashable]) -> int:
    return entry[0]


def _pool_id(key: Hashable) -> PoolId:
    assert isinstance(key, tuple)  # noqa: S101 — the log of allocations has pools
    return key[0], key[1]
