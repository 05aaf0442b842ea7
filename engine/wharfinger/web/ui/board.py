"""The data of the live page: the protocol that provides it, and the map of nodes as server-sent events.

The map is many numbers that seldom change, so it is read as columns and sent as differences. Everything else is a few small parts, each
sent whole when it has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import WharfingerError

CORDONED, NOT_READY, TAINTED = 1, 2, 4
"""Bits of `Picture.flags`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The nodes in the order of all columns: their names, and for each the number of its zone in `zone_names` (-1 where it has none)."""

    names: Sequence[str]
    zones: Sequence[int]
    zone_names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coloring:
    """A colouring of the nodes: `values` `(n_nodes,) float64`, NaN where there is none; `low` and `high` are the ends of the scale.

    `unit` is `fraction` for what is shown as percent, or the text after the number. `note` is a sentence about the whole.
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

    `flags` `(n_nodes,) uint8`: the state of each node, as bits.
    """

    layout: int
    tiles: Tiles | None
    flags: NDArray[np.uint8]
    coloring: Coloring


@dataclass(frozen=True, slots=True, kw_only=True)
class PodQuery:
    """The pods whose decisions and waiting are shown. An empty text means all; `policy` is one that governs the pod.

    `result` is of decisions alone.
    """

    namespace: str = ""
    result: str = ""
    policy: str = ""


class Board(Protocol):
    """Answers the page. Every answer takes a few milliseconds at most, on the event loop that schedules."""

    def picture(self, coloring: str, known: int) -> Picture:
        """The nodes in a colouring; UnknownObject if there is no such colouring. `known` is the layout that the caller has."""

    def parts(self) -> Iterator[tuple[str, Any] | None]:
        """What all pages show alike, by name, as plain values; None for a step without a value. Other tasks run between two steps."""

    def pods(self, query: PodQuery) -> Iterator[tuple[str, Any] | None]:
        """Decisions and pending pods, in the same way."""

    def find(self, text: str) -> Iterator[list[str]]:
        """The pods (`namespace/name`) that have a text in their names, in steps."""

    def node(self, name: str) -> Mapping[str, Any]:
        """One node as plain values; UnknownObject when there is none of that name."""


SCALE_STEPS = 1000
"""Steps between the ends of a scale: no eye sees more, and numbers that only tremble are not sent."""
NO_VALUE = -1
"""The step of a node without a value."""

_WHOLE_UPDATE_SHARE = 0.5
"""From this part of the nodes on, a change is sent whole: it is shorter that way."""


def message(event: str, value: Any) -> bytes:
    """A server-sent event; JSON has no line breaks, so one `data` line holds it."""
    return b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


class Channel:
    """One colouring. All its watchers have been sent the same messages, so they get the same differences."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._layout = -1
        self._tiles: bytes = b""
        self._scale: Mapping[str, Any] = {}
        self._steps: NDArray[np.int64] = np.empty(0, np.int64)
        self._flags: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._trouble = ""

    def whole(self) -> list[bytes]:
        """The messages for a new watcher; empty before the first `update`."""
        if self._trouble:
            return [message("trouble", {"coloring": self.key, "sentence": self._trouble})]
        return [self._tiles, self._full(), self._flagged()] if self._tiles else []

    def update(self, board: Board) -> list[bytes]:
        """The messages for watchers that have everything up to now."""
        try:
            picture = board.picture(self.key, self._layout)
        except WharfingerError as error:
            return self._failed(str(error))
        self._trouble = ""
        fresh = picture.layout != self._layout or picture.tiles is not None
        if picture.tiles is not None:
            self._tiles = message("tiles", _plain(picture.tiles, picture.layout))
        self._layout = picture.layout
        sent = [self._tiles] if fresh else []
        return [*sent, *self._coloring_changed(picture, fresh), *self._flags_changed(picture, fresh)]

    def _failed(self, sentence: str) -> list[bytes]:
        if sentence == self._trouble:
            return []
        self._trouble, self._layout = sentence, -1
        return self.whole()

    def _coloring_changed(self, picture: Picture, fresh: bool) -> list[bytes]:
        coloring = picture.coloring
        scale = {
            "coloring": self.key,
            "title": coloring.title,
            "unit": coloring.unit,
            "low": coloring.low,
            "high": coloring.high,
            "note": coloring.note,
        }
        found = steps(coloring)
        if fresh or scale != self._scale or len(found) != len(self._steps):
            self._scale, self._steps = scale, found
            return [self._full()]
        at = np.flatnonzero(found != self._steps)
        self._steps = found
        if len(at) > _WHOLE_UPDATE_SHARE * len(found):
            return [self._full()]
        return [message("change", {"at": at.tolist(), "values": found[at].tolist()})] if len(at) else []

    def _flags_changed(self, picture: Picture, fresh: bool) -> list[bytes]:
        changed = fresh or not np.array_equal(picture.flags, self._flags)
        self._flags = picture.flags.copy()
        return [self._flagged()] if changed else []

    def _full(self) -> bytes:
        return message("values", {**self._scale, "steps": SCALE_STEPS, "values": self._steps.tolist()})

    def _flagged(self) -> bytes:
        return message("flags", self._flags.tolist())


def steps(coloring: Coloring) -> NDArray[np.int64]:
    """`(n_nodes,) int64`: each value as a step of the scale, those beyond its ends as well; NOTHING where there is none."""
    width = coloring.high - coloring.low
    found = np.full(len(coloring.values), NO_VALUE, np.int64)
    known = np.isfinite(coloring.values)
    scaled = (coloring.values[known] - coloring.low) * (SCALE_STEPS / width) if width > 0 else np.zeros(int(known.sum()))
    found[known] = np.rint(np.clip(scaled, 0, 10 * SCALE_STEPS)).astype(np.int64)
    return found


def _plain(tiles: Tiles, layout: int) -> Mapping[str, Any]:
    return {"layout": layout, "names": list(tiles.names), "zones": list(tiles.zones), "zoneNames": list(tiles.zone_names)}
