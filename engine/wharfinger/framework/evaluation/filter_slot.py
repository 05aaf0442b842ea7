"""Filters prepared for one template: their verdicts on every node, and their reasons against one node with supposed pods.

Filters are prepared in the way in which `RunPreFilterPlugins` runs PreFilter (pkg/scheduler/framework/runtime/framework.go, Kubernetes
1.36). An unresolvable rejection ends the cycle at once. After a resolvable rejection the other plugins still run, because one of them may
reject the pod as unresolvable. Sets of nodes are intersected.

For preemption and nominated pods, filters run on one node with pods supposed to be removed or added, by the rules of
`RunFilterPluginsWithNominatedPods` in the same file: in order until one rejects. If other pods of equal or higher priority are nominated to
the node, filters run first with these pods added, then without them, and both runs must pass.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.framework.domains import RowClasses
from wharfinger.framework.eviction import Supposition
from wharfinger.framework.extension import FilterPlugin, Trial
from wharfinger.framework.plugin_calls import CallTimer, RuleStatistics
from wharfinger.framework.prepared import (
    ALL,
    SKIP,
    Attempt,
    Changes,
    Mask,
    PreparedFilter,
    Reason,
    Rejected,
    Rows,
    Shared,
    Skip,
    resolvable,
)
from wharfinger.framework.rules.work import portions
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class Refusal(Struct, frozen=True):
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
        return resolvable(self.reasons)


class NodeSet(Struct, frozen=True):
    """The nodes that PreFilter plugins chose, `(n_nodes,) bool`, and these plugins. Other nodes count as unresolvable for `reason`."""

    plugins: tuple[str, ...]
    mask: Mask

    @property
    def reason(self) -> Reason:
        """The reason given for the nodes that were not chosen (schedule_one.go, `findNodesThatFitPod`)."""
        return Reason(f"node(s) didn't satisfy plugin(s) [{' '.join(self.plugins)}]", resolvable=False)


def prepare(
    slots: Sequence[FilterSlot], attempt: Attempt, call_timer: CallTimer
) -> Generator[None, None, tuple[Refusal | None, NodeSet | None]]:
    """A generator of steps that prepares all filters.

    Returns the refusal (None if the pod is not refused), and the chosen nodes (None for all).
    """
    refusal: Refusal | None = None
    names: frozenset[str] | None = None
    plugins: list[str] = []
    for portion in portions(slots, attempt.snapshot.n_nodes):
        for slot in call_timer.each("PreFilter", portion):
            slot.prepare(attempt)
            answer = slot.answer
            if isinstance(answer, Rejected):
                refusal = Refusal(slot.plugin.name, answer.reasons)
                if not answer.resolvable:
                    return refusal, None
            elif isinstance(answer, PreparedFilter) and answer.nodes is not None:
                plugins = sorted([*plugins, slot.plugin.name])
                names = answer.nodes if names is None else names & answer.nodes
                if not names:
                    return Refusal(slot.plugin.name, (Reason(_nothing_left(plugins), resolvable=False),)), None
        yield
    return refusal, None if names is None else NodeSet(tuple(plugins), _mask(names, attempt.snapshot))


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
    """A filter prepared for one template (`rule`, if the `answer` is one), and its `verdicts`: bits, `(n_nodes,)` or `(n_classes,)`.

    They are per class of rows if there are `classes`, which needs a filter whose verdict depends on the topology keys `domains` alone.
    """

    __slots__ = ("answer", "classes", "domains", "plugin", "reasons", "rule", "skipped", "statistics", "verdicts", "volatility")

    rule: PreparedFilter

    def __init__(self, plugin: FilterPlugin, statistics: RuleStatistics | None = None) -> None:
        self.plugin = plugin
        self.statistics = statistics
        self.volatility = plugin.filter_volatility
        self.answer: PreparedFilter | Skip | Rejected = SKIP
        self.skipped = False
        self.reasons: tuple[Reason, ...] = ()
        self.domains: tuple[str, ...] | None = None
        self.classes: RowClasses | None = None
        self.verdicts: NDArray[Any] = np.empty(0, np.uint8)

    @property
    def bits(self) -> NDArray[Any]:
        """The verdict bits of all nodes, `(n_nodes,)`."""
        return self.verdicts if self.classes is None else self.verdicts[self.classes.ids]

    def reasons_at(self, row: int) -> tuple[Reason, ...]:
        """The reasons against one node; empty if the filter lets it through or is skipped."""
        if self.skipped:
            return ()
        bits = int(self.verdicts.item(row if self.classes is None else self.classes.ids.item(row)))
        return tuple(reason for index, reason in enumerate(self.reasons) if bits >> index & 1) if bits else ()

    def prepare(self, attempt: Attempt) -> bool:
        """Prepare the filter; True if whether it applies, its refusal, the nodes to consider, or `domains` changed."""
        before, domains = self.answer, self.domains
        self.answer = self.plugin.prepare_filter(attempt)
        self.skipped = isinstance(self.answer, Skip)
        self.domains = None
        if isinstance(self.answer, PreparedFilter):
            self.rule = self.answer
            self.reasons = self.answer.reasons
            if self.volatility is Volatility.GLOBAL:
                self.domains = self.answer.domains
        return _outline(self.answer) != _outline(before) or self.domains != domains

    def evaluate(self, snapshot: Snapshot, classes: RowClasses | None = None) -> None:
        """Run the filter on every node, or on one node of each class."""
        self.classes = classes
        found = self.rule.bits(snapshot, ALL if classes is None else classes.rows)
        self.verdicts = found.astype(_narrowest(len(self.reasons)))  # a copy: a plugin's array stays the plugin's
        if self.statistics is not None:
            self._count(self.statistics, self.verdicts)

    def follow(self, snapshot: Snapshot, rows: Rows, changes: Changes) -> None:
        """Run the filter on the rows that these changes affect."""
        if isinstance(rows, slice):
            self.evaluate(snapshot)
        elif len(rows) and changes.only(rows):
            self.patch_one(snapshot, changes.row)
        elif len(rows):
            self.patch(snapshot, rows)

    def patch(self, snapshot: Snapshot, rows: NDArray[np.intp]) -> None:
        """Run the filter on some rows."""
        self.verdicts[rows] = found = self.rule.bits(snapshot, rows)
        if self.statistics is not None:
            self._count(self.statistics, found)

    def patch_one(self, snapshot: Snapshot, row: int) -> None:
        """Run the filter on one row."""
        self.verdicts[row] = found = self.rule.bits_at(snapshot, row)
        if self.statistics is not None:
            self.statistics.evaluated += 1
            self.statistics.rejected += found != 0

    @staticmethod
    def _count(statistics: RuleStatistics, bits: NDArray[Any]) -> None:
        statistics.evaluated += len(bits)
        statistics.rejected += int(np.count_nonzero(bits))


def _outline(answer: PreparedFilter | Skip | Rejected) -> object:
    """The part of an answer that other filters' results are combined by."""
    return answer.nodes if isinstance(answer, PreparedFilter) else Skip if isinstance(answer, Skip) else answer


def _narrowest(n_reasons: int) -> type[np.unsignedinteger[Any]]:
    """The smallest unsigned dtype with a bit for each reason; nearly always one byte per node."""
    for dtype, width in ((np.uint8, 8), (np.uint16, 16), (np.uint32, 32)):
        if n_reasons <= width:
            return dtype
    return np.uint64


class FilterTrial(Trial):
    """The filters of some slots, run on one node with supposed pods.

    `refused` are the reasons of a PreFilter that refused the pod on every node. Then no filter has run, and `reasons` returns `refused`.
    """

    def __init__(self, slots: Sequence[FilterSlot], attempt: Attempt, refused: tuple[Reason, ...] = ()) -> None:
        self._attempt = attempt
        self._refused = refused
        self._slots = tuple(slot for slot in slots if not slot.skipped)

    def confirmed(self, row: int, victims: Sequence[PodView]) -> tuple[Reason, ...]:
        """The reasons of ROW filters that do not answer for supposed pods, found on a cluster of that node alone."""
        supposed = self.suppose(row)
        for victim in victims:
            supposed.remove(victim)
        rows = [slot.plugin for slot in self._slots if slot.volatility is Volatility.ROW and slot.rule.supposing(supposed) is None]
        attempt = Attempt(self._attempt.pod, supposed.alone(), Shared()) if rows else self._attempt
        for plugin in rows:
            slot = FilterSlot(plugin)
            slot.prepare(attempt)
            if isinstance(slot.answer, Rejected):
                return slot.answer.reasons
            if not slot.skipped:
                slot.evaluate(attempt.snapshot)
                if found := slot.reasons_at(0):
                    return found
        return ()

    @property
    def spans_nodes(self) -> bool:
        """True if the verdict of some filter on a node depends on more than that node and its pods."""
        return any(slot.volatility >= Volatility.TIMED for slot in self._slots)

    def suppose(self, row: int) -> Supposition:
        """A supposition about a node, with no pods removed or added yet."""
        return Supposition(self._attempt.snapshot, row)

    def reasons(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons of the first filter that rejects the supposed node; empty if all let it pass."""
        if self._refused:
            return self._refused
        for slot in self._slots:
            found = slot.rule.supposing(supposed)
            if found is None:
                found = slot.reasons_at(supposed.row)
            if found:
                return found
        return ()

    def nominees(self, row: int) -> list[PodView]:
        """The pods of equal or higher priority that are nominated to a node, without the pod itself."""
        pod = self._attempt.pod
        return [other for other in self._attempt.snapshot.nominated(row) if other.priority >= pod.priority and other.uid != pod.uid]

    def reasons_with_nominees(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons against the supposed node, with its nominated pods added or without them; empty if it passes both ways."""
        return self.reasons_with_nominated(supposed) or self.reasons(supposed)

    def reasons_with_nominated(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons against the supposed node with its nominated pods added; empty if it passes or has no nominated pods."""
        nominees = self.nominees(supposed.row)
        if not nominees:
            return ()
        for nominee in nominees:
            supposed.add(nominee)
        found = self.reasons(supposed)
        for nominee in nominees:
            supposed.withdraw(nominee)
        return found
