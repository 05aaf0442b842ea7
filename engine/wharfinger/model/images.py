"""Which nodes hold which container image.

ImageLocality asks for two or three images out of thousands, so this is an index from image name to rows, turned into arrays when an
image is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageState:
    """Where one image is: `rows` (k,) intp ascending, `sizes` (k,) int64 in bytes as each node reports it."""

    rows: NDArray[np.intp]
    sizes: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        """How many nodes hold the image."""
        return len(self.rows)


NOWHERE = ImageState(rows=np.empty(0, dtype=np.intp), sizes=np.empty(0, dtype=np.int64))


class Images:
    """Size in bytes per (image name, row)."""

    __slots__ = ("_by_name", "_by_row", "_states")

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, int]] = {}
        self._by_row: dict[int, Mapping[str, int]] = {}
        self._states: dict[str, ImageState] = {}

    def state(self, name: str) -> ImageState:
        """The nodes holding an image, and its size there."""
        state = self._states.get(name)
        if state is None:
            sizes = self._by_name.get(name)
            if sizes is None:
                return NOWHERE
            rows = sorted(sizes)
            state = ImageState(rows=np.array(rows, dtype=np.intp), sizes=np.array([sizes[row] for row in rows], dtype=np.int64))
            state.rows.setflags(write=False)
            state.sizes.setflags(write=False)
            self._states[name] = state
        return state

    def set_row(self, row: int, sizes: Mapping[str, int]) -> None:
        """Take over the images of one node (name → bytes), replacing what was there."""
        old = self._by_row.pop(row, {})
        if old == sizes:
            if sizes:
                self._by_row[row] = old
            return
        for name in old:
            self._states.pop(name, None)
            rows = self._by_name[name]
            del rows[row]
            if not rows:
                del self._by_name[name]
        for name, size in sizes.items():
            self._states.pop(name, None)
            self._by_name.setdefault(name, {})[row] = size
        if sizes:
            self._by_row[row] = sizes

    def move(self, source: int, target: int) -> None:
        """Give the images of one row to another, which has none any more."""
        sizes = self._by_row.get(source, {})
        self.set_row(source, {})
        self.set_row(target, sizes)
