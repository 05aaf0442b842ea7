"""The scheduling cycle: a chain, a snapshot and a pod in, a decision out.

`decide` is the definition: everything is evaluated over all nodes. `Decider` gives the same answers faster by keeping the evaluation of
each pod template it has seen lately and bringing it up to date; a property test compares the two.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.best_rows import Arrangements
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.framework.evaluation.kept_result import Evaluation
from wharfinger.framework.evaluation.question import Question
from wharfinger.framework.evaluation.stopwatch import Stopwatch
from wharfinger.framework.evaluation.supposition import Trial
from wharfinger.framework.extension import PostFilterOutcome, Rejection

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

MOST_CELLS = 50_000_000
"""How many node × rule results a `Decider` keeps, by default: about a gigabyte at the very most, a hundred templates at 50,000 nodes."""
MOST_TEMPLATES = 1_000
"""How many templates it keeps the results of: some 20 kB each, besides what the cells take."""
IDLE = 300.0
"""Seconds after which a template that nobody asked for is forgotten when another comes: every Job has one of its own."""


def decide(chain: Chain, snapshot: Snapshot, pod: PodView) -> Decision:
    """The decision about one pod. Pure: the same chain, snapshot and pod give the same decision, everywhere."""
    return _conclude(chain, snapshot, pod, Evaluation(chain.lineup(pod, snapshot.now)))


class Decider:
    """Decides like `decide`, and remembers.

    Bounded: what was not asked for lately is forgotten after a while, or once there are more than `MOST_TEMPLATES`, or of all of them more
    than `most_cells` node × rule results. A `stopwatch` is told what the decisions cost.
    """

    def __init__(self, chain: Chain, most_cells: int = MOST_CELLS, stopwatch: Stopwatch | None = None) -> None:
        self.chain = chain
        self._most_cells = most_cells
        self._stopwatch = stopwatch
        self._arrangements = Arrangements()
        self._kept: OrderedDict[Hashable, Evaluation] = OrderedDict()

    def decide(self, snapshot: Snapshot, pod: PodView) -> Decision:
        """The decision about one pod; equal to `decide(chain, snapshot, pod)`. Its details are readable until the next decision."""
        return _conclude(self.chain, snapshot, pod, self._evaluation(snapshot, pod))

    @property
    def n_remembered(self) -> int:
        """How many templates it has results of."""
        return len(self._kept)

    def _evaluation(self, snapshot: Snapshot, pod: PodView) -> Evaluation:
        key = self.chain.key(pod, snapshot.now)
        if snapshot.placed(pod.uid) is not None:  # a policy's selections leave this very pod out: no other pod's answer is the same
            key = (key, pod.uid)
        evaluation = self._kept.get(key)
        if evaluation is None:
            evaluation = Evaluation(self.chain.lineup(pod, snapshot.now), self._stopwatch, self._arrangements)
            self._kept[key] = evaluation
            self._forget(snapshot.now - IDLE, snapshot.n_nodes * self.chain.n_rules)
        else:
            self._kept.move_to_end(key)
        return evaluation

    def _forget(self, idle_since: float, cells: int) -> None:
        """Make room for the latest of those kept, which was not asked yet and has `cells` results like each of them."""
        most = min(MOST_TEMPLATES, max(1, self._most_cells // max(1, cells)))
        while len(self._kept) > 1 and (len(self._kept) > most or next(iter(self._kept.values())).asked_at < idle_since):
            self._kept.popitem(last=False)


def _conclude(chain: Chain, snapshot: Snapshot, pod: PodView, evaluation: Evaluation) -> Decision:
    evaluation.update(pod, snapshot)
    choice = evaluation.choose(pod, snapshot)
    outcome = PostFilterOutcome()
    message = ""
    if choice is None:
        outcome, message = _post_filter(chain, snapshot, pod, evaluation)
    evaluation.concluded(choice)
    return Decision(
        pod=pod,
        node=None if choice is None else snapshot.names[choice.row],
        row=None if choice is None else choice.row,
        n_nodes=snapshot.n_nodes,
        feasible=evaluation.filtering.count,
        ties=0 if choice is None else choice.ties,
        message=message,
        chain=chain,
        snapshot_revision=snapshot.revision,
        nominated=outcome.nominated,
        victims=outcome.victims,
        evaluation=evaluation,
        version=evaluation.version,
        snapshot=snapshot,
    )


def _post_filter(chain: Chain, snapshot: Snapshot, pod: PodView, evaluation: Evaluation) -> tuple[PostFilterOutcome, str]:
    """What the PostFilter plugins make of a pod that fits nowhere, and the message that tells it all."""
    diagnosis = Diagnosis(evaluation.filtering, snapshot.n_nodes)
    outcome = PostFilterOutcome()
    refusal = evaluation.filtering.refusal
    trial = Trial(evaluation.filtering.slots, Question(evaluation.cycle, pod, snapshot), () if refusal is None else refusal.reasons)
    messages = []
    allowed = evaluation.evictable(pod, snapshot)
    for plugin in chain.post_filters if snapshot.n_nodes else ():
        rejection = Rejection(
            rejected=np.ones(snapshot.n_nodes, np.bool_), unresolvable=diagnosis.unresolvable, trial=trial, evictable=allowed
        )
        outcome = plugin.post_filter(evaluation.cycle, pod, snapshot, rejection)
        messages += [outcome.message] if outcome.message else []
        if outcome.nominated is not None:
            break
    return outcome, " ".join([evaluation.rejection_message(snapshot), *([", ".join(messages)] if messages else [])])
