"""Filters run on one node with pods supposed to be removed or added, for preemption and nominated pods.

The rules are those of `RunFilterPluginsWithNominatedPods` (pkg/scheduler/framework/runtime/framework.go, Kubernetes 1.36): filters run in
order until one rejects. If other pods of equal or higher priority are nominated to the node, filters run first with these pods added, then
without them, and both runs must pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.framework.evaluation.filter_slot import FilterSlot
from wharfinger.framework.eviction import Supposition
from wharfinger.framework.extension import Trial
from wharfinger.framework.prepared import Attempt, Reason, Rejected, Shared
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView


class FilterTrial(Trial):
    """The filters of some slots, run on one node with supposed pods.

    `refused` are the reasons of a PreFilter that refused the pod on every node. Then no filter has run, and `reasons` returns `refused`.
    """

    def __init__(self, slots: Sequence[FilterSlot], attempt: Attempt, refused: tuple[Reason, ...] = ()) -> None:
        self._attempt = attempt
        self._refused = refused
        self._slots = tuple(slot for slot in slots if not slot.skipped)

    def confirmed(self, row: int, victims: Sequence[PodView]) -> tuple[Reason, ...]:
        """The reasons of filters that do not answer for supposed pods against the node without its victims; empty if all let it pass.

        Such a filter runs on a cluster of that node alone, if its answer depends on the node and its pods only (ROW). Otherwise its verdict
        on the real node stays in force.
        """
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
                if found := _reasons(slot, 0):
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
                found = _reasons(slot, supposed.row)
            if found:
                return found
        return ()

    def nominees(self, row: int) -> list[PodView]:
        """The pods of equal or higher priority that are nominated to a node, without the pod itself."""
        pod = self._attempt.pod
        return [other for other in self._attempt.snapshot.nominated(row) if other.priority >= pod.priority and other.uid != pod.uid]

    def reasons_with_nominees(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons against the supposed node, with its nominated pods added or without them; empty if it passes both ways."""
        return self.crowded(supposed) or self.reasons(supposed)

    def crowded(self, supposed: Supposition) -> tuple[Reason, ...]:
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


def _reasons(slot: FilterSlot, row: int) -> tuple[Reason, ...]:
    bits = slot.bits_at(row)
    return tuple(reason for index, reason in enumerate(slot.reasons) if bits >> index & 1) if bits else ()
