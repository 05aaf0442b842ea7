"""The map of nodes in one colouring as server-sent events: the whole, and differences.

The map is many names and numbers that seldom change. Who knows the former ones is sent differences, also when nodes come or go; who has
been sent something else meanwhile gets the newest ones instead. All watchers are sent the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from operator import ne
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.errors import WharfingerError
from wharfinger.web.ui.page_content import SCALE_STEPS, NodeMap, PageContent, Tiles, steps

_WHOLE_UPDATE_SHARE = 0.5
"""From this part of the nodes on, a change is sent whole: it is shorter that way."""


def message(event: str, value: Any) -> bytes:
    """A server-sent event; JSON has no line breaks, so one `data` line holds it."""
    return b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


class Part(Enum):
    """A part of the map that is sent by itself. MAP is everything, for who knows nothing of these nodes."""

    MAP = "map"
    VALUES = "values"
    FLAGS = "flags"


class Change(Struct, frozen=True):
    """A part that has changed. `difference` is the message for who knows the former state of the part; None if that is the whole part."""

    part: Part
    difference: bytes | None = None


class _Columns(Struct, frozen=True):
    """All that watchers know of the nodes."""

    tiles: Tiles
    scale: Mapping[str, Any]
    steps: NDArray[np.int64]
    flags: NDArray[np.uint8]


def _differ(former: Sequence[Any], new: Sequence[Any], count: int) -> NDArray[np.bool_]:
    """`(count,) bool`: whether the first values of two sequences differ."""
    return np.fromiter(map(ne, former[:count], new[:count]), np.bool_, count)


class Channel:
    """One colouring. All its watchers have been sent the same messages, so they get the same differences."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._layout = -1
        self._tiles: Tiles | None = None
        self._scale: Mapping[str, Any] = {}
        self._steps: NDArray[np.int64] = np.empty(0, np.int64)
        self._flags: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._trouble = ""
        self._encoded: dict[Part, bytes] = {}

    @property
    def is_known(self) -> bool:
        """True after the first `update`: there is something for a new watcher."""
        return bool(self._trouble or self._tiles is not None)

    def newest(self, part: Part) -> Iterable[bytes]:
        """The messages of a part as it is now."""
        if self._trouble:
            return [message("trouble", {"coloring": self.key, "sentence": self._trouble})]
        return map(self._message, Part) if part is Part.MAP else [self._message(part)]

    def update(self, page_content: PageContent) -> list[Change]:
        """Read the nodes; what has changed for watchers that have everything up to now."""
        try:
            node_map = page_content.node_map(self.key, self._layout)
        except WharfingerError as error:
            return self._failed(str(error))
        fresh = node_map.layout != self._layout or node_map.tiles is not None
        former = None if self._trouble or self._tiles is None else _Columns(self._tiles, self._scale, self._steps, self._flags)
        self._trouble = ""
        if node_map.tiles is not None:
            self._tiles = node_map.tiles
            self._encoded.pop(Part.MAP, None)
        self._layout = node_map.layout
        changes = [*self._coloring_changes(node_map), *self._flags_changes(node_map)]
        return [Change(Part.MAP, self._nodes_difference(former))] if fresh else changes

    def _nodes_difference(self, former: _Columns | None) -> bytes | None:
        """The rows in which anything is new, for who knows the former columns; None if the whole is needed, or shorter."""
        tiles = self._tiles
        if former is None or tiles is None or former.scale != self._scale or former.tiles.zone_names != tiles.zone_names:
            return None
        count = len(tiles.names)
        both = min(count, len(former.tiles.names))
        changed = np.ones(count, np.bool_)
        changed[:both] = former.steps[:both] != self._steps[:both]
        changed[:both] |= former.flags[:both] != self._flags[:both]
        changed[:both] |= _differ(former.tiles.names, tiles.names, both) | _differ(former.tiles.zones, tiles.zones, both)
        rows = np.flatnonzero(changed)
        if len(rows) > _WHOLE_UPDATE_SHARE * count:
            return None
        at = rows.tolist()
        columns = {"values": self._steps[rows].tolist(), "flags": self._flags[rows].tolist()}
        names, zones = [tiles.names[row] for row in at], [tiles.zones[row] for row in at]
        return message("nodes", {"layout": self._layout, "count": count, "at": at, "names": names, "zones": zones, **columns})

    def _failed(self, sentence: str) -> list[Change]:
        if sentence == self._trouble:
            return []
        self._trouble, self._layout = sentence, -1
        return [Change(Part.MAP)]

    def _coloring_changes(self, node_map: NodeMap) -> Iterator[Change]:
        coloring = node_map.coloring
        scale = {
            "coloring": self.key,
            "title": coloring.title,
            "unit": coloring.unit,
            "low": coloring.low,
            "high": coloring.high,
            "note": coloring.note,
        }
        found, before = steps(coloring), self._steps
        known = scale == self._scale and len(found) == len(before)
        self._scale, self._steps = scale, found
        at = np.flatnonzero(found != before) if known else np.arange(len(found))
        if known and not len(at):
            return
        self._encoded.pop(Part.VALUES, None)
        few = known and len(at) <= _WHOLE_UPDATE_SHARE * len(found)
        yield Change(Part.VALUES, message("change", {"at": at.tolist(), "values": found[at].tolist()}) if few else None)

    def _flags_changes(self, node_map: NodeMap) -> Iterator[Change]:
        if np.array_equal(node_map.flags, self._flags):
            return
        self._flags = node_map.flags.copy()
        self._encoded.pop(Part.FLAGS, None)
        yield Change(Part.FLAGS)

    def _message(self, part: Part) -> bytes:
        """The message of a part, of MAP that of the nodes alone; encoded when the first watcher gets it, and shared by all."""
        if part not in self._encoded:
            self._encoded[part] = self._encode(part)
        return self._encoded[part]

    def _encode(self, part: Part) -> bytes:
        if part is Part.VALUES:
            return message("values", {**self._scale, "steps": SCALE_STEPS, "values": self._steps.tolist()})
        if part is Part.FLAGS:
            return message("flags", self._flags.tolist())
        tiles = self._tiles
        if tiles is None:
            return b""
        return message("tiles", {"layout": self._layout, "names": tiles.names, "zones": tiles.zones, "zoneNames": tiles.zone_names})
