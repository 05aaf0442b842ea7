"""The reasons why nodes were rejected, and kube-scheduler's message about them.

A node is counted under the first filter that rejects it, with all reasons of that filter, because kube-scheduler runs no further filters on
it. In addition there are each filter's own verdicts on every node ("matched alone"), and the number of nodes left after each filter in turn
("matched so far"). The message is that of `FitError.Error` (pkg/scheduler/framework/types.go, Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.framework.evaluation.filter_slot import FilterSlot
from wharfinger.framework.evaluation.filtering import Filtering
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.prepared import Mask, Reason, resolvable
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

NO_NODES = "no nodes available to schedule pods"
NOMINATED = "with nominated pods"
"""Takes the place of the plugin's name if filters reject a node only because of the pods nominated to it."""


class FilterDiagnosis(Struct, frozen=True, kw_only=True):
    """The effect of one filter.

    `alone`: nodes it rejects by itself; `first`: the part of these that no earlier filter rejected; `left`: nodes that are left after it.
    `reasons` counts the nodes under each reason among `alone`.
    """

    plugin: str
    skipped: bool
    alone: int
    first: int
    left: int
    reasons: Mapping[str, int]


class NodeRejection(Struct, frozen=True, kw_only=True):
    """The rejection of one node by one filter."""

    plugin: str
    reasons: tuple[Reason, ...]

    @property
    def resolvable(self) -> bool:
        """True if removing pods from the node could help."""
        return resolvable(self.reasons)


class Diagnosis:
    """The filters' verdicts on every node, read from `Filtering` at each call."""

    def __init__(self, filtering: Filtering, n_nodes: int) -> None:
        self._filtering = filtering
        self._n_nodes = n_nodes

    @property
    def filters(self) -> tuple[FilterDiagnosis, ...]:
        """Every filter in order; empty if a PreFilter refused the pod."""
        left = self._considered()
        found = []
        for slot in self._slots():
            failing = np.zeros(self._n_nodes, np.bool_) if slot.skipped else slot.bits != 0
            first = left & failing
            left = left & ~failing
            found.append(
                FilterDiagnosis(
                    plugin=slot.plugin.name,
                    skipped=slot.skipped,
                    alone=int(np.count_nonzero(failing)),
                    first=int(np.count_nonzero(first)),
                    left=int(np.count_nonzero(left)),
                    reasons=_counts(slot, failing),
                )
            )
        return tuple(found)

    @property
    def ran(self) -> tuple[FilterPlugin, ...]:
        """The filters that ran on nodes, in order; empty if a PreFilter refused the pod. Counts no nodes, which `filters` does."""
        return tuple(slot.plugin for slot in self._slots() if not slot.skipped)

    def are_local(self, snapshot: Snapshot) -> bool:
        """True if filters ran, and a pod of this template, when it is placed, changes their verdicts on its own node alone."""
        ran = [slot for slot in self._slots() if not slot.skipped]
        return bool(ran) and all(slot.volatility < Volatility.GLOBAL or slot.rule.is_local(snapshot) for slot in ran)

    @property
    def reasons(self) -> Mapping[str, int]:
        """The number of nodes under each reason, as kube-scheduler counts: the first failing filter of a node, with all of its reasons."""
        return self._counted(np.ones(self._n_nodes, np.bool_))

    def reasons_among(self, rows: NDArray[np.intp]) -> Mapping[str, int]:
        """The number of nodes under each reason, as in `reasons`, of some rows only."""
        among = np.zeros(self._n_nodes, np.bool_)
        among[rows] = True
        return self._counted(among)

    def _counted(self, among: Mask) -> Mapping[str, int]:
        refusal = self._filtering.refusal
        if refusal is not None:
            return {reason.text: int(np.count_nonzero(among)) for reason in refusal.reasons}
        left = self._considered() & among
        reasons_with_nominated = self._filtering.reasons_with_nominated.items()
        counts: Counter[str] = Counter(reason.text for row, found in reasons_with_nominated if among[row] for reason in found)
        chosen = self._filtering.node_set
        if chosen is not None and not chosen.mask[among].all():
            counts[chosen.reason.text] = int(np.count_nonzero(among & ~chosen.mask))
        for slot in self._slots():
            if not slot.skipped and left.any():
                failing = slot.bits != 0
                counts.update(_counts(slot, left & failing))
                left &= ~failing
        return counts

    @property
    def message(self) -> str:
        """`0/N nodes are available: …`, without PostFilter's part; of use only if no node is feasible."""
        if not self._n_nodes:
            return NO_NODES
        start = f"0/{self._n_nodes} nodes are available:"
        if self._filtering.refusal is not None:
            return f"{start} {self._filtering.refusal.message}."
        listed = sorted(f"{count} {text}" for text, count in self.reasons.items())
        return f"{start} {', '.join(listed)}." if listed else start

    @property
    def unresolvable(self) -> Mask:
        """`(n_nodes,) bool`: nodes where no removal of pods would help, by the first filter that rejects each."""
        if self._filtering.refusal is not None:
            return np.full(self._n_nodes, not self._filtering.refusal.resolvable)
        left = self._considered()
        unresolvable = ~left
        for row, found in self._filtering.reasons_with_nominated.items():
            unresolvable[row] = not resolvable(found)
        for slot in self._slots():
            if not left.any():
                break
            if not slot.skipped:
                final = sum(1 << index for index, reason in enumerate(slot.reasons) if not reason.resolvable)
                unresolvable |= left & ((slot.bits & slot.bits.dtype.type(final)) != 0)
                left &= slot.bits == 0
        return unresolvable

    def at(self, row: int) -> tuple[NodeRejection, ...]:
        """All rejections of the node of a row, in the order of filters; empty if it is feasible."""
        refusal = self._filtering.refusal
        if refusal is not None:
            return (NodeRejection(plugin=refusal.plugin, reasons=refusal.reasons),)
        if self._filtering.feasible.item(row):
            return ()
        found = []
        chosen = self._filtering.node_set
        if chosen is not None and not chosen.mask[row]:
            found.append(NodeRejection(plugin=" ".join(chosen.plugins), reasons=(chosen.reason,)))
        if row in self._filtering.reasons_with_nominated:
            found.append(NodeRejection(plugin=NOMINATED, reasons=self._filtering.reasons_with_nominated[row]))
        found += [NodeRejection(plugin=slot.plugin.name, reasons=reasons) for slot in self._slots() if (reasons := slot.reasons_at(row))]
        return tuple(found)

    def rejected_by(self, plugin: str) -> Mask:
        """`(n_nodes,) bool`: the nodes that a filter rejects by itself."""
        for slot in self._slots():
            if slot.plugin.name == plugin and not slot.skipped:
                return np.asarray(slot.bits != 0)
        return np.zeros(self._n_nodes, np.bool_)

    @property
    def passing_alone(self) -> Mask:
        """`(n_nodes,) bool`: the nodes that pass all filters which look at one node alone; all of them if a PreFilter refused the pod."""
        passing = self._considered()
        for slot in self._slots():
            if not slot.skipped and slot.volatility < Volatility.GLOBAL:
                passing &= np.asarray(slot.bits == 0)
        return passing

    def may_pass_once_pods_leave(self, rows: NDArray[np.intp], *, preempts: bool) -> bool:
        """True if a node that rejects the pod now may accept it once pods have left the nodes of these rows.

        It may be one of these nodes, unless it rejects the pod by its object alone. It may be any node that only the pods of other nodes
        make infeasible. `preempts`: the pod may evict others, so the pods on a node itself do not count either.
        """
        filtering = self._filtering
        if filtering.refusal is not None:
            return filtering.refusal.resolvable
        if filtering.reasons_with_nominated:
            return True
        by_object = filtering.by_object & self._considered()
        if by_object[rows].any():
            return True
        if preempts:
            return bool(by_object.any()) and any(slot.volatility is Volatility.GLOBAL and not slot.skipped for slot in self._slots())
        return bool(self.passing_alone.any())

    def _slots(self) -> Sequence[FilterSlot]:
        return () if self._filtering.refusal is not None else self._filtering.slots

    def _considered(self) -> Mask:
        """The nodes that remain for the filters, `(n_nodes,) bool`: chosen by PreFilter, and not crowded by nominated pods."""
        chosen = self._filtering.node_set
        considered = np.ones(self._n_nodes, np.bool_) if chosen is None else chosen.mask.copy()
        considered[list(self._filtering.reasons_with_nominated)] = False
        return considered


_CLAIMS = r"(?:no new claims to deallocate|still not schedulable|(?:deallocation|deletion) of ResourceClaim completed|not found)"
_POST_FILTER = rf"(?: (?:{_CLAIMS}, )?[a-z]+: .*| {_CLAIMS})"
_MESSAGE = re.compile(rf"0/\d+ nodes are available: (?P<reasons>.*?)\.{_POST_FILTER}?", re.DOTALL)
_COUNTED = re.compile(r"(?P<count>\d+) (?P<text>.*)", re.DOTALL)


@lru_cache(1024)
def reasons_of(message: str) -> tuple[str, ...]:
    """The reasons in a message of `Diagnosis`, those of most nodes first; a message of another kind is one reason."""
    found = _MESSAGE.fullmatch(message)
    if found is None:
        return (message,) if message else ()
    counted = [_COUNTED.fullmatch(part) for part in re.split(r", (?=\d+ )", found["reasons"])]
    if None in counted:
        return (found["reasons"],)
    return tuple(part["text"] for part in sorted(filter(None, counted), key=lambda part: (-int(part["count"]), part["text"])))


def _counts(slot: FilterSlot, among: Mask) -> dict[str, int]:
    """The number of nodes of `among` under each reason; equal texts are counted together."""
    if slot.skipped or not among.any():
        return {}
    bits: NDArray[Any] = slot.bits[among]
    counts: Counter[str] = Counter()
    for index, reason in enumerate(slot.reasons):
        count = int(np.count_nonzero(bits & bits.dtype.type(1 << index)))
        if count:
            counts[reason.text] += count
    return counts
