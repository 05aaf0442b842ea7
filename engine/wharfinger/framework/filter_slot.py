"""One filter's verdicts on every node, kept for one template."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import plugin_faults
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.question import ALL, Changes, Question
from wharfinger.framework.stopwatch import Effort
from wharfinger.framework.verdict import PreFilterAnswer, Reason, Skip


class FilterSlot:
    """What the filter's PreFilter said, and its verdict bits `(n_nodes,)` with their reasons."""

    __slots__ = ("answer", "bits", "effort", "one", "plugin", "reasons", "skipped", "volatility")

    def __init__(self, plugin: FilterPlugin, effort: Effort | None = None) -> None:
        self.plugin = plugin
        self.effort = effort
        self.volatility = plugin.filter_volatility
        self.one = None if type(plugin).filter_one is FilterPlugin.filter_one else plugin.filter_one
        self.answer: PreFilterAnswer = None
        self.skipped = False
        self.reasons: tuple[Reason, ...] = ()
        self.bits: NDArray[Any] = np.empty(0, np.uint8)

    def prepare(self, asked: Question) -> bool:
        """Run PreFilter; whether its answer is another than last time."""
        before, self.answer = self.answer, self.plugin.pre_filter(*asked)
        plugin_faults.pre_filter(self.plugin.name, self.answer)
        self.skipped = isinstance(self.answer, Skip)
        return self.answer != before

    def evaluate(self, asked: Question) -> None:
        """Ask about every node."""
        answer = plugin_faults.verdicts(self.plugin.name, self.plugin.filter(*asked, ALL), asked.snapshot.n_nodes)
        plugin_faults.reasons(self.plugin.name, answer.reasons, int(answer.bits.max(initial=0)))
        self.reasons = answer.reasons
        self.bits = answer.bits.astype(_narrowest(len(answer.reasons)))  # a copy: what a plugin returns stays the plugin's
        if self.effort is not None:
            self._count(self.effort, self.bits)

    def patch(self, asked: Question, rows: NDArray[np.intp]) -> bool:
        """Ask about some rows; True if all had to be asked after all, because the reasons are others now."""
        answer = plugin_faults.verdicts(self.plugin.name, self.plugin.filter(*asked, rows), len(rows))
        if answer.reasons is not self.reasons and answer.reasons != self.reasons:
            self.evaluate(asked)
            return True
        self.bits[rows] = answer.bits
        if self.effort is not None:
            self._count(self.effort, answer.bits)
        return False

    def patch_one(self, asked: Question, changes: Changes) -> bool:
        """`patch` for the one row that changed."""
        if self.one is None:
            return self.patch(asked, changes.rows)
        bits = self.one(*asked, changes.row)
        if bits >> len(self.reasons):
            plugin_faults.reasons(self.plugin.name, self.reasons, bits)
        self.bits[changes.row] = bits
        if self.effort is not None:
            self.effort.evaluated += 1
            self.effort.rejected += bits != 0
        return False

    @staticmethod
    def _count(effort: Effort, bits: NDArray[Any]) -> None:
        effort.evaluated += len(bits)
        effort.rejected += int(np.count_nonzero(bits))


def _narrowest(n_reasons: int) -> type[np.unsignedinteger[Any]]:
    """The smallest dtype with a bit for each reason: one byte per node nearly always."""
    for dtype, width in ((np.uint8, 8), (np.uint16, 16), (np.uint32, 32)):
        if n_reasons <= width:
            return dtype
    return np.uint64
