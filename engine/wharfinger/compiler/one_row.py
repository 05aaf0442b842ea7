"""A bound policy asked about one node, in plain Python (see `row_code`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wharfinger.builtins.context import AtNode
from wharfinger.compiler.row_code import RowCode
from wharfinger.compiler.schedule import Registers, StaticPart
from wharfinger.model.snapshot import Snapshot

if TYPE_CHECKING:
    from wharfinger.model.pod import PodView

Static = Callable[[StaticPart, Snapshot], Any]


class OneRow:
    """The rules of one policy for one pod, one node at a time: all of them at once, kept until another node is asked about.

    `static` gives the column of a static part for all rows.
    """

    __slots__ = ("_answers", "_code", "_columns", "_pod", "_row", "_since", "_snapshot", "_start", "_static")

    def __init__(self, code: RowCode, start: Registers, static: Static) -> None:
        self._code = code
        self._start = start
        self._static = static
        self._columns: list[Any] | None = None  # those of static parts, as they have been since the revision `_since`
        self._since = 0
        self._snapshot: Snapshot | None = None
        self._pod: PodView | None = None
        self._row = -1
        self._answers: tuple[Any, ...] = ()

    def filter_bits(self, index: int, pod: PodView, snapshot: Snapshot, row: int) -> int:
        """Why filter number `index` rejects the node of a row: one bit per reason, 0 lets the node pass."""
        if row != self._row or snapshot is not self._snapshot or pod is not self._pod:
            self._evaluate(pod, snapshot, row)
        bits: int = self._answers[self._code.filters[index]]
        return bits

    def score(self, index: int, pod: PodView, snapshot: Snapshot, row: int) -> float:
        """The raw value of score number `index` at the node of a row; NaN where it is missing, infinite where the rule is left out."""
        if row != self._row or snapshot is not self._snapshot or pod is not self._pod:
            self._evaluate(pod, snapshot, row)
        value: float = self._answers[self._code.scores[index]]
        return value

    def _evaluate(self, pod: PodView, snapshot: Snapshot, row: int) -> None:
        changed = snapshot.node_changes(self._since)
        columns = self._columns
        if columns is None or changed is None or len(changed):
            columns = self._columns = [self._static(part, snapshot) for part in self._code.static]
        self._since, self._snapshot, self._pod, self._row = snapshot.revision, snapshot, pod, row
        self._answers = self._code.run(AtNode(snapshot, pod, row), self._start, columns)
