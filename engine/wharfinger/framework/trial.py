"""The filters asked about one node under a supposition, as preemption and nominated pods need it.

As `RunFilterPluginsWithNominatedPods` (pkg/scheduler/framework/runtime/framework.go, Kubernetes 1.36): filters run in order until one
rejects; where room is being made for other pods of equal or higher priority, they run first with those on the node, then without, and
both must pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.filter_slot import FilterSlot
from wharfinger.framework.question import Question
from wharfinger.framework.supposition import Supposition
from wharfinger.framework.verdict import Reason, Rejected
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView


class Answered(Protocol):
    """A filter with what it has said of every node."""

    plugin: FilterPlugin
    skipped: bool
    reasons: tuple[Reason, ...]
    bits: NDArray[Any]


class Trial:
    """Asks the filters that have answered a question about one node with other pods on it.

    `refused` are the reasons of a PreFilter that has refused the pod as a whole; then the filters have said nothing, and it stays at that.
    """

    def __init__(self, slots: Sequence[Answered], asked: Question, refused: tuple[Reason, ...] = ()) -> None:
        self._asked = asked
        self._refused = refused
        self._slots = tuple((slot, type(slot.plugin).filter_if is not FilterPlugin.filter_if) for slot in slots if not slot.skipped)

    def confirmed(self, row: int, victims: Sequence[PodView]) -> tuple[Reason, ...]:
        """The reasons of filters that cannot suppose anything against the node without its victims; empty if all let it pass.

        Such a filter is asked about a cluster of that node alone, if its answer depends on the node and its pods and on nothing else.
        Otherwise it is taken to say what it has said.
        """
        asking = [slot.plugin for slot, supposes in self._slots if not supposes and slot.plugin.filter_volatility is Volatility.ROW]
        if not asking:
            return ()
        supposed = self.suppose(row)
        for victim in victims:
            supposed.remove(victim)
        asked = Question(CycleState(), self._asked.pod, supposed.alone())
        for plugin in asking:
            slot = FilterSlot(plugin)
            slot.prepare(asked)
            if isinstance(slot.answer, Rejected):
                return slot.answer.reasons
            if not slot.skipped:
                slot.evaluate(asked)
                if found := _said(slot, 0):
                    return found
        return ()

    @property
    def spans_nodes(self) -> bool:
        """Whether what filters say of a node depends on more than that node and its pods."""
        return any(slot.plugin.filter_volatility >= Volatility.TIMED for slot, _ in self._slots)

    def suppose(self, row: int) -> Supposition:
        """A supposition about a node that supposes nothing yet."""
        return Supposition(self._asked.snapshot, row)

    def reasons(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons of the first filter that rejects the supposed node; empty if all let it pass."""
        if self._refused:
            return self._refused
        asked = self._asked
        for slot, supposes in self._slots:
            found = slot.plugin.filter_if(asked.cycle, asked.pod, supposed) if supposes else None
            if found is None:
                found = _said(slot, supposed.row)
            if found:
                return found
        return ()

    def nominees(self, row: int) -> list[PodView]:
        """The pods of equal or higher priority for which room is being made on a node, without the pod itself."""
        pod = self._asked.pod
        return [other for other in self._asked.snapshot.nominated(row) if other.priority >= pod.priority and other.uid != pod.uid]

    def reasons_with_nominees(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons against the supposed node, with the nominees on it or without; empty if it passes either way."""
        return self.crowded(supposed) or self.reasons(supposed)

    def crowded(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons against the supposed node with the nominees on it; empty if there are none."""
        nominees = self.nominees(supposed.row)
        if not nominees:
            return ()
        for nominee in nominees:
            supposed.add(nominee)
        found = self.reasons(supposed)
        for nominee in nominees:
            supposed.withdraw(nominee)
        return found


def _said(slot: Answered, row: int) -> tuple[Reason, ...]:
    bits = int(slot.bits[row])
    return tuple(reason for index, reason in enumerate(slot.reasons) if bits >> index & 1) if bits else ()
