"""Smaller tasks where the model of all nodes is too large to be solved: regions for a plan, classes for a proof.

**Regions.** The nodes on which a pod that is left over lacks least come first, and those with most free room, to which others may move. All
other pods stay where they are.

**Classes.** Nodes with equal room that are open to the same pods are one class; pods with equal requests, allowed nodes and priority are
one kind. A class counts as one large node. Constraints of each single node are added: how many pods of a kind it takes alone, and the dual
feasible functions u^(1) to u^(4) of each resource. They express, for example, that no node takes two pods with more than half of it. Every
placement on nodes is one on classes. So where classes have no room, nodes have none, and where they leave pods over, nodes leave at least
as many over.

Source of the functions: S. P. Fekete and J. Schepers, *New classes of fast lower bounds for bin packing problems*, Mathematical
Programming 91, 2001.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wharfinger.what_if.optimal.model import NO_LIMIT, Amounts, Place, Task

SIZES = (16, 64, 256)
"""The numbers of nodes of the regions, in the order in which they are tried."""
MAX_CLASSES = 200
"""The maximum number of classes by free amounts; with more, nodes that are open to the same pods are one class."""
FUNCTIONS = range(1, 5)
LARGEST = 1 << 58
"""The solver counts in 64 bits; a function with larger values is left out."""

Rows: TypeAlias = NDArray[np.intp]


def best_fit(
    number: Mapping[bytes, int],
    requests: Mapping[bytes, Mapping[str, int]],
    open_to: Mapping[bytes, NDArray[np.bool_]],
    room: Amounts,
    used: Amounts,
) -> Mapping[tuple[bytes, int], int]:
    """The number of pods of each group on each row: the largest first, each where it leaves least free.

    Pods that fit on no node are missing.
    """
    free = {name: room[name] - used[name] for name in room}
    whole = {name: np.maximum(amounts, 1) for name, amounts in room.items()}
    largest = {name: int(amounts.max(initial=1)) for name, amounts in whole.items()}
    needs = {
        group: {name: amount for name, amount in {"pods": 1, **requests[group]}.items() if amount and name in room} for group in number
    }
    found: dict[tuple[bytes, int], int] = {}
    for group in sorted(number, key=lambda group: -max(amount / largest[name] for name, amount in needs[group].items())):
        need = needs[group]
        for _ in range(number[group]):
            rows = np.flatnonzero(open_to[group] & np.all([free[name] >= amount for name, amount in need.items()], axis=0))
            if not len(rows):
                break
            row = int(rows[np.argmin(np.sum([free[name][rows] / whole[name][rows] for name in need], axis=0))])
            for name, amount in need.items():
                free[name][row] -= amount
            found[group, row] = found.get((group, row), 0) + 1
    return found


def regions(
    left_over: Sequence[tuple[Mapping[str, int], NDArray[np.bool_]]], room: Amounts, used: Sequence[Amounts]
) -> Iterator[NDArray[np.intp]]:
    """The rows of each region, the smallest first.

    `left_over` are the requests of each kind of pods without a place, and the rows that are open to it, (n_nodes,) bool. `room` is what
    nodes have by resource, `used` what is taken of it: first by those who stay, then by those who may be evicted, the lowest priority last.
    """
    total = {name: np.sum([taken[name] for taken in used], axis=0) for name in room}
    free = np.sum([(room[name] - total[name]) / np.maximum(room[name], 1) for name in room], axis=0)
    to_move = np.argsort(-free, kind="stable").tolist()
    to_fill = [_by_shortage(asked, is_open, room, used) for asked, is_open in left_over]
    wanted = list(dict.fromkeys(row for row in chain.from_iterable(zip_longest(*to_fill)) if row is not None))
    n_nodes = len(free)
    for size in SIZES:
        if size < n_nodes:
            chosen = dict.fromkeys(wanted[: size // 2])
            chosen |= dict.fromkeys([row for row in to_move if row not in chosen][: size - len(chosen)])
            yield np.array(sorted(chosen), np.intp)


def _by_shortage(asked: Mapping[str, int], is_open: NDArray[np.bool_], room: Amounts, used: Sequence[Amounts]) -> list[int]:
    """The rows that may take a pod after evictions: first those where the lowest priorities are enough, then by missing amounts."""
    needs = {name: amount for name, amount in {"pods": 1, **asked}.items() if amount and name in room}
    could = is_open & np.all([room[name] >= amount for name, amount in needs.items()], axis=0)
    left = {name: room[name] - np.sum([taken[name] for taken in used], axis=0) for name in needs}
    lack = np.sum([np.maximum(amount - left[name], 0) / amount for name, amount in needs.items()], axis=0)
    level = np.zeros(len(could), np.int64)
    for taken in reversed(used[1:]):
        short = np.any([left[name] < amount for name, amount in needs.items()], axis=0)
        level += short
        left = {name: left[name] + taken[name] for name in needs}
    level += np.any([left[name] < amount for name, amount in needs.items()], axis=0)
    rows = np.flatnonzero(could)
    found: list[int] = rows[np.lexsort((lack[rows], level[rows]))].tolist()
    return found


def relaxed(task: Task, apart: Mapping[bytes, Hashable]) -> tuple[Task, Mapping[bytes, bytes]]:
    """(the smaller task, the kind of each group): a kind is named by one of its groups, and has groups of one value in `apart`."""
    classes = _classes(task)
    firsts = np.array([rows[0] for rows in classes], np.intp)
    kinds: dict[Hashable, bytes] = {}
    kind_of: dict[bytes, bytes] = {}
    for group, asked in task.requests.items():
        if group in task.size:
            key = (tuple(sorted(asked.items())), task.open_to[group][firsts].tobytes(), apart[group])
            kind_of[group] = kinds.setdefault(key, group)
    names = [str(number) for number in range(len(classes))]
    room = {name: np.array([_sum(amounts[rows]) for rows in classes], np.int64) for name, amounts in task.room.items()}
    requests: dict[bytes, dict[str, int]] = {kind: dict(task.requests[kind]) for kind in kinds.values()}
    for name in sorted(task.room.keys() - {"pods"}):
        for number, capacity, rows in _even(task, name, classes):
            for function in FUNCTIONS:
                _add_function(requests, room, name, function, (number, capacity, len(rows), len(classes)))
    return (
        Task(
            size=_summed(task.size, kind_of),
            requests=requests,
            open_to={kind: np.ones(len(classes), np.bool_) for kind in requests},  # `most` is 0 where none may go
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
    exact = _equal_rows([open_to, room])
    return exact if len(exact) <= MAX_CLASSES else _equal_rows([open_to])


def _equal_rows(columns: Sequence[NDArray[np.generic]]) -> list[Rows]:
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
    requests: Mapping[bytes, dict[str, int]], room: dict[str, NDArray[np.int64]], name: str, function: int, nodes: tuple[int, int, int, int]
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
        for asked in requests.values():
            asked[counted] = _value(asked.get(name, 0), capacity, function)
    room[counted][number] = function * capacity * count


def _value(amount: int, capacity: int, function: int) -> int:
    """u^(function)(amount / capacity) × function × capacity, in whole numbers."""
    parts, rest = divmod((function + 1) * amount, capacity)
    return function * amount if rest == 0 else parts * capacity


def _most(task: Task, kind_of: Mapping[bytes, bytes], classes: Sequence[Rows], names: Sequence[str]) -> Mapping[Place, int]:
    """The most pods of each kind that the nodes of each class can have, counted node by node, and at least those that they have."""
    here: defaultdict[bytes, dict[str, int]] = defaultdict(dict)
    for (group, name), number in task.here.items():
        here[kind_of[group]][name] = here[kind_of[group]].get(name, 0) + number
    index = {name: row for row, name in enumerate(task.names)}
    found: dict[Place, int] = {}
    for kind in dict.fromkeys(kind_of.values()):
        fit = task.room["pods"].copy()
        for name, amount in task.requests[kind].items():
            if amount and name in task.room:
                fit = np.minimum(fit, task.room[name] // amount)
        fit[~task.open_to[kind]] = 0
        for name, number in here[kind].items():
            fit[index[name]] = max(int(fit[index[name]]), number)
        found |= {(kind, name): int(fit[rows].sum()) for name, rows in zip(names, classes, strict=True)}
    return found
