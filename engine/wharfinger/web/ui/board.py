"""What the live page is told: plain values and columns, whoever has them.

The map of nodes is many numbers that seldom change, so it is asked for as columns and sent as differences. Everything else is a handful of
small parts, each sent whole when it has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

CORDONED, NOT_READY, TAINTED = 1, 2, 4
"""Bits of `Picture.flags`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The nodes in the order of all columns: their names, and for each the number of its zone in `zone_names` (-1 where it has none)."""

    names: Sequence[str]
    zones: Sequence[int]
    zone_names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shade:
    """What colours the nodes: `values` `(n_nodes,) float64`, NaN where there is none; `low` and `high` are the ends of the scale.

    `unit` is `fraction` for what is shown as percent, or what stands behind the number. `note` is a sentence about the whole.
    """

    title: str
    unit: str
    low: float
    high: float
    values: NDArray[np.float64]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The nodes at one moment. `layout` changes when nodes come or go; `tiles` is None where the layout is the one that was known.

    `flags` `(n_nodes,) uint8`: what else is to be seen of each node.
    """

    layout: int
    tiles: Tiles | None
    flags: NDArray[np.uint8]
    shade: Shade


class Board(Protocol):
    """Answers the page. Every answer takes a few milliseconds at most, on the event loop that schedules."""

    def picture(self, shade: str, known: int) -> Picture:
        """The nodes coloured by a shade; UnknownObject for one that is not there. `known` is the layout that the asker knows."""

    def parts(self) -> Iterator[tuple[str, Any] | None]:
        """Everything else by name, as plain values; None where a step ends without one. Others have their turn between two steps."""

    def node(self, name: str) -> Mapping[str, Any]:
        """One node as plain values; UnknownObject when there is none of that name."""
