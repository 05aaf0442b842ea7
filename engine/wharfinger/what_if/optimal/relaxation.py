"""A smaller task that proves: classes of nodes and kinds of pods in place of each node and each template.

Nodes with equal room that are open to the same pods are one class; pods that ask for the same, may go to the same nodes and have one
priority are one kind. A class counts as one large node. What holds of each single node is added: how many pods of a kind each takes alone,
and the dual feasible functions u^(1) to u^(4) of each resource, which say for example that no node takes two pods of more than half of it.
Every placement on nodes is one on classes. So where classes have no room, nodes have none, and where they leave pods over, nodes leave at
least as many over.

Source of the functions: S. P. Fekete and J. Schepers, *New classes of fast lower bounds for bin packing problems*, Mathematical
Programming 91, 2001.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wharfinger.what_if.optimal.model import NO_LIMIT, Place, Task

MAX_CLASSES = 200
"""Where there are more, nodes that are open to the same pods are one class, whatever their room is."""
FUNCTIONS = range(1, 5)
LARGEST = 1 << 58
"""The solver counts in 64 bits; a function with larger values is left out."""

Rows: TypeAlias = NDArray[np.intp]


def relaxed(task: Task, apart: Mapping[bytes, Hashable]) -> tuple[Task, Mapping[bytes, bytes]]:
    """(the smaller task, the kind of each group): a kind is named by one of its groups, and has groups of one value in `apart`."""
    classes = _classes(task)
    firsts = np.array([rows[0] for rows in classes], np.intp)
    kinds: dict[Hashable, bytes] = {}
    kind_of: dict[bytes, bytes] = {}
    for group, asked in task.asks.items():
        if group in task.size:
            key = (tuple(sorted(asked.items())), task.open_to[group][firsts].tobytes(), apart[group])
            kind_of[group] = kinds.setdefault(key, group)
    names = [str(number) for number in range(len(classes))]
    room = {name: np.array([_sum(amounts[rows]) for rows in classes], np.int64) for name, amounts in task.room.items()}
    asks: dict[bytes, dict[str, int]] = {kind: dict(task.asks[kind]) for kind in kinds.values()}
    for name in sorted(task.room.keys() - {"pods"}):
        for number, capacity, rows in _even(task, name, classes):
            for function in FUNCTIONS:
                _add_function(asks, room, name, function, (number, capacity, len(rows), len(classes)))
    return (
        Task(
            size=_summed(task.size, kind_of),
            asks=asks,
            open_to={kind: np.ones(len(classes), np.bool_) for kind in asks},  # `most` says where none may go
            here={},
            room=room,
            names=names,
            left_over=_summed(task.left_over, kind_of),
            most=_most(task, kind_of, classes, names),
        ),
        kind_of,
    )


def _classes(task: Task) -> list[Rows]:
    """The rows of each class."""
    open_to = np.packbits(np.array([task.open_to[group] for group in task.size], np.bool_), axis=0)
    room = np.array(list(task.room.values()), np.int64)
    exact = _alike([open_to, room])
    return exact if len(exact) <= MAX_CLASSES else _alike([open_to])


def _alike(columns: Sequence[NDArray[np.generic]]) -> list[Rows]:
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    for row in range(columns[0].shape[1]):
        found[b"".join(each[:, row].tobytes() for each in columns)].append(row)
    return [np.array(rows, np.intp) for rows in found.values()]


def _sum(amounts: NDArray[np.int64]) -> int:
    return NO_LIMIT if (amounts >= NO_LIMIT).any() else int(amounts.sum())


def _summed(numbers: Mapping[bytes, int], kind_of: Mapping[bytes, bytes]) -> Mapping[bytes, int]:
    found: Counter[bytes] = Counter()
    for group, number in numbers.items():
        if group in kind_of:
            found[kind_of[group]] += number
    return found


def _even(task: Task, name: str, classes: Sequence[Rows]) -> Iterator[tuple[int, int, Rows]]:
    """(number, room of one node, rows) of each class whose nodes have equal room of a resource, and not without limit."""
    for number, rows in enumerate(classes):
        capacity = int(task.room[name][rows[0]])
        if 0 < capacity < NO_LIMIT and (task.room[name][rows] == capacity).all():
            yield number, capacity, rows


def _add_function(
    asks: Mapping[bytes, dict[str, int]], room: dict[str, NDArray[np.int64]], name: str, function: int, nodes: tuple[int, int, int, int]
) -> None:
    """Count the value of a function, times its number and the room of a node, as one more resource of a class.

    `nodes` are the number of the class, the room of one of its nodes, how many they are, and the number of classes.
    """
    number, capacity, count, n_classes = nodes
    if function * capacity * max(count, 1) > LARGEST:
        return
    counted = f"{name} u{function} of {capacity}"
    if counted not in room:
        room[counted] = np.full(n_classes, NO_LIMIT, np.int64)
        for asked in asks.values():
            asked[counted] = _value(asked.get(name, 0), capacity, function)
    room[counted][number] = function * capacity * count


def _value(amount: int, capacity: int, function: int) -> int:
    """u^(function)(amount / capacity) × function × capacity, in whole numbers."""
    parts, rest = divmod((function + 1) * amount, capacity)
    return function * amount if rest == 0 else parts * capacity


def _most(task: Task, kind_of: Mapping[bytes, bytes], classes: Sequence[Rows], names: Sequence[str]) -> Mapping[Place, int]:
    """How many pods of a kind the nodes of a class take, each by itself; where a node takes none any more, those that are there."""
    here: defaultdict[bytes, dict[str, int]] = defaultdict(dict)
    for (group, name), number in task.here.items():
        here[kind_of[group]][name] = here[kind_of[group]].get(name, 0) + number
    index = {name: row for row, name in enumerate(task.names)}
    found: dict[Place, int] = {}
    for kind in dict.fromkeys(kind_of.values()):
        fit = task.room["pods"].copy()
        for name, amount in task.asks[kind].items():
            if amount and name in task.room:
                fit = np.minimum(fit, task.room[name] // amount)
        fit[~task.open_to[kind]] = 0
        for name, number in here[kind].items():
            fit[index[name]] = max(int(fit[index[name]]), number)
        found |= {(kind, name): int(fit[rows].sum()) for name, rows in zip(names, classes, strict=True)}
    return found
