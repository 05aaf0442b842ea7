"""One filter's answers, kept for one template: its PreFilter result for the pod, and its verdict on every node.

PreFilter runs as `RunPreFilterPlugins` (pkg/scheduler/framework/runtime/framework.go, Kubernetes 1.36). An unresolvable rejection ends
the cycle at once. After a resolvable rejection the other plugins still run, because one of them may reject the pod as unresolvable. Sets of
nodes are intersected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import plugin_faults
from wharfinger.framework.evaluation.question import ALL, Changes, Question
from wharfinger.framework.evaluation.stopwatch import Effort
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.verdict import Mask, NodeSet, PreFilterAnswer, Reason, Rejected, Skip

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Refusal:
    """A PreFilter rejected the pod on every node: the plugin and its reasons."""

    plugin: str
    reasons: tuple[Reason, ...]

    @property
    def message(self) -> str:
        """The reasons as one text."""
        return ", ".join(reason.text for reason in self.reasons)

    @property
    def resolvable(self) -> bool:
        """True if removing pods could help."""
        return all(reason.resolvable for reason in self.reasons)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The nodes that PreFilter plugins chose, `(n_nodes,) bool`, and these plugins. Other nodes count as unresolvable for `reason`."""

    plugins: tuple[str, ...]
    mask: Mask

    @property
    def reason(self) -> Reason:
        """The reason given for the nodes that were not chosen (schedule_one.go, `findNodesThatFitPod`)."""
        return Reason(f"node(s) didn't satisfy plugin(s) [{' '.join(self.plugins)}]", resolvable=False)


class Prepared(Protocol):
    """A filter whose PreFilter can be run."""

    plugin: FilterPlugin
    answer: PreFilterAnswer

    def prepare(self, asked: Question) -> bool:
        """Run PreFilter and keep its `answer`; True if the answer changed."""


def run(filters: Iterable[Prepared], asked: Question) -> tuple[Refusal | None, Chosen | None]:
    """Run PreFilter of all filters. Returns the refusal (None if the pod is not refused), and the chosen nodes (None for all)."""
    refusal: Refusal | None = None
    names: frozenset[str] | None = None
    plugins: list[str] = []
    for slot in filters:
        slot.prepare(asked)
        answer = slot.answer
        if isinstance(answer, Rejected):
            refusal = Refusal(slot.plugin.name, answer.reasons)
            if not answer.resolvable:
                return refusal, None
        elif isinstance(answer, NodeSet):
            plugins = sorted([*plugins, slot.plugin.name])
            names = answer.names if names is None else names & answer.names
            if not names:
                return Refusal(slot.plugin.name, (Reason(_nothing_left(plugins), resolvable=False),)), None
    return refusal, None if names is None else Chosen(tuple(plugins), _mask(names, asked.snapshot))


def _nothing_left(plugins: list[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"


def _mask(names: frozenset[str], snapshot: Snapshot) -> Mask:
    mask = np.zeros(snapshot.n_nodes, np.bool_)
    for name in names:
        row = snapshot.row(name)
        if row is not None:
            mask[row] = True
    return mask


class FilterSlot:
    """A filter's PreFilter answer, and its verdict bits `(n_nodes,)` with the reason of each bit."""

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
        """Run PreFilter and keep its `answer`; True if it differs from the last one."""
        before, self.answer = self.answer, self.plugin.pre_filter(*asked)
        plugin_faults.pre_filter(self.plugin.name, self.answer)
        self.skipped = isinstance(self.answer, Skip)
        return self.answer != before

    def evaluate(self, asked: Question) -> None:
        """Run the filter on every node."""
        answer = plugin_faults.verdicts(self.plugin.name, self.plugin.filter(*asked, ALL), asked.snapshot.n_nodes)
        plugin_faults.reasons(self.plugin.name, answer.reasons, int(answer.bits.max(initial=0)))
        self.reasons = answer.reasons
        self.bits = answer.bits.astype(_narrowest(len(answer.reasons)))  # a copy: what a plugin returns stays the plugin's
        if self.effort is not None:
            self._count(self.effort, self.bits)

    def patch(self, asked: Question, rows: NDArray[np.intp]) -> bool:
        """Run the filter on some rows; on every node if its reasons changed, and then returns True."""
        answer = plugin_faults.verdicts(self.plugin.name, self.plugin.filter(*asked, rows), len(rows))
        if answer.reasons is not self.reasons and answer.reasons != self.reasons:
            self.evaluate(asked)
            return True
        self.bits[rows] = answer.bits
        if self.effort is not None:
            self._count(self.effort, answer.bits)
        return False

    def patch_one(self, asked: Question, changes: Changes) -> bool:
        """`patch` for a change of one row."""
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
    """The smallest unsigned dtype with a bit for each reason; nearly always one byte per node."""
    for dtype, width in ((np.uint8, 8), (np.uint16, 16), (np.uint32, 32)):
        if n_reasons <= width:
            return dtype
    return np.uint64
