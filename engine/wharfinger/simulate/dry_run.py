"""A dry run: where each of some pods would go, why not, and what that does to the use of the cluster.

`SEQUENTIAL` assumes each placement before the next pod is decided, as the live scheduler does; where preemption makes room, its victims
leave at once and the pod is decided again. `INDEPENDENT` asks for each pod alone, as if no other were waiting. Either way every answer
comes from the same `decide`.

The members of a group are tried together, in the group's turn and by the same search as the live scheduler's: as many as the group needs,
or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from msgspec.structs import replace

from wharfinger.event_loop import at_once
from wharfinger.explain.conditions import PolicyCommentary
from wharfinger.explain.explanation import Explanation, explain_decision
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.given_devices import GivenDevice
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.plugins.volumes.volume_binding import SELECTED_NODE
from wharfinger.framework.prepared import ClaimAllocation
from wharfinger.framework.verdict import Reason
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.results import GroupResult
from wharfinger.groups.turns import Key, Turn, groups_among, groups_in_steps, queue_key, turns
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate import device_claims


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
    """The pods in the order of the scheduling queue, each for itself: without regard to groups, whose members have one turn together."""
    return sorted(pods, key=lambda pod: queue_key(chain, pod))


Tried = Callable[[Decision, Snapshot], None]
"""Is told each decision while its snapshot is current, before anybody is evicted for the pod."""


def ignore(_decision: Decision, _snapshot: Snapshot) -> None:
    """Ignores a decision."""


def place_pods(
    chain: Chain,
    state: ClusterState,
    pods: Sequence[PodView],
    *,
    watch: Callable[[Decision, Snapshot, tuple[PodView, ...]], Seen],
    mode: Mode = Mode.SEQUENTIAL,
) -> Generator[None, None, list[Outcome[Seen]]]:
    """A generator of steps that returns the outcomes in queue order; those of a group together.

    In SEQUENTIAL mode `state` is changed: it assumes every placement. A decision reads its snapshot lazily, and a snapshot ends with the
    next change of the state, so everything that is needed of it has to be read in `watch` (decision, snapshot, evicted pods).
    """
    decider, index = Decider(chain), (yield from groups_in_steps(chain, state, pods))
    found: list[Outcome[Seen]] = []
    for turn in turns(chain, index, pods):
        if turn.group is None:
            found.append(place_pod(decider, state, turn.pods[0], watch=watch, mode=mode))
            yield
        else:
            outcomes, _ = yield from place_group(decider, Direct(state), index, turn, watch=watch, mode=mode)
            found += outcomes
    return found


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
    pod = device_claims.with_made_claims(state, pod)
    decision = decider.decide(state.snapshot(now), pod)
    tried(decision, state.snapshot(now))
    evicted: tuple[PodView, ...] = ()
    if decision.nominated is not None and mode is Mode.SEQUENTIAL:
        evicted = decision.victims
        for victim in evicted:
            Direct(state).leave(victim)
        decision = decider.decide(state.snapshot(now), pod)
    outcome = Outcome(decision=decision, evicted=evicted, seen=watch(decision, state.snapshot(now), evicted))
    if decision.node is not None and mode is Mode.SEQUENTIAL:
        Direct(state).place(decision.assigned, decision.node, decision.claims)
    return outcome


class World(Protocol):
    """A state on which pods are placed, and which they leave."""

    state: ClusterState

    def claimed(self, pod: PodView) -> PodView:
        """The pod with claims made of the templates that it names."""

    def place(self, pod: PodView, node: str, claims: Iterable[ClaimAllocation] = ()) -> None:
        """Count a pod on a node, with its claims bound there, and devices taken for `claims`."""

    def leave(self, pod: PodView) -> None:
        """Let a placed pod leave its node."""


@dataclass(slots=True)
class Direct:
    """A state that keeps what happens."""

    state: ClusterState

    def claimed(self, pod: PodView) -> PodView:
        """The pod with claims made of the templates that it names."""
        return device_claims.with_made_claims(self.state, pod)

    def place(self, pod: PodView, node: str, claims: Iterable[ClaimAllocation] = ()) -> None:
        """Count a pod on a node, with its claims bound there, and devices taken for `claims`."""
        bind_claims(self.state, pod, node)
        device_claims.write_claims(self.state, pod, claims)
        self.state.assume(pod, node)

    def leave(self, pod: PodView) -> None:
        """Let a placed pod leave its node, and give back its devices."""
        if self.state.remove_pod(pod):
            device_claims.give_back_claims(self.state, pod)


def place_group(  # noqa: PLR0913 — the keywords are independent choices
    decider: Decider,
    world: World,
    index: GroupIndex,
    turn: Turn,
    *,
    watch: Callable[[Decision, Snapshot, tuple[PodView, ...]], Seen],
    mode: Mode = Mode.SEQUENTIAL,
    tried: Tried = ignore,
) -> Generator[None, None, tuple[list[Outcome[Seen]], GroupResult]]:
    """A generator of steps that returns the outcomes for the members of a group that wait, those with a node first, and the group's result.

    In SEQUENTIAL mode they are placed in `world` and in `index`; victims of preemption leave both, and count for the first
    member.
    """
    from wharfinger.groups.attempt import attempt, decided, undecided  # noqa: PLC0415 — most questions have no groups, and start earlier without

    assert turn.group is not None  # noqa: S101 — the caller asks for turns of groups
    state = world.state
    pods = tuple(map(world.claimed, turn.pods))
    found = yield from attempt(decider, state, index, turn.group, pods, preempt=True)
    evicted: tuple[PodView, ...] = ()
    if found.freed is not None and mode is Mode.SEQUENTIAL:
        evicted, found = found.freed.victims, found.once_free()
        for victim in evicted:
            world.leave(victim)
            index.remove(victim.uid)
    outcomes: list[Outcome[Seen]] = []
    for pod, node in found.placed:
        decision = decided(decider, state.snapshot(), pod, node, turn.group)
        tried(decision, state.snapshot())
        outcomes.append(Outcome(decision=decision, evicted=evicted, seen=watch(decision, state.snapshot(), evicted)))
        evicted = ()
        if mode is Mode.SEQUENTIAL:
            assigned = decider.chain.assigned_on(pod, state.snapshot(), node)
            world.place(assigned, node, decision.claims)
            index.put(assigned.placed_on(node))
        yield
    for pod in found.without:
        decision = undecided(decider, state.snapshot(), pod, found.result)
        tried(decision, state.snapshot())
        outcomes.append(Outcome(decision=decision, evicted=(), seen=watch(decision, state.snapshot(), ())))
        yield
    return outcomes, found.result


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
    where policies conflict. `devices` are those that the pod gets on its node.
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
    devices: tuple[GivenDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    """The number of unplaced pods with a reason, and of those with no other reason."""

    reason: str
    pods: int
    only: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """A finished dry run. `after` is None in INDEPENDENT mode, where nothing is placed.

    `results` are in the order in which the pods of `pods` were tried. `groups` are the groups that these belong to, in the order of their
    turns.
    """

    mode: Mode
    chain: Chain
    pods: tuple[PodView, ...]
    results: tuple[PodResult, ...]
    before: Utilisation
    after: Utilisation | None
    groups: tuple[GroupResult, ...] = ()

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
    order: Key = queue_key,
    tried: Tried = ignore,
) -> DryRun:
    """The dry run of `pods`; in SEQUENTIAL mode `state` is left with every placement assumed.

    Gated pods are not tried. Pods for which `explained` returns True get an explanation, with a report on each of `nodes`. `advance` is
    called after every pod that was tried, `tried` with every decision before anybody is evicted for the pod. `order` says in which order
    pods and groups are tried.
    """
    commentary = PolicyCommentary(chain)
    before = utilisation(state.snapshot())

    def result_of(decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
        explanation = explain_decision(decision, snapshot, commentary, nodes) if explained(decision.pod) else None
        return pod_result(decision, evicted, explanation)

    index = groups_among(chain, state, pods)
    attempts = _Attempts(chain, state, index, turns(chain, index, pods, order), mode, result_of, tried)
    attempts.run(advance)
    after = utilisation(state.snapshot()) if mode is Mode.SEQUENTIAL else None
    return DryRun(
        mode=mode,
        chain=chain,
        pods=attempts.pods,
        results=tuple(attempts.results[pod.uid] for pod in attempts.pods),
        before=before,
        after=after,
        groups=tuple(attempts.groups.values()),
    )


class _Attempts:
    """Turns taken in order; in SEQUENTIAL mode pods that fit nowhere are tried again, as long as others were placed after them.

    The live scheduler tries such a pod again when a placement may help it: one with affinity to a pod that came later, or a spread that
    later pods have evened out. The result of a pod that is never placed is that of its first attempt. Of groups the same is true.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — what is tried, and who is told
        self,
        chain: Chain,
        state: ClusterState,
        index: GroupIndex,
        ordered: Sequence[Turn],
        mode: Mode,
        result_of: Callable[..., PodResult],
        tried: Tried,
    ) -> None:
        self._chain = chain
        self._state = state
        self._index = index
        self._mode = mode
        self._result_of = result_of
        self._turns = ordered
        self._tried = tried
        self._decider = Decider(chain)
        self.pods = tuple(pod for turn in ordered for pod in turn.pods)
        self.results: dict[str, PodResult] = {}
        self.groups: dict[str, GroupResult] = {}

    def run(self, advance: Callable[[], None]) -> None:
        """Fill `results`, by uid, and `groups`, by key; `advance` is called after each first attempt."""
        n_nodes = self._state.snapshot().n_nodes
        gates = {pod.uid: gate for pod in self.pods if (gate := self._chain.gate(pod)) is not None}
        free = [_without(turn, gates) for turn in self._turns]
        unplaced = self._attempt(list(enumerate(free)), self._result_and(advance))
        while self._mode is Mode.SEQUENTIAL and unplaced and self._placed_after(min(unplaced), unplaced, free):
            placed = {uid for uid, result in self.results.items() if result.node is not None}
            left = [(place, _without(free[place], placed)) for place in sorted(unplaced)]
            again = self._attempt(left, self._result_if_placed)
            if again == unplaced:
                break
            unplaced = again
        self.results |= {pod.uid: gated_result(pod, gates[pod.uid], n_nodes) for pod in self.pods if pod.uid in gates}

    @staticmethod
    def _placed_after(first: int, unplaced: Container[int], taken: Sequence[Turn]) -> bool:
        return any(place not in unplaced and taken[place].pods for place in range(first, len(taken)))

    def _attempt(self, taken: Sequence[tuple[int, Turn]], watch: Callable[..., PodResult | None]) -> set[int]:
        """The places of the turns that left a pod without a node."""
        left = set()
        for place, turn in taken:
            outcomes = self._outcomes(turn, watch)
            self.results.update((outcome.decision.pod.uid, outcome.seen) for outcome in outcomes if outcome.seen is not None)
            if any(outcome.decision.node is None for outcome in outcomes):
                left.add(place)
        return left

    def _outcomes(self, turn: Turn, watch: Callable[..., PodResult | None]) -> list[Outcome[PodResult | None]]:
        if turn.group is None:
            outcomes = [place_pod(self._decider, self._state, pod, watch=watch, mode=self._mode, tried=self._tried) for pod in turn.pods]
        else:
            steps = place_group(self._decider, Direct(self._state), self._index, turn, watch=watch, mode=self._mode, tried=self._tried)
            outcomes, result = at_once(steps)
            if turn.group not in self.groups or result.is_placed:
                self.groups[turn.group] = result
        for victim in [victim for outcome in outcomes for victim in outcome.evicted]:
            self._index.remove(victim.uid)
        return outcomes

    def _result_and(self, advance: Callable[[], None]) -> Callable[..., PodResult]:
        def watch(decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
            result = self._result_of(decision, snapshot, evicted)
            advance()
            return result

        return watch

    def _result_if_placed(self, decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult | None:
        return None if decision.node is None else self._result_of(decision, snapshot, evicted)


def _without(turn: Turn, uids: Container[str]) -> Turn:
    """The turn without some of its pods; itself if it has none of them."""
    left = tuple(pod for pod in turn.pods if pod.uid not in uids)
    return turn if len(left) == len(turn.pods) else Turn(pods=left, group=turn.group)


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
    if decision.node is None and decision.group:  # no node is to blame
        reasons = {decision.message: decision.n_nodes}
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
        devices=decision.devices,
    )
