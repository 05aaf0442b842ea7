"""Where a search begins, and which nodes are worth rearranging, where the model of all of them is too large to be solved.

The nodes on which a pod that is left over lacks least come first, and those with most free room, to which others may move. All other pods
stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

SIZES = (16, 64, 256)
"""The numbers of nodes that are tried, one after the other."""

Amounts = Mapping[str, NDArray[np.int64]]
"""(n_nodes,) amounts by resource; "pods" is the number of pods."""


def best_fit(
    number: Mapping[bytes, int],
    asks: Mapping[bytes, Mapping[str, int]],
    open_to: Mapping[bytes, NDArray[np.bool_]],
    room: Amounts,
    used: Amounts,
) -> Mapping[tuple[bytes, int], int]:
    """How many pods of each group go to each row: the largest first, each where it leaves least free. What fits nowhere is missing."""
    free = {name: room[name] - used[name] for name in room}
    whole = {name: np.maximum(amounts, 1) for name, amounts in room.items()}
    largest = {name: int(amounts.max(initial=1)) for name, amounts in whole.items()}
    needs = {group: {name: amount for name, amount in {"pods": 1, **asks[group]}.items() if amount and name in room} for group in number}
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

    `left_over` are what each kind of pods without a place asks for, and the rows that are open to it, (n_nodes,) bool. `room` is what nodes
    have by resource, `used` what is taken of it: first by those who stay, then by those who may be evicted, the lowest priority last.
    """
    total = {name: np.sum([taken[name] for taken in used], axis=0) for name in room}
    free = np.sum([(room[name] - total[name]) / np.maximum(room[name], 1) for name in room], axis=0)
    to_move = np.argsort(-free, kind="stable").tolist()
    to_fill = [_by_lack(asked, is_open, room, used) for asked, is_open in left_over]
    wanted = list(dict.fromkeys(row for row in chain.from_iterable(zip_longest(*to_fill)) if row is not None))
    n_nodes = len(free)
    for size in SIZES:
        if size < n_nodes:
            chosen = dict.fromkeys(wanted[: size // 2])
            chosen |= dict.fromkeys([row for row in to_move if row not in chosen][: size - len(chosen)])
            yield np.array(sorted(chosen), np.intp)


def _by_lack(asked: Mapping[str, int], is_open: NDArray[np.bool_], room: Amounts, used: Sequence[Amounts]) -> list[int]:
    """The rows that may take a pod once others have left: where the lowest priorities are enough first, then by what is lacking."""
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
