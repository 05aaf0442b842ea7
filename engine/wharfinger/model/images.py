"""Which nodes hold which container image.

ImageLocality asks for two or three images out of thousands, so this is an index from image name to rows, turned into arrays when an
image is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

MOST_NAMES: Final = 4096  # indexed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageState:
    """Where one image is: `rows` (k,) intp ascending, `sizes` (k,) int64 in bytes as each node reports it."""

    rows: NDArray[np.intp]
    sizes: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        """How many nodes hold the image."""
        return len(self.rows)


class Images:
    """Size in bytes per (image name, row); names that somebody asked for have an index, the others need none."""

    __slots__ = ("_by_name", "_by_row", "_states")

    def __init__(self) -> None:
        self._by_row: dict[int, Mapping[str, int]] = {}
        self._by_name: dict[str, dict[int, int]] = {}
        self._states: dict[str, ImageState] = {}

    def state(self, name: str) -> ImageState:
        """The nodes holding an image, and its size there."""
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = _state(self._sizes(name))
        return state

    def _sizes(self, name: str) -> Mapping[int, int]:
        sizes = self._by_name.get(name)
        if sizes is None:
            if len(self._by_name) == MOST_NAMES:  # names come and go in a long-lived process; starting afresh is cheap
                self._by_name.clear()
                self._states.clear()
            sizes = self._by_name[name] = {row: images[name] for row, images in self._by_row.items() if name in images}
        return sizes

    def set_row(self, row: int, sizes: Mapping[str, int]) -> None:
        """Take over the images of one node (name → bytes), replacing what was there."""
        old = self._by_row.pop(row, {})
        if sizes:
            self._by_row[row] = sizes
        if self._by_name:
            for name in old.keys() | sizes.keys():
                if name in self._by_name and old.get(name) != sizes.get(name):
                    self._set_size(name, row, sizes.get(name))

    def _set_size(self, name: str, row: int, size: int | None) -> None:
        self._states.pop(name, None)
        if size is None:
            del self._by_name[name][row]
        else:
            self._by_name[name][row] = size

    def move(self, source: int, target: int) -> None:
        """Give the images of one row to another, which has none any more."""
        sizes = self._by_row.get(source, {})
        self.set_row(source, {})
        self.set_row(target, sizes)


def _state(sizes: Mapping[int, int]) -> ImageState:
    rows = sorted(sizes)
    state = ImageState(rows=np.array(rows, dtype=np.intp), sizes=np.array([sizes[row] for row in rows], dtype=np.int64))
    state.rows.setflags(write=False)
    state.sizes.setflags(write=False)
    return state
