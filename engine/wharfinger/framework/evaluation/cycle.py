"""The scheduling cycle: a chain, a snapshot and a pod in, a decision out.

`decide` is the definition: it evaluates all rules on all nodes. `Decider` gives the same answers faster: it keeps the evaluation of each
recent pod template and brings it up to date. A property test compares the two.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.best_rows import Arrangements
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.framework.evaluation.filter_slot import FilterTrial
from wharfinger.framework.evaluation.kept_result import OPERATIONS_AT_ONCE, Choice, Evaluation
from wharfinger.framework.extension import CountingPlugin, PostFilterOutcome, Rejection, StepwisePostFilter
from wharfinger.framework.plugin_calls import Stopwatch
from wharfinger.framework.prepared import Attempt, Shared
from wharfinger.framework.rules.policy_rules import read_in_steps
from wharfinger.steps import Steps

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.filtering import Filtering
    from wharfinger.framework.eviction import Evictable
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

MAX_CELLS = 50_000_000
"""The default limit of node × rule results in a `Decider`: about one gigabyte at most, enough for a hundred templates at 50,000 nodes."""
CELLS_OF_A_RULE = 100
"""The memory of a kept rule apart from its results, as a number of results: about 2 kB. With few nodes it is most of the memory."""
MAX_TEMPLATES = 1_000
"""The limit of templates in a `Decider`: about 20 kB each, in addition to the node × rule results."""
IDLE_SECONDS = 300.0
"""Seconds after which an unused template is dropped when a new one comes. Every Job has its own template."""
DROPPED_AT_ONCE = 16
"""Templates that are dropped at a time; a template of 5,000 nodes takes a tenth of a millisecond."""
STEPS_AT_ONCE = 10
"""Steps of reading placed pods and computing columns that are taken together before a decision."""
CALLS_AT_ONCE = 500
"""Calls for one column up to which these steps are taken together; a call takes about 1 µs in each step."""
RULES_AT_ONCE = 200
"""Filters and scores of a pod up to which their number alone is no reason to evaluate them in steps."""
NO_OUTCOME = PostFilterOutcome()
"""The outcome if no PostFilter ran."""


class Pause(Enum):
    """What a step before a decision was a part of: computing columns or counts, or searching devices or volumes.

    After CONCLUDING, the cluster should not change before the decision: what has been done since would be done again.
    """

    COMPUTING = "computing"
    SEARCHING = "searching"
    CONCLUDING = "concluding"


def decide(chain: Chain, snapshot: Snapshot, pod: PodView) -> Decision:
    """The decision about one pod. Pure: the same chain, snapshot and pod give the same decision, everywhere."""
    evaluation = Evaluation(chain.pod_rules(pod, snapshot))
    evaluation.update(pod, snapshot)
    return _conclude(chain, snapshot, pod, evaluation)


class Decider:
    """Makes the same decisions as `decide`, and keeps the evaluations of recent templates.

    The least recently used templates are dropped once they are unused for `IDLE_SECONDS` seconds, once there are more than `MAX_TEMPLATES`,
    or once all together have more than `max_cells` node × rule results. A `stopwatch` measures the decisions.
    """

    def __init__(self, chain: Chain, max_cells: int = MAX_CELLS, stopwatch: Stopwatch | None = None) -> None:
        self.chain = chain
        self._max_cells = max_cells
        self._stopwatch = stopwatch
        self._arrangements = Arrangements()
        self._kept: OrderedDict[Hashable, Evaluation] = OrderedDict()
        self._n_rules = 0  # of all that is kept
        self._precomputed_key: tuple[PodView, Snapshot, Hashable] | None = None

    def decide(self, snapshot: Snapshot, pod: PodView) -> Decision:
        """The decision about one pod; equal to `decide(chain, snapshot, pod)`. Its details are readable until the next decision."""
        return _conclude(self.chain, snapshot, pod, self.evaluation(snapshot, pod))

    def decide_unless_long(self, snapshot: Snapshot, pod: PodView) -> Decision | None:
        """The same decision; None if the pod fits no node and PostFilter plugins look at many: take `post_filter_in_steps` first."""
        evaluation = self.evaluation(snapshot, pod)
        if not evaluation.filtering.count and self._stepwise(snapshot, pod):
            return None
        return _conclude(self.chain, snapshot, pod, evaluation)

    def precompute(self, snapshot: Callable[[], Snapshot], pod: PodView, *, evicting: bool = False) -> Generator[Pause]:
        """The work of `decide` in steps.

        There are some for a pod with claims for devices, or with volumes, and for the first pod of a template on a large cluster: counts of
        placed pods and of devices, and columns of policies. These come again if much has changed since the last pod. The first
        `STEPS_AT_ONCE` of them are taken together, unless columns are long to compute. Where policies still make the decision long, all of
        it is done in steps. With `evicting`, a pod that fits no node has steps of the search for pods to evict too.
        `snapshot` returns the present cluster. An exception here is raised again in the decision, which reports it.
        """
        with suppress(Exception):
            now = snapshot()
            key = self._key(now, pod)
            self._precomputed_key = pod, now, key
            kept = self._kept.get(key)
            costly = self._has_costly_rules(now, pod, kept)
            if pod.demand.may_claim or pod.object.spec.volumes:
                for plugin in self.chain.precomputing:
                    for _ in plugin.precompute(pod, snapshot, kept=kept is not None):
                        yield Pause.SEARCHING
                now = snapshot()
            if kept is None or not kept.follows(now) or kept.is_far_behind(now):
                is_long = self.chain.pod_rules(pod, now).longest_column > CALLS_AT_ONCE
                for number, _ in enumerate(_read_in_steps(self.chain, pod, snapshot)):
                    if is_long or number >= STEPS_AT_ONCE:
                        yield Pause.COMPUTING
            if costly:
                yield from self._evaluate_in_steps(snapshot, pod)
            if evicting:
                yield from self.post_filter_in_steps(snapshot, pod)

    def _evaluate_in_steps(self, snapshot: Callable[[], Snapshot], pod: PodView) -> Generator[Pause]:
        """The steps of an evaluation by costly rules."""
        evaluation = self._evaluation(snapshot(), pod)
        computing = Steps(evaluation.compute_in_steps(pod, snapshot))
        for _ in computing:
            yield Pause.COMPUTING
        if evaluation.is_long(pod, snapshot(), precomputed=computing.result):
            yield Pause.CONCLUDING
            for _ in evaluation.conclude_in_steps(pod, snapshot, precomputed=computing.result):
                yield Pause.CONCLUDING

    def _has_costly_rules(self, snapshot: Snapshot, pod: PodView, kept: Evaluation | None) -> bool:
        """True if policies compute so much for each node, or have so many rules, that it is not done at once."""
        pod_rules = self.chain.pod_rules(pod, snapshot) if kept is None else kept.pod_rules
        return pod_rules.operations * snapshot.n_nodes > OPERATIONS_AT_ONCE or pod_rules.n_rules > RULES_AT_ONCE

    def takes_long(self, snapshot: Snapshot, pod: PodView) -> bool:
        """True if policies make a decision now longer than one step may be, because the cluster has changed since `precompute`."""
        evaluation = self._evaluation(snapshot, pod)
        return bool(evaluation.pod_rules.governing) and evaluation.is_long(pod, snapshot, precomputed=True)

    def post_filter_in_steps(self, snapshot: Callable[[], Snapshot], pod: PodView) -> Generator[Pause]:
        """The steps of PostFilter plugins that look at many nodes, if the pod fits none.

        An exception here is raised again in the decision, which reports it.
        """
        former: Shared | None = None
        with suppress(Exception):
            while plugins := self._stepwise(now := snapshot(), pod):
                evaluation = self._evaluation(now, pod)
                evaluation.update_filters(pod, now)
                if evaluation.filtering.count:
                    return
                if former is not None and former is not evaluation.shared:  # a node came or went
                    for plugin in plugins:
                        evaluation.shared.take_over(plugin, former)
                former = evaluation.shared
                attempt = Attempt(pod, now, evaluation.shared)
                rejection = _rejection(attempt, evaluation)
                if not any(plugin.post_filter_step(attempt, rejection) for plugin in plugins):
                    return
                yield Pause.COMPUTING

    def _stepwise(self, snapshot: Snapshot, pod: PodView) -> list[StepwisePostFilter]:
        """The PostFilter plugins that work in steps; none if no one of them looks at many nodes for this pod."""
        plugins = [plugin for plugin in self.chain.post_filters if isinstance(plugin, StepwisePostFilter)]
        return plugins if any(plugin.may_take_steps(pod, snapshot) for plugin in plugins) else []

    def choose(self, snapshot: Snapshot, pod: PodView, rows: NDArray[np.intp] | None = None) -> Choice | None:
        """The best node for a pod among some rows (None: all), or None; the same as `decide` if all other nodes were infeasible.

        Filters count the pods of all nodes; scores are compared with those of the other rows given. No PostFilter runs.
        """
        return self.evaluated_choice(snapshot, pod, rows)[1]

    def evaluated_choice(self, snapshot: Snapshot, pod: PodView, rows: NDArray[np.intp] | None = None) -> tuple[Evaluation, Choice | None]:
        """The same node as `choose`, with the evaluation that it was chosen by; readable until the next decision."""
        evaluation = self.evaluation(snapshot, pod)
        choice = evaluation.choose(pod, snapshot) if rows is None else evaluation.choose_among(pod, snapshot, rows)
        evaluation.concluded(choice)
        return evaluation, choice

    def evaluation(self, snapshot: Snapshot, pod: PodView) -> Evaluation:
        """The filters' and scores' results for a pod, up to date; readable until the next decision."""
        evaluation = self._evaluation(snapshot, pod)
        evaluation.update(pod, snapshot)
        return evaluation

    def filtering(self, snapshot: Snapshot, pod: PodView) -> Filtering:
        """The filters' results alone for a pod, up to date; readable until the next question about a pod of its template."""
        evaluation = self._evaluation(snapshot, pod)
        evaluation.update_filters(pod, snapshot)
        return evaluation.filtering

    def measured(self, allowed: Evictable) -> Evictable:
        """The pods that may be evicted, computed outside of a decision. Each call begins a new measurement."""
        if self._stopwatch is None or not allowed.rules:
            return allowed
        return self._stopwatch.begin(whole=False, policies=allowed.policies).of_victims(allowed)

    def _evaluation(self, snapshot: Snapshot, pod: PodView) -> Evaluation:
        key = self._key(snapshot, pod)
        evaluation = self._kept.get(key)
        if evaluation is None:
            evaluation = Evaluation(self.chain.pod_rules(pod, snapshot), self._stopwatch, self._arrangements)
            self._kept[key] = evaluation
            self._n_rules += evaluation.pod_rules.n_rules
            self._forget(snapshot.now - IDLE_SECONDS, snapshot.n_nodes)
        else:
            self._kept.move_to_end(key)
        return evaluation

    def _key(self, snapshot: Snapshot, pod: PodView) -> Hashable:
        before, self._precomputed_key = self._precomputed_key, None
        if before is not None and before[0] is pod and snapshot.is_same(before[1]):
            return before[2]
        key = self.chain.key(pod, snapshot)
        if snapshot.placed(pod.uid) is not None:  # selections of policies leave the pod itself out, so its answer cannot be shared
            return key, pod.uid
        return key

    def _forget(self, idle_since: float, n_nodes: int) -> None:
        """Drop the oldest templates, to limit memory: each has a result of each of its rules for each node.

        Of those that are only idle, a few are dropped for each new template.
        """
        idle = DROPPED_AT_ONCE
        while len(self._kept) > 1 and (
            len(self._kept) > MAX_TEMPLATES
            or self._n_rules * (n_nodes + CELLS_OF_A_RULE) > self._max_cells
            or (idle and next(iter(self._kept.values())).asked_at < idle_since)
        ):
            idle = max(0, idle - 1)
            self._drop_oldest()

    def release(self) -> bool:
        """Drop some templates of a decider that is not used any more; True if there are more. All at once would take long."""
        for _ in range(min(DROPPED_AT_ONCE, len(self._kept))):
            self._drop_oldest()
        return bool(self._kept)

    def _drop_oldest(self) -> None:
        _, dropped = self._kept.popitem(last=False)
        self._n_rules -= dropped.pod_rules.n_rules


def _read_in_steps(chain: Chain, pod: PodView, snapshot: Callable[[], Snapshot]) -> Generator[None]:
    """The steps of reading what the first decision about a pod reads of the placed pods, and of computing columns of policies."""
    pod_rules = chain.pod_rules(pod, snapshot())
    for plugin in dict.fromkeys([*pod_rules.filters, *(term.plugin for term in pod_rules.scores), *chain.post_filters]):
        if isinstance(plugin, CountingPlugin):
            for reader in plugin.counting(pod, snapshot):
                yield from reader.read_in_steps()
    yield from read_in_steps(pod_rules.governing, pod, snapshot)


def _conclude(chain: Chain, snapshot: Snapshot, pod: PodView, evaluation: Evaluation) -> Decision:
    """The decision by an evaluation that is up to date."""
    attempt = Attempt(pod, snapshot, evaluation.shared) if evaluation.filtering.allocating else None  # most pods claim no device
    aborted = {} if attempt is None else evaluation.filtering.faults(attempt)
    choice = None if aborted else evaluation.choose(pod, snapshot)
    outcome = NO_OUTCOME
    message = ""
    if aborted:
        message = next(iter(aborted.values()))
    elif choice is None:
        outcome, message = _post_filter(chain, snapshot, pod, evaluation)
    evaluation.concluded(choice)
    return Decision(
        pod=pod,
        node=None if choice is None else snapshot.names[choice.row],
        row=None if choice is None else choice.row,
        n_nodes=snapshot.n_nodes,
        feasible=0 if aborted else evaluation.filtering.count,
        ties=0 if choice is None else choice.ties,
        message=message,
        chain=chain,
        snapshot_revision=snapshot.revision,
        nominated=outcome.nominated,
        victims=outcome.victims,
        while_changing=outcome.while_changing,
        claims=() if attempt is None or choice is None else evaluation.filtering.allocations(attempt, choice.row),
        aborted=aborted,
        deallocate=outcome.deallocate,
        delete=outcome.delete,
        evaluation=evaluation,
        version=evaluation.version,
        snapshot=snapshot,
    )


def _post_filter(chain: Chain, snapshot: Snapshot, pod: PodView, evaluation: Evaluation) -> tuple[PostFilterOutcome, str]:
    """Run the PostFilter plugins for a pod that fits no node. Returns their outcome and the complete message."""
    freed = NO_OUTCOME
    outcome = NO_OUTCOME
    attempt = Attempt(pod, snapshot, evaluation.shared)
    messages, while_changing = [], False
    rejection = _rejection(attempt, evaluation)
    for plugin in chain.post_filters if snapshot.n_nodes else ():
        outcome = plugin.post_filter(attempt, rejection)
        if outcome.failed:
            messages = [outcome.message]
            break
        messages += [outcome.message] if outcome.message else []
        while_changing |= outcome.while_changing
        freed = replace(freed, deallocate=freed.deallocate or outcome.deallocate, delete=freed.delete or outcome.delete)
        if outcome.nominated is not None:
            messages = []
            break
    return replace(outcome, deallocate=freed.deallocate, delete=freed.delete, while_changing=while_changing), " ".join(
        [evaluation.rejection_message(snapshot), *([", ".join(messages)] if messages else [])]
    )


def _rejection(attempt: Attempt, evaluation: Evaluation) -> Rejection:
    """The input of PostFilter plugins for a pod that fits no node."""
    refusal = evaluation.filtering.refusal
    snapshot = attempt.snapshot
    return Rejection(
        rejected=np.ones(snapshot.n_nodes, np.bool_),
        unresolvable=Diagnosis(evaluation.filtering, snapshot.n_nodes).unresolvable,
        trial=FilterTrial(evaluation.filtering.slots, attempt, () if refusal is None else refusal.reasons),
        reached=evaluation.filtering.reached,
        evictable=evaluation.evictable(attempt.pod, snapshot),
    )
