"""The rows with the highest total, and the rule that breaks ties.

A row's total is its own sum plus the points of its topology domains, which are the same number for all rows of a *class* (rows with the
same domains). `BestOfFew` compares the totals of all rows, which is the fastest search up to some thousand rows. `BestOfMany` arranges the
rows in blocks, and within a block by class; the rows of one class in one block are a *cell*. Each cell keeps its highest sum, the number of
rows that have it, and a bound on all other sums. A changed row changes its own cell only. Changed points of a domain change no cell: they
are added to the highest sums when the best row is searched. Addition and rounding are monotone in floating point too, so the highest total
of a cell is the total of its highest sum, to the last bit.

Kubernetes leaves ties to the order in which goroutines finish. Here a tie has the same winner on every machine and in every replay, and
winners are still spread over the tied nodes as if drawn at random. Names and uids are hashed to 64 bits with BLAKE2b; the node hashes are
kept with the columns (`Snapshot.name_hashes`). The tied nodes are ordered by the hashes of their names. The pod's hash, scaled from 0..2⁶⁴
to their number, is the place of the winner in that order (Lemire, Fast Random Integer Generation in an Interval, 2019, without its
rejection step: the bias is below n/2⁶⁴). Blocks follow the same order, so that equal rows can be counted by block.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.domains import RowClasses, row_classes
from wharfinger.model.columns.node_table import stable_hash

if TYPE_CHECKING:
    from wharfinger.framework.prepared import Mask
    from wharfinger.model.columns.arrays import StringTable
    from wharfinger.model.state.snapshot import Snapshot

BITS = 64
ROWS_OF_CELL = 64
MAX_BLOCK_ROWS = 4096
MAX_KEPT = 16
"""The maximum number of arrangements that are kept of one layout; more combinations of topology keys are rare."""
FEW_CELLS = 3  # cells that are counted again one by one; more are counted by array operations
FEW_ROWS = 8192  # so few rows are all compared sooner than their cells are kept up to date
NO_TOTAL = -np.inf


def place(uid: str, n_tied: int) -> int:
    """The winner's place, 0..n_tied-1, among the tied nodes in the order of their name hashes, for the pod of this uid."""
    return stable_hash(uid) * n_tied >> BITS


def winner(uid: str, name_hashes: NDArray[np.uint64]) -> int:
    """The index (into `name_hashes`, not empty) of the node that the pod of this uid gets among equals."""
    wanted = place(uid, len(name_hashes))
    return int(np.argpartition(name_hashes, wanted)[wanted])


class Arrangement:
    """The rows in blocks and cells, for one layout of the rows.

    `place` (n_nodes,) intp is the place of each row, `row` and `rank` the row at each place and its number in the order of name hashes.
    `starts` (n_cells + 1,) are the places at which cells begin, `block_starts` the cells at which blocks begin. `cell_class` and
    `cell_block` are the class and the block of each cell, `cell_of` is the cell of each place.
    """

    __slots__ = ("block_starts", "cell_block", "cell_class", "cell_of", "place", "place_class", "rank", "row", "sizes", "starts")

    def __init__(self, name_hashes: NDArray[np.uint64], classes: RowClasses | None) -> None:
        n_nodes = len(name_hashes)
        by_hash = np.argsort(name_hashes)
        n_classes = 1 if classes is None else len(classes.rows)
        size = 1 << (ROWS_OF_CELL * n_classes - 1).bit_length()
        while size < MAX_BLOCK_ROWS and size * size < n_nodes:
            size *= 2
        block = np.arange(n_nodes) // min(size, MAX_BLOCK_ROWS)
        if classes is None:
            self.rank, cell = np.arange(n_nodes), block
        else:
            codes = block * n_classes + classes.ids[by_hash]
            self.rank = np.argsort(codes, kind="stable")
            cell = codes[self.rank]
        self.row = by_hash[self.rank]
        self.place = np.empty(n_nodes, np.intp)
        self.place[self.row] = np.arange(n_nodes)
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        self.starts = np.append(first, n_nodes)
        self.sizes = np.diff(self.starts)
        self.cell_of = np.repeat(np.arange(len(first)), self.sizes)
        self.cell_block = cell[first] // n_classes
        self.cell_class = cell[first] % n_classes
        self.place_class = np.repeat(self.cell_class, self.sizes)
        self.block_starts = np.append(np.searchsorted(self.cell_block, np.arange(self.cell_block[-1] + 1)), len(first))


class Arrangements:
    """The arrangements of one layout, shared by all templates; each is built at its first use."""

    __slots__ = ("_classes", "_kept", "_layout", "_plain", "_strings")

    def __init__(self) -> None:
        self._layout = -1
        self._strings: StringTable | None = None
        self._classes: dict[tuple[str, ...], RowClasses | None] = {}
        self._plain: Arrangement | None = None
        self._kept: dict[int, tuple[RowClasses, Arrangement]] = {}

    def classes(self, keys: tuple[str, ...], snapshot: Snapshot) -> RowClasses | None:
        """The result of `row_classes`, kept while the nodes stay in the same domains."""
        self._follow(snapshot)
        found = self._classes.get(keys)
        if found is None or not found.is_valid:
            found = self._classes[keys] = row_classes(keys, snapshot)
        return found

    def common(self, domains: Iterable[tuple[str, ...] | None], snapshot: Snapshot) -> RowClasses | None:
        """The classes of all topology keys together, without tuples that have too many; None if there are none, or too many in all."""
        kept = {keys for keys in domains if keys is not None and self.classes(keys, snapshot) is not None}
        return self.classes(tuple(sorted({key for keys in kept for key in keys})), snapshot) if kept else None

    def arrangement(self, found: RowClasses | None, snapshot: Snapshot) -> Arrangement:
        """The arrangement for some classes."""
        self._follow(snapshot)
        if found is None:
            if self._plain is None:
                self._plain = Arrangement(snapshot.name_hashes, None)
            return self._plain
        kept = self._kept.get(id(found))  # held, so that no other classes get its identity
        if kept is None:
            kept = self._kept[id(found)] = found, Arrangement(snapshot.name_hashes, found)
        return kept[1]

    def _follow(self, snapshot: Snapshot) -> None:
        if snapshot.layout_revision != self._layout or snapshot.strings is not self._strings:
            self._layout, self._strings, self._plain = snapshot.layout_revision, snapshot.strings, None
            self._classes.clear()
            self._kept.clear()
        elif max(len(self._classes), len(self._kept)) > MAX_KEPT:
            self._classes.clear()
            self._kept.clear()


class Best(ABC):
    """The best rows; valid until a sum changes. `n_rows` is their number."""

    n_rows: int

    @abstractmethod
    def row(self, place: int) -> int:
        """The best row at a place (0..`n_rows`-1) in the order of name hashes."""

    @abstractmethod
    def rows(self) -> NDArray[np.intp]:
        """All of the best rows, in no particular order."""


class BestRows(ABC):
    """The sums of all rows, `-inf` where a row is not feasible, kept for the search of the best rows.

    Where no points are kept per class, "sums" are totals in whole quanta, which are compared directly.
    """

    @abstractmethod
    def put(self, row: int, value: float) -> None:
        """Set the sum of one row; -inf if it is not feasible."""

    @abstractmethod
    def put_all(self, rows: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Set the sums of some rows; -inf where a row is not feasible."""

    @abstractmethod
    def find(self, added: Sequence[NDArray[np.float64]], per_unit: float | None) -> Best:
        """The best rows, if each of `added` ((n_classes,)) is added to the sums in order, and totals are rounded to whole 1/`per_unit`.

        None: the sums are totals in whole quanta, to which only 0 or -inf is added.
        """


def best_rows(
    arrangements: Arrangements, classes: RowClasses | None, snapshot: Snapshot, sums: NDArray[np.float64], feasible: Mask
) -> BestRows:
    """The faster of the two forms for this number of nodes; `sums` (n_nodes,) and `feasible` (n_nodes,) bool are by row."""
    if snapshot.n_nodes <= FEW_ROWS:
        return BestOfFew(arrangements.arrangement(None, snapshot), classes, sums, feasible)
    return BestOfMany(arrangements.arrangement(classes, snapshot), sums, feasible)


class BestOfFew(BestRows):
    """The sums in the order of name hashes, and the class of each; every search compares all of them."""

    __slots__ = ("_at", "_class", "_sums")

    def __init__(self, plain: Arrangement, classes: RowClasses | None, sums: NDArray[np.float64], feasible: Mask) -> None:
        """`plain` is the arrangement without classes."""
        self._at = plain
        self._class = plain.place_class if classes is None else classes.ids[plain.row]
        self._sums = np.where(feasible, sums, NO_TOTAL)[plain.row]

    def put(self, row: int, value: float) -> None:
        """Set the sum of one row."""
        self._sums[self._at.place.item(row)] = value

    def put_all(self, rows: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Set the sums of some rows."""
        self._sums[self._at.place[rows]] = values

    def find(self, added: Sequence[NDArray[np.float64]], per_unit: float | None) -> Best:
        """The best rows."""
        totals = _keys(self._sums, added, self._class, None)
        best = _highest(totals)
        if per_unit is None:
            return TiedRows(self._at.row, (totals == best).nonzero()[0])
        return TiedRows(self._at.row, (totals >= _lowest_equal(best, per_unit)).nonzero()[0])


class TiedRows(Best):
    """The best rows as their `places`, ascending: the places are in the order of name hashes."""

    __slots__ = ("_places", "_row", "n_rows")

    def __init__(self, row: NDArray[np.intp], places: NDArray[np.intp]) -> None:
        """`row` is the row at each place."""
        self._row = row
        self._places = places
        self.n_rows = len(places)

    def row(self, place: int) -> int:
        """The best row at a place."""
        return self._row.item(self._places.item(place))

    def rows(self) -> NDArray[np.intp]:
        """All of the best rows."""
        return self._row[self._places]


class BestOfMany(BestRows):
    """The sums by cell, and the values per cell with which the best rows are found.

    `_tops` (2, n_cells) holds the highest sum of each cell and an upper bound on all lower sums. `_n_highest` (n_cells,) is the number of
    rows with the highest sum.
    """

    __slots__ = ("_at", "_below", "_highest", "_n_highest", "_sums", "_tops")

    def __init__(self, arrangement: Arrangement, sums: NDArray[np.float64], feasible: Mask) -> None:
        """`sums` (n_nodes,) and `feasible` (n_nodes,) bool are by row."""
        self._at = at = arrangement
        self._sums = np.where(feasible, sums, NO_TOTAL)[at.row]
        self._tops = np.empty((2, len(at.sizes)))
        self._highest, self._below = self._tops
        self._count_all()

    def _count_all(self) -> None:
        """Count every cell again."""
        at = self._at
        first = at.starts[:-1]
        self._highest[:] = np.maximum.reduceat(self._sums, first)
        best = self._sums == np.repeat(self._highest, at.sizes)
        self._n_highest = np.bincount(at.cell_of[best], minlength=len(first))
        self._below[:] = np.maximum.reduceat(np.where(best, NO_TOTAL, self._sums), first)

    def put(self, row: int, value: float) -> None:
        """Set the sum of one row; -inf if it is not feasible."""
        place = self._at.place.item(row)
        before = self._sums.item(place)
        if value == before:
            return
        self._sums[place] = value
        cell = self._at.cell_of.item(place)
        highest = self._highest.item(cell)
        if value > highest:
            if before < highest or self._n_highest.item(cell) > 1:
                self._below[cell] = highest
            self._highest[cell] = value
            self._n_highest[cell] = 1
        elif value == highest:
            self._n_highest[cell] += 1
        elif before == highest:
            number = self._n_highest.item(cell)
            if number == 1:
                self._count(cell)
            else:
                self._n_highest[cell] = number - 1
                if value > self._below.item(cell):
                    self._below[cell] = value
        elif value > self._below.item(cell):
            self._below[cell] = value

    def put_all(self, rows: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Set the sums of some rows; -inf where a row is not feasible."""
        at = self._at
        places = at.place[rows]
        different = values != self._sums[places]
        places, values = places[different], values[different]
        of = at.cell_of[places]
        cells = np.bincount(of, minlength=len(at.sizes)).nonzero()[0]
        if len(cells) > FEW_CELLS and len(places) * 4 < int(at.sizes[cells].sum()):
            cells = self._move(places, of, values)
        else:
            self._sums[places] = values
        if len(cells) <= FEW_CELLS:
            for cell in cells.tolist():
                self._count(cell)
        elif len(cells) * 2 > len(at.sizes):
            self._count_all()
        else:
            self._count_some(cells)

    def _move(self, places: NDArray[np.intp], of: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Set the sums at some places, in the cells `of`, without reading other rows; returns the cells that have to be counted again."""
        before = self._sums[places]
        self._sums[places] = values
        highest, n_cells = self._highest, len(self._at.sizes)
        self._n_highest -= np.bincount(of[before == highest[of]], minlength=n_cells)
        raised = np.full(n_cells, NO_TOTAL)
        np.maximum.at(raised, of, values)
        above = raised > highest
        self._below[above] = np.maximum(self._below[above], highest[above])
        self._n_highest[above] = 0
        highest[above] = raised[above]
        top = values == highest[of]
        self._n_highest += np.bincount(of[top], minlength=n_cells)
        np.maximum.at(self._below, of[~top], values[~top])
        return np.flatnonzero(self._n_highest == 0)

    def _count_some(self, cells: NDArray[np.intp]) -> None:
        """Count some cells again."""
        at = self._at
        sizes = at.sizes[cells]
        first = sizes.cumsum() - sizes
        sums = self._sums[np.arange(sizes.sum()) + np.repeat(at.starts[cells] - first, sizes)]
        highest = self._highest[cells] = np.maximum.reduceat(sums, first)
        best = sums == np.repeat(highest, sizes)
        self._n_highest[cells] = np.add.reduceat(best, first, dtype=np.intp)
        self._below[cells] = np.maximum.reduceat(np.where(best, NO_TOTAL, sums), first)

    def _count(self, cell: int) -> None:
        sums = self._sums[self._at.starts.item(cell) : self._at.starts.item(cell + 1)]
        highest = _highest(sums)
        lower = sums[sums < highest]
        self._highest[cell] = highest
        self._n_highest[cell] = len(sums) - len(lower)
        self._below[cell] = _highest(lower) if len(lower) else NO_TOTAL

    def find(self, added: Sequence[NDArray[np.float64]], per_unit: float | None) -> Best:
        """The best rows."""
        of = self._at.cell_class
        if per_unit is None:
            tops = _keys(self._highest, added, of, per_unit)
            key = _highest(tops)
            cells = (tops == key).nonzero()[0]
        else:
            tops = _keys(self._tops, added, of, per_unit)
            key = _highest(tops[0])
            highest, below = tops == key
            if below.any():
                return self._all(added, per_unit, key)
            cells = highest.nonzero()[0]
        return self._tied(added, per_unit, key, cells, self._n_highest[cells])

    def _all(self, added: Sequence[NDArray[np.float64]], per_unit: float, key: float) -> Best:
        """`find` for the case that different sums of a cell may be equal after rounding: compares every row."""
        at = self._at
        equal = _keys(self._sums, added, at.place_class, per_unit) == key
        counts = np.add.reduceat(equal, at.starts[:-1], dtype=np.intp)
        cells = np.flatnonzero(counts)
        return self._tied(added, per_unit, key, cells, counts[cells])

    def _tied(
        self, added: Sequence[NDArray[np.float64]], per_unit: float | None, key: float, cells: NDArray[np.intp], counts: NDArray[np.intp]
    ) -> TiedCells:
        return TiedCells(
            at=self._at,
            sums=self._sums,
            added=added,
            per_unit=per_unit,
            key=key,
            cells=cells,
            counts=counts,
            n_rows=int(np.add.reduce(counts)),
        )


@dataclass(slots=True, kw_only=True)
class TiedCells(Best):
    """The best rows as the `cells` that hold them, with the number in each (`counts`); `key` is their total.

    `sums` are the sums by place. `added` and `per_unit` are the arguments of `find`.
    """

    at: Arrangement
    sums: NDArray[np.float64]
    added: Sequence[NDArray[np.float64]]
    per_unit: float | None
    key: float
    cells: NDArray[np.intp]
    counts: NDArray[np.intp]
    n_rows: int

    def rows(self) -> NDArray[np.intp]:
        """All of the best rows."""
        at = self.at
        if len(self.cells) * 4 > len(at.sizes):
            return at.row[self._places(0, len(at.row))]
        return np.concatenate([at.row[self._places(at.starts.item(cell), at.starts.item(cell + 1))] for cell in self.cells.tolist()])

    def row(self, place: int) -> int:
        """The best row at a place."""
        at, cells = self.at, self.cells
        ends = self.counts.cumsum()
        index = int(ends.searchsorted(place, side="right"))
        cell = cells.item(index)
        block = at.cell_block.item(cell)
        follows = index > 0 and at.cell_block.item(cells.item(index - 1)) == block
        if not follows and (index + 1 == len(ends) or at.cell_block.item(cells.item(index + 1)) != block):
            places = self._places(at.starts.item(cell), at.starts.item(cell + 1))  # in the order of hashes, as of one cell
            return at.row.item(places.item(place - (ends.item(index - 1) if index else 0)))
        first_cell, last_cell = at.block_starts.item(block), at.block_starts.item(block + 1)
        before = int(cells.searchsorted(first_cell))
        places = self._places(at.starts.item(first_cell), at.starts.item(last_cell))
        wanted = place - (ends.item(before - 1) if before else 0)
        return at.row.item(places.item(at.rank[places].argsort().item(wanted)))

    def _places(self, start: int, end: int) -> NDArray[np.intp]:
        """The places of best rows from `start` up to but not including `end`, ascending."""
        keys = _keys(self.sums[start:end], self.added, self.at.place_class[start:end], self.per_unit)
        places: NDArray[np.intp] = (keys == self.key).nonzero()[0]
        places += start
        return places


def _keys(
    sums: NDArray[np.float64], added: Sequence[NDArray[np.float64]], of: NDArray[np.intp], per_unit: float | None
) -> NDArray[np.float64]:
    """The values that are compared: totals in whole quanta; `of` is the class of each sum. `sums` itself if there is nothing to do."""
    for each in added:
        sums = sums + each.take(of)
    return sums if per_unit is None else np.rint(sums * per_unit)


def _highest(totals: NDArray[np.float64]) -> float:
    """The highest of some totals; at least one. Its place takes half as long to find as the value by `max`."""
    return totals.item(totals.argmax())


def _lowest_equal(total: float, per_unit: float) -> float:
    """The lowest total that is equal to `total` after rounding to whole quanta. Rounding is monotone: all totals between are equal too."""
    key = round(total * per_unit)
    found = (key - 0.5) / per_unit  # or a few floats away: the division is rounded
    while round(found * per_unit) >= key:
        found = math.nextafter(found, -math.inf)
    while round(found * per_unit) < key:
        found = math.nextafter(found, math.inf)
    return found
