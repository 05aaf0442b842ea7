"""What the live scheduler does, on its way to the decision log: every change of the state and every decision, by reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.model.checkpoint import checkpoint_of
from wharfinger.runtime.decision_log.lines import Asked, Told
from wharfinger.runtime.decision_log.recorded_state import RecordedState

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.decision import Decision
    from wharfinger.runtime.decision_log.writer import Entry, LogWriter


class DecisionRecorder:
    """Records one scheduler, whose state is to be `state`; `decided` is to be shown its decisions before anything else happens.

    What happens before the first decision is not recorded change by change: it is all in the checkpoint that is written then.
    """

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._chains: dict[str, Chain] = {}
        self._begun = False
        self.state = RecordedState(self._changed)

    def decided(self, profile: str, decision: Decision) -> None:
        """None; records a decision that was just made on the state as it is."""
        if self._writer.wants_checkpoint and not self.begin():
            return
        if self._chains.get(profile) is not decision.chain:
            self._chains[profile] = decision.chain
            self._writer.put(("chain", profile, decision.chain))
        self._writer.put(("decision", decision.pod, asked_of(profile, decision), told_of(decision)))

    def _changed(self, entry: Entry) -> None:
        if not self._begun:
            return
        if not self._writer.wants_checkpoint:
            self._writer.put(entry)
        else:
            self.begin()  # with the change already in it

    def begin(self) -> bool:
        """Whether a new file could be begun, with the state as it is now."""
        self._begun = True
        if not self._writer.has_room:
            self._writer.n_lost += 1
            return False
        self._chains.clear()
        self._writer.put(("checkpoint", checkpoint_of(self.state)))
        return True


def asked_of(profile: str, decision: Decision) -> Asked:
    """What was asked."""
    return Asked(profile=profile, now=decision.snapshot.now, revision=decision.snapshot_revision)


def told_of(decision: Decision) -> Told:
    """What came of it, as far as it has to come out again."""
    return Told(
        node=decision.node,
        feasible=decision.feasible,
        n_nodes=decision.n_nodes,
        ties=decision.ties,
        message=decision.message,
        nominated=decision.nominated,
        victims=tuple(victim.uid for victim in decision.victims),
        totals=decision.totals,
    )
