"""A dry run: where each of some pods would go, why not, and what that does to the use of the cluster.

`SEQUENTIAL` assumes each placement before the next pod is decided, as the live scheduler does; where preemption makes room, its victims
leave at once and the pod is decided again. `INDEPENDENT` asks for each pod alone, as if no other were waiting. Either way every answer
comes from the same `decide`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from msgspec.structs import replace

from wharfinger.explain.conditions import PolicyCommentary
from wharfinger.explain.explanation import Explanation, explain_decision
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.plugins.volumes.volume_binding import SELECTED_NODE
from wharfinger.framework.verdict import Reason
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """Requests against allocatable, summed over nodes; cpu in millicores, memory in bytes."""

    resource: str
    requested: int
    allocatable: int

    @property
    def fraction(self) -> float:
        """Requested per allocatable; 0 if nothing is allocatable."""
        return self.requested / self.allocatable if self.allocatable else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """The use of every resource that some node offers, the pods placed, and the nodes that hold at least one of them."""

    nodes: int
    touched: int
    pods: int
    resources: tuple[ResourceUse, ...]

    def of(self, resource: str) -> ResourceUse:
        """The use of one resource; 0 of 0 if no node offers it."""
        for use in self.resources:
            if use.resource == resource:
                return use
        return ResourceUse(resource=resource, requested=0, allocatable=0)


FIRST = ("cpu", "memory", "ephemeral-storage")


def utilisation(snapshot: Snapshot) -> Utilisation:
    """The use of every resource that some node offers, in the order cpu, memory, ephemeral-storage, then by name."""
    ordered = sorted(snapshot.resource_names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return Utilisation(
        nodes=snapshot.n_nodes,
        touched=int((snapshot.pod_count > 0).sum()),
        pods=int(snapshot.pod_count.sum()),
        resources=tuple(use for name in ordered if (use := _use(snapshot, name)).allocatable),
    )


def _use(snapshot: Snapshot, name: str) -> ResourceUse:
    row = snapshot.resource_index(name)
    if row is None:
        return ResourceUse(resource=name, requested=0, allocatable=0)
    return ResourceUse(resource=name, requested=sum(snapshot.requested[row].tolist()), allocatable=sum(snapshot.allocatable[row].tolist()))


Seen = TypeVar("Seen")


class Mode(Enum):
    """SEQUENTIAL: a placement counts for the pods after it. INDEPENDENT: each pod is decided about alone."""

    SEQUENTIAL = "sequential"
    INDEPENDENT = "independent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Seen]):
    """The decision about one pod, the pods that were evicted for it, and what `watch` returned while the snapshot was current."""

    decision: Decision
    evicted: tuple[PodView, ...]
    seen: Seen


def queue_order(chain: Chain, pods: Iterable[PodView]) -> list[PodView]:
    """The pods in the order of the scheduling queue: as the chain sorts it (priority), then creation time (unknown last), then key."""
    return sorted(pods, key=lambda pod: (chain.sort_key(pod), pod.created is None, pod.created or 0.0, pod.key))


def by_age(_chain: Chain, pods: Iterable[PodView]) -> list[PodView]:
    """The pods in the order in which a cluster is filled over time: by creation time (unknown last), then key."""
    return sorted(pods, key=lambda pod: (pod.created is None, pod.created or 0.0, pod.key))


Order = Callable[[Chain, Iterable[PodView]], list[PodView]]
"""Returns pods in the order in which they are tried."""
Tried = Callable[[Decision, Snapshot], None]
"""Is told each decision while its snapshot is current, before anybody is evicted for the pod."""


def ignore(_decision: Decision, _snapshot: Snapshot) -> None:
    """Ignores a decision."""


def place_pods(
    chain: Chain,
    state: ClusterState,
    pods: Iterable[PodView],
    *,
    watch: Callable[[Decision, Snapshot, tuple[PodView, ...]], Seen],
    mode: Mode = Mode.SEQUENTIAL,
) -> Iterator[Outcome[Seen]]:
    """Outcomes in queue order, one at a time. In SEQUENTIAL mode `state` is changed: it assumes every placement.

    A decision reads its snapshot lazily, and a snapshot ends with the next change of the state, so everything that is needed of it has to
    be read in `watch` (decision, snapshot, evicted pods).
    """
    decider = Decider(chain)
    for pod in queue_order(chain, pods):
        yield place_pod(decider, state, pod, watch=watch, mode=mode)


def place_pod(  # noqa: PLR0913 — the keywords are independent choices
    decider: Decider,
    state: ClusterState,
    pod: PodView,
    *,
    watch: Callable[[Decision, Snapshot, tuple[PodView, ...]], Seen],
    mode: Mode = Mode.SEQUENTIAL,
    tried: Tried = ignore,
    now: float | None = None,
) -> Outcome[Seen]:
    """The outcome for one pod at the time `now` (by default the state's).

    In SEQUENTIAL mode victims of preemption leave `state`, and the pod is assumed on its node.
    """
    decision = decider.decide(state.snapshot(now), pod)
    tried(decision, state.snapshot(now))
    evicted: tuple[PodView, ...] = ()
    if decision.nominated is not None and mode is Mode.SEQUENTIAL:
        evicted = decision.victims
        for victim in evicted:
            state.remove_pod(victim)
        decision = decider.decide(state.snapshot(now), pod)
    outcome = Outcome(decision=decision, evicted=evicted, seen=watch(decision, state.snapshot(now), evicted))
    if decision.node is not None and mode is Mode.SEQUENTIAL:
        bind_claims(state, pod, decision.node)
        state.assume(pod, decision.node)
    return outcome


def bind_claims(state: ClusterState, pod: PodView, node: str) -> None:
    """Bind the claims of a pod that waited for its node to the volumes that they would get there, so that no other pod counts on these.

    A claim for which a volume would have to be provisioned is annotated with the node, so that pods that share it follow.
    """
    snapshot = state.snapshot()
    row = snapshot.row(node)
    waiting = [claim for claim in volume_claims.waiting_claims(pod, state.objects) if SELECTED_NODE not in claim.metadata.annotations]
    if row is None or not waiting:
        return
    for claim, volume in volume_claims.chosen_on(waiting, snapshot, row):
        if volume is None:
            metadata = replace(claim.metadata, annotations={**claim.metadata.annotations, SELECTED_NODE: node})
            state.put(replace(claim, metadata=metadata))
            continue
        own = claim.metadata
        holder = objects.ObjectReference(kind="PersistentVolumeClaim", namespace=own.namespace, name=own.name, uid=own.uid)
        state.put(replace(volume, spec=replace(volume.spec, claim_ref=holder), status=replace(volume.status, phase="Bound")))
        state.put(volume_claims.bound_to(claim, volume))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResult:
    """The decision about one pod.

    `reasons` counts nodes by the reason of their rejection, only where the pod found none; `totals` are by tier. `victims` are the pods
    that preemption would evict; where they were evicted (SEQUENTIAL), the pod has a node, otherwise `nominated` is their node. `notes` say
    where policies conflict.
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
    """The number of unplaced pods with a reason, and of those with no other reason."""

    reason: str
    pods: int
    only: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """A finished dry run. `after` is None in INDEPENDENT mode, where nothing is placed."""

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
        """Sentences about conflicts of policies, each once."""
        return tuple(dict.fromkeys(note for result in self.results for note in result.notes))

    @property
    def evicted(self) -> int:
        """How many pods were evicted for others."""
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
    order: Order = queue_order,
    tried: Tried = ignore,
) -> DryRun:
    """The dry run of `pods`; in SEQUENTIAL mode `state` is left with every placement assumed.

    Gated pods are not tried. Pods for which `explained` returns True get an explanation, with a report on each of `nodes`. `advance` is
    called after every pod that was tried, `tried` with every decision before anybody is evicted for the pod.
    """
    commentary = PolicyCommentary(chain)
    before = utilisation(state.snapshot())

    def result_of(decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
        explanation = explain_decision(decision, snapshot, commentary, nodes) if explained(decision.pod) else None
        return pod_result(decision, evicted, explanation)

    results = _Attempts(chain, state, order(chain, pods), mode, result_of, tried).results(advance)
    after = utilisation(state.snapshot()) if mode is Mode.SEQUENTIAL else None
    return DryRun(mode=mode, chain=chain, results=results, before=before, after=after)


class _Attempts:
    """Pods tried in order; in SEQUENTIAL mode those that fit nowhere are tried again, as long as others were placed after them.

    The live scheduler tries such a pod again when a placement may help it: one with affinity to a pod that came later, or a spread that
    later pods have evened out. The result of a pod that is never placed is that of its first attempt.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — what is tried, and who is told
        self,
        chain: Chain,
        state: ClusterState,
        ordered: Sequence[PodView],
        mode: Mode,
        result_of: Callable[..., PodResult],
        tried: Tried,
    ) -> None:
        self._chain = chain
        self._state = state
        self._mode = mode
        self._result_of = result_of
        self._order = ordered
        self._tried = tried
        self._decider = Decider(chain)
        self._results: dict[int, PodResult] = {}

    def results(self, advance: Callable[[], None]) -> tuple[PodResult, ...]:
        """A result for every pod in order; `advance` is called after each first attempt."""
        n_nodes = self._state.snapshot().n_nodes
        gates = {place: gate for place, pod in enumerate(self._order) if (gate := self._chain.gate(pod)) is not None}
        unplaced = self._attempt([place for place in range(len(self._order)) if place not in gates], self._result_and(advance))
        while self._mode is Mode.SEQUENTIAL and unplaced and any(place not in unplaced for place in self._results if place > min(unplaced)):
            again = self._attempt(sorted(unplaced), self._result_if_placed)
            if again == unplaced:
                break
            unplaced = again
        self._results |= {place: gated_result(self._order[place], gate, n_nodes) for place, gate in gates.items()}
        return tuple(self._results[place] for place in range(len(self._order)))

    def _attempt(self, places: Sequence[int], watch: Callable[..., PodResult | None]) -> set[int]:
        """The places of the pods that found no node."""
        for place in places:
            pod = self._order[place]
            outcome = place_pod(self._decider, self._state, pod, watch=watch, mode=self._mode, tried=self._tried)
            if outcome.seen is not None:
                self._results[place] = outcome.seen
        return {place for place in places if self._results[place].node is None}

    def _result_and(self, advance: Callable[[], None]) -> Callable[..., PodResult]:
        def watch(decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
            result = self._result_of(decision, snapshot, evicted)
            advance()
            return result

        return watch

    def _result_if_placed(self, decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult | None:
        return None if decision.node is None else self._result_of(decision, snapshot, evicted)


def gated_result(pod: PodView, gate: Reason, n_nodes: int) -> PodResult:
    """The result of a gated pod."""
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


def pod_result(decision: Decision, evicted: tuple[PodView, ...], explanation: Explanation | None = None) -> PodResult:
    """The result of a decision as a plain value; to be made while the snapshot of the decision is current."""
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
