"""A dry run: where each of some pods would go, why not, and what that does to the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wharfinger.framework.chain import Chain
from wharfinger.framework.decision import Decision
from wharfinger.framework.verdict import Reason
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot
from wharfinger.runtime import simulator
from wharfinger.runtime.commentary import PolicyCommentary
from wharfinger.runtime.explain import explain_decision
from wharfinger.runtime.explanation import Explanation
from wharfinger.runtime.simulator import Mode
from wharfinger.runtime.utilisation import Utilisation, utilisation


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResult:
    """What was decided for one pod.

    `reasons` counts nodes by why they were rejected, only where the pod found none; `totals` are by tier. `victims` are the pods that
    preemption would evict; where they were (SEQUENTIAL), the pod has a node, otherwise `nominated` is the node they would leave. `notes`
    say where policies got in each other's way.
    """

    pod: str
    node: str | None
    message: str
    totals: tuple[float, ...]
    feasible: int
    reasons: tuple[tuple[str, int], ...]
    nominated: str | None
    victims: tuple[str, ...]
    notes: tuple[str, ...]
    explanation: Explanation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    """For how many unplaced pods a reason was given, and for how many it was the only one."""

    reason: str
    pods: int
    only: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """A finished dry run. `after` is None in INDEPENDENT mode, where nothing is placed for good."""

    mode: Mode
    chain: Chain
    results: tuple[PodResult, ...]
    before: Utilisation
    after: Utilisation | None

    @property
    def placed(self) -> int:
        """How many pods found a node."""
        return sum(result.node is not None for result in self.results)

    @property
    def unplaced(self) -> int:
        """How many did not."""
        return len(self.results) - self.placed

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about policies that got in each other's way, each once."""
        return tuple(dict.fromkeys(note for result in self.results for note in result.notes))

    @property
    def evicted(self) -> int:
        """How many pods had to leave for others."""
        return sum(len(result.victims) for result in self.results) if self.mode is Mode.SEQUENTIAL else 0

    @property
    def reasons(self) -> tuple[ReasonCount, ...]:
        """Why pods were not placed, most frequent first."""
        pods: Counter[str] = Counter()
        only: Counter[str] = Counter()
        for result in self.results:
            if result.node is None:
                pods.update(reason for reason, _ in result.reasons)
                only.update([result.reasons[0][0]] if len(result.reasons) == 1 else [])
        ordered = sorted(pods, key=lambda reason: (-pods[reason], reason))
        return tuple(ReasonCount(reason=reason, pods=pods[reason], only=only[reason]) for reason in ordered)


def dry_run(  # noqa: PLR0913 — the keywords are independent choices
    chain: Chain,
    state: ClusterState,
    pods: Sequence[PodView],
    *,
    mode: Mode = Mode.SEQUENTIAL,
    explained: Callable[[PodView], bool] = lambda _pod: False,
    nodes: Sequence[str] = (),
    advance: Callable[[], None] = lambda: None,
) -> DryRun:
    """The dry run of `pods`; in SEQUENTIAL mode `state` is left with every placement assumed.

    Pods that wait at a gate are not tried. Those that `explained` says yes to get an explanation, with a report on each of `nodes`.
    `advance` is called after every pod that was tried.
    """
    commentary = PolicyCommentary(chain)
    before = utilisation(state.snapshot())

    def told(decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
        explanation = explain_decision(decision, snapshot, commentary, nodes) if explained(decision.pod) else None
        return _result(decision, evicted, explanation)

    results = _Attempts(chain, state, pods, mode, told).results(advance)
    after = utilisation(state.snapshot()) if mode is Mode.SEQUENTIAL else None
    return DryRun(mode=mode, chain=chain, results=results, before=before, after=after)


class _Attempts:
    """Pods tried in queue order; in SEQUENTIAL mode those that fit nowhere again, for as long as others were placed after them.

    The live scheduler tries such a pod again when a placement may help it: one that wants to be beside a pod that came later, or a spread
    that later pods have evened out. What is told of a pod that is never placed is what was said when its turn came.
    """

    def __init__(self, chain: Chain, state: ClusterState, pods: Sequence[PodView], mode: Mode, told: Callable[..., PodResult]) -> None:
        self._chain = chain
        self._state = state
        self._mode = mode
        self._told = told
        self._order = simulator.queue_order(chain, pods)
        self._results: dict[int, PodResult] = {}

    def results(self, advance: Callable[[], None]) -> tuple[PodResult, ...]:
        """A result for every pod in queue order; `advance` is called after each that was tried for the first time."""
        n_nodes = self._state.snapshot().n_nodes
        gates = {place: gate for place, pod in enumerate(self._order) if (gate := self._chain.gate(pod)) is not None}
        left = self._attempt([place for place in range(len(self._order)) if place not in gates], self._told_and(advance))
        while self._mode is Mode.SEQUENTIAL and left and any(place not in left for place in self._results if place > min(left)):
            again = self._attempt(sorted(left), self._told_if_placed)
            if again == left:
                break
            left = again
        self._results |= {place: _gated(self._order[place], gate, n_nodes) for place, gate in gates.items()}
        return tuple(self._results[place] for place in range(len(self._order)))

    def _attempt(self, places: Sequence[int], watch: Callable[..., PodResult | None]) -> set[int]:
        """The places in the queue of the pods that found no node."""
        pods = [self._order[place] for place in places]
        for place, outcome in zip(places, simulator.place(self._chain, self._state, pods, watch=watch, mode=self._mode), strict=True):
            if outcome.seen is not None:
                self._results[place] = outcome.seen
        return {place for place in places if self._results[place].node is None}

    def _told_and(self, advance: Callable[[], None]) -> Callable[..., PodResult]:
        def watch(decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
            result = self._told(decision, snapshot, evicted)
            advance()
            return result

        return watch

    def _told_if_placed(self, decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult | None:
        return None if decision.node is None else self._told(decision, snapshot, evicted)


def _gated(pod: PodView, gate: Reason, n_nodes: int) -> PodResult:
    """The result of a pod that is not in the queue yet."""
    return PodResult(
        pod=pod.key,
        node=None,
        message=gate.text,
        totals=(),
        feasible=0,
        reasons=((gate.text, n_nodes),),
        nominated=None,
        victims=(),
        notes=(),
        explanation=None,
    )


def _result(decision: Decision, evicted: tuple[PodView, ...], explanation: Explanation | None) -> PodResult:
    reasons = decision.diagnosis.reasons if decision.node is None else {}
    return PodResult(
        pod=decision.pod.key,
        node=decision.node,
        message=decision.message,
        totals=decision.totals,
        feasible=decision.feasible,
        reasons=tuple(sorted(reasons.items())),
        nominated=decision.nominated,
        victims=tuple(victim.key for victim in evicted or decision.victims),
        notes=decision.notes,
        explanation=explanation,
    )
