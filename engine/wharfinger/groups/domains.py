"""The domains in which a group may be placed: sets of nodes with the same values of the levels that its terms name.

Required levels hold for every candidate. Preferred levels come first: the nodes are divided by all levels, then without the narrowest
preferred one, and so on, until only the required ones are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from wharfinger.groups.terms import Level
    from wharfinger.model.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes that a group may be placed on together: `rows` (n,) intp ascending, and their common values by topology key."""

    labels: Mapping[str, str]
    rows: NDArray[np.intp]

    @property
    def key(self) -> str:
        """The narrowest topology key; "" for the whole cluster."""
        return tuple(self.labels)[-1] if self.labels else ""

    @property
    def value(self) -> str:
        """The value of the narrowest key; "" for the whole cluster."""
        return self.labels[self.key] if self.labels else ""

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.labels.items()) or "the cluster"


def stages(levels: Sequence[Level]) -> Iterator[tuple[str, ...]]:
    """The topology keys to divide nodes by, widest first in each tuple: first all of them, at last the required ones."""
    n_preferred = sum(1 for level in levels if not level.required)
    for kept in range(n_preferred, -1, -1):
        preferred = [level.key for level in levels if not level.required][:kept]
        yield tuple(dict.fromkeys(level.key for level in levels if level.required or level.key in preferred))


def domains(keys: Sequence[str], snapshot: Snapshot) -> list[Domain]:
    """The domains of some topology keys in no meaningful order; nodes that lack a key are in none. Without keys, the whole cluster."""
    if not keys:
        return [Domain({}, np.arange(snapshot.n_nodes))] if snapshot.n_nodes else []
    topologies = [snapshot.topology(key) for key in keys]
    texts = [[snapshot.strings.text(code) or "" for code in topology.codes] for topology in topologies]
    if len(keys) == 1:
        return [Domain({keys[0]: text}, topologies[0].rows_of(number)) for number, text in enumerate(texts[0])]
    complete = np.logical_and.reduce([topology.ids >= 0 for topology in topologies])
    rows = np.flatnonzero(complete)
    codes = np.zeros(len(rows), np.int64)
    for topology in topologies:
        codes = codes * topology.n_domains + topology.ids[rows]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return [
        _domain(keys, texts, [topology.ids for topology in topologies], part) for part in np.split(rows[order], starts[1:]) if len(part)
    ]


def _domain(keys: Sequence[str], texts: Sequence[Sequence[str]], ids: Sequence[NDArray[np.int32]], rows: NDArray[np.intp]) -> Domain:
    first = int(rows[0])
    return Domain({key: text[int(of[first])] for key, text, of in zip(keys, texts, ids, strict=True)}, rows)


def of_rows(keys: Sequence[str], rows: Sequence[int], snapshot: Snapshot) -> Mapping[str, str] | None:
    """The common values of some nodes by topology key; None if they differ in a key or lack it."""
    found: dict[str, str] = {}
    for key in keys:
        codes = {int(snapshot.label(key)[row]) for row in rows}
        text = snapshot.strings.text(codes.pop()) if len(codes) == 1 else None
        if text is None:
            return None
        found[key] = text
    return found
