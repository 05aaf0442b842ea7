"""A dry run: the node of each pod or why it has none, and the use of the cluster before and after. The pods are placed by `placing`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.explanation import Explanation, explain_decision
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.extension import Placement
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.framework.prepared import Reason
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.results import GroupResult
from wharfinger.groups.turns import Key, Turn, groups_among, queue_key, turns
from wharfinger.language.report import wording
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.objects.requests import listing_order
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate.placing import (
    DirectPlacement,
    Mode,
    Outcome,
    Tried,
    ignore,
    place_group,
    place_pod,
)
from wharfinger.steps import at_once


class ResourceUse(Struct, frozen=True, kw_only=True):
    """Requests against allocatable, summed over nodes; cpu in millicores, memory in bytes."""

    resource: str
    requested: int
    allocatable: int

    @property
    def fraction(self) -> float:
        """Requested per allocatable; 0 if nothing is allocatable."""
        return self.requested / self.allocatable if self.allocatable else 0.0


class Utilisation(Struct, frozen=True, kw_only=True):
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


def utilisation(snapshot: Snapshot) -> Utilisation:
    """The use of every resource that some node offers, in the order cpu, memory, ephemeral-storage, then by name."""
    ordered = sorted(snapshot.resource_names, key=listing_order)
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


class PodResult(Struct, frozen=True, kw_only=True):
    """The decision about one pod.

    `reasons` counts nodes by the reason of their rejection, only where the pod found none; `totals` are by tier. `victims` are the pods
    that preemption would evict; where they were evicted (SEQUENTIAL), the pod has a node, otherwise `nominated` is their node. `notes` say
    where policies conflict. `devices` are those that the pod gets on its node. `group` is the group with which the pod was tried, or "".
    `held` are the permits that still do not let the pod be bound when all pods are placed, each with its message.
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
    devices: tuple[PodDevice, ...] = ()
    group: str = ""
    held: tuple[str, ...] = ()


class ReasonCount(Struct, frozen=True, kw_only=True):
    """The number of unplaced pods with a reason, and of those with no other reason."""

    reason: str
    pods: int
    only: int


class DryRun(Struct, frozen=True, kw_only=True):
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
        """The number of pods that found a node."""
        return sum(result.node is not None for result in self.results)

    @property
    def unplaced(self) -> int:
        """The number of pods that found none."""
        return len(self.results) - self.placed

    @property
    def held(self) -> int:
        """The number of pods with a node that permits still hold."""
        return sum(bool(result.held) for result in self.results)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about conflicts of policies, each once."""
        return tuple(dict.fromkeys(note for result in self.results for note in result.notes))

    @property
    def evicted(self) -> int:
        """The number of pods that were evicted for others."""
        return sum(len(result.victims) for result in self.results) if self.mode is Mode.SEQUENTIAL else 0

    @property
    def reasons(self) -> tuple[ReasonCount, ...]:
        """The reasons of pods that were not placed, most frequent first."""
        pods: Counter[str] = Counter()
        only: Counter[str] = Counter()
        for result in self.results:
            if result.node is None:
                pods.update(reason for reason, _ in result.reasons)
                only.update([result.reasons[0][0]] if len(result.reasons) == 1 else [])
        return tuple(ReasonCount(reason=reason, pods=number, only=only[reason]) for reason, number in wording.most_first(pods))


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
    called after every pod that was tried, `tried` with every decision before pods are evicted for it. `order` is the order in which pods
    and groups are tried.
    """
    explainer = PolicyExplainer(chain)
    before = utilisation(state.snapshot())

    def result_of(decision: Decision, snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
        explanation = explain_decision(decision, snapshot, explainer, nodes) if explained(decision.pod) else None
        return pod_result(decision, evicted, explanation)

    index = groups_among(chain, state, pods)
    attempts = _Attempts(chain, state, index, turns(chain, index, pods, order), mode, result_of, tried)
    attempts.run(advance)
    if mode is Mode.SEQUENTIAL:
        attempts.hold()
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
    """Turns taken in order; in SEQUENTIAL mode, unschedulable pods are tried again, as long as others were placed after them.

    The live scheduler tries such a pod again when a placement may help it: one with affinity to a pod that came later, or a spread that
    later pods have evened out. A pod that is never placed has the result of its first attempt. Of groups the same is true.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
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

    def hold(self) -> None:
        """Ask the permits about all placed pods: these may wait for pods that were placed after them."""
        snapshot = self._state.snapshot()
        for pod in self.pods if any(policy.permits for policy in self._chain.policies) else ():
            result = self.results[pod.uid]
            if result.node is not None and (held := _permits_of(self._chain, pod, result.node, snapshot)):
                self.results[pod.uid] = replace(result, held=held)

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
            steps = place_group(
                self._decider, DirectPlacement(self._state), self._index, turn, watch=watch, mode=self._mode, tried=self._tried
            )
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


def _permits_of(chain: Chain, pod: PodView, node: str, snapshot: Snapshot) -> tuple[str, ...]:
    """The permits of policies that do not let a pod be bound to its node now, each with its message."""
    placed = snapshot.placed(pod.uid)
    if placed is None:  # it was evicted for a later pod
        return ()
    placement = Placement(pod=placed[1], node=node)
    refusing = [permit for permit in chain.pod_rules(pod, snapshot).permits if not permit.permission(placement, snapshot).approved]
    return tuple(f"{permit.name}: {permit.message(placement, snapshot)}" for permit in refusing)


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
    if decision.node is None and decision.group:  # nodes did not reject the pod, its group waits
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
        group=decision.group,
    )
