"""Places pods and groups on a state that no scheduler changes, as the scheduler would: in its order, with preemption, claims and devices.

`SEQUENTIAL` assumes each placement before the next pod is decided, as the live scheduler does; where preemption makes room, its victims
leave at once and the pod is decided again. `INDEPENDENT` decides each pod alone, as if no other were waiting. Either way every answer comes
from the same `decide`.

The members of a group are tried together, in the group's turn and by the same search as the live scheduler's: as many as the group needs,
or none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.prepared import ClaimAllocation
from wharfinger.groups.domains import allocations
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.results import GroupResult
from wharfinger.groups.turns import Turn, groups_in_steps, queue_key, turns
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate import device_claims

if TYPE_CHECKING:
    from wharfinger.groups.attempt import Attempt

Seen = TypeVar("Seen")


class Mode(Enum):
    """SEQUENTIAL: a placement counts for the pods after it. INDEPENDENT: each pod is decided about alone."""

    SEQUENTIAL = "sequential"
    INDEPENDENT = "independent"


class Outcome(Struct, Generic[Seen], frozen=True, kw_only=True):
    """The decision about one pod, the pods that were evicted for it, and what `watch` returned while the snapshot was current."""

    decision: Decision
    evicted: tuple[PodView, ...]
    seen: Seen


def queue_order(chain: Chain, pods: Iterable[PodView]) -> list[PodView]:
    """The pods in the order of the scheduling queue, each for itself: without regard to groups, whose members have one turn together."""
    return sorted(pods, key=lambda pod: queue_key(chain, pod))


Tried = Callable[[Decision, Snapshot], None]
"""Called with each decision while its snapshot is current, before pods are evicted for it."""


def ignore(_decision: Decision, _snapshot: Snapshot) -> None:
    """Ignore a decision."""


def place_pods(
    decider: Decider,
    state: ClusterState,
    pods: Sequence[PodView],
    *,
    watch: Callable[[Decision, Snapshot, tuple[PodView, ...]], Seen],
) -> Generator[None, None, list[Outcome[Seen]]]:
    """A generator of steps that returns the outcomes in queue order; those of a group together.

    `state` is changed: it assumes every placement. A decision reads its snapshot lazily, and a snapshot is
    valid until the next change of the state. So `watch` (decision, snapshot, evicted pods) has to read everything that is needed of it.
    """
    index = yield from groups_in_steps(decider.chain, state, pods)
    found: list[Outcome[Seen]] = []
    for turn in turns(decider.chain, index, pods):
        yield from read_in_steps(decider, DirectPlacement(state), turn.pods, evicting=turn.group is None)
        if turn.group is None:
            found.append(place_pod(decider, state, turn.pods[0], watch=watch))
            yield
        else:
            outcomes, _ = yield from place_group(decider, DirectPlacement(state), index, turn, watch=watch)
            found += outcomes
    return found


def read_in_steps(decider: Decider, target: PlacementTarget, pods: Iterable[PodView], *, evicting: bool = False) -> Generator[None]:
    """The steps of reading what decisions about the pods read of all nodes: devices, volumes and storage. None where it is read already.

    Claims are made from the templates that the pods name. With `evicting`, pods to evict are searched for too.
    """
    for pod in pods:
        for _ in decider.precompute(target.state.snapshot, target.claimed(pod), evicting=evicting):
            yield


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
            DirectPlacement(state).leave(victim)
        decision = decider.decide(state.snapshot(now), pod)
    outcome = Outcome(decision=decision, evicted=evicted, seen=watch(decision, state.snapshot(now), evicted))
    if decision.node is not None and mode is Mode.SEQUENTIAL:
        DirectPlacement(state).place(decision.assigned, decision.node, decision.claims)
    return outcome


class PlacementTarget(Protocol):
    """A state on which pods are placed, and which they leave."""

    state: ClusterState

    def claimed(self, pod: PodView) -> PodView:
        """The pod with claims made from the templates that it names."""

    def place(self, pod: PodView, node: str, claims: Iterable[ClaimAllocation] = ()) -> None:
        """Count a pod on a node, with its claims bound there, and devices taken for `claims`."""

    def leave(self, pod: PodView) -> None:
        """Remove a placed pod from its node."""


class DirectPlacement(Struct):
    """A state that keeps what happens."""

    state: ClusterState

    def claimed(self, pod: PodView) -> PodView:
        """The pod with claims made from the templates that it names."""
        return device_claims.with_made_claims(self.state, pod)

    def place(self, pod: PodView, node: str, claims: Iterable[ClaimAllocation] = ()) -> None:
        """Count a pod on a node, with its claims bound there, and devices taken for `claims`."""
        bind_claims(self.state, pod, node)
        device_claims.write_claims(self.state, pod, claims)
        self.state.assume(pod, node)

    def leave(self, pod: PodView) -> None:
        """Remove a placed pod from its node, and release its devices."""
        if self.state.remove_pod(pod):
            device_claims.give_back_claims(self.state, pod)


def place_on(decider: Decider, target: PlacementTarget, pod: PodView, node: str) -> PodView:
    """The pod as it is assigned to a node that takes it; it is placed there in `target`, with the devices that its claims get."""
    snapshot = target.state.snapshot()
    assigned = decider.chain.assigned_on(pod, snapshot, node)
    target.place(assigned, node, allocations(decider, snapshot, pod, node))
    return assigned


def place_group(  # noqa: PLR0913 — the keywords are independent choices
    decider: Decider,
    target: PlacementTarget,
    index: GroupIndex,
    turn: Turn,
    *,
    watch: Callable[[Decision, Snapshot, tuple[PodView, ...]], Seen],
    mode: Mode = Mode.SEQUENTIAL,
    tried: Tried = ignore,
) -> Generator[None, None, tuple[list[Outcome[Seen]], GroupResult]]:
    """A generator of steps that returns the outcomes for the members of a group that wait, those with a node first, and the group's result.

    In SEQUENTIAL mode they are placed in `target` and in `index`; victims of preemption leave both, and count for the first member.
    """
    from wharfinger.groups.attempt import attempt  # noqa: PLC0415 — most questions have no groups, and start earlier without

    assert turn.group is not None  # noqa: S101 — the caller passes turns of groups
    pods = tuple(map(target.claimed, turn.pods))
    found = yield from attempt(decider, target.state, index, turn.group, pods, preempt=True)
    evicted: tuple[PodView, ...] = ()
    if found.freed is not None and mode is Mode.SEQUENTIAL:
        evicted, found = found.freed.victims, found.after_evictions()
        for victim in evicted:
            target.leave(victim)
            index.remove(victim.uid)
    outcomes = yield from place_members(decider, target, index, found, watch=watch, mode=mode, tried=tried, evicted=evicted)
    return outcomes, found.result


def place_members(  # noqa: PLR0913 — the keywords are independent choices
    decider: Decider,
    target: PlacementTarget,
    index: GroupIndex,
    found: Attempt,
    *,
    watch: Callable[[Decision, Snapshot, tuple[PodView, ...]], Seen],
    mode: Mode = Mode.SEQUENTIAL,
    tried: Tried = ignore,
    evicted: tuple[PodView, ...] = (),
) -> Generator[None, None, list[Outcome[Seen]]]:
    """A generator of steps that returns the outcomes for the members that an attempt is about, those with a node first.

    In SEQUENTIAL mode they are placed in `target` and in `index`. The `evicted` pods count for the first member.
    """
    from wharfinger.groups.attempt import decided, undecided  # noqa: PLC0415 — as above

    state, key = target.state, found.result.group
    outcomes: list[Outcome[Seen]] = []
    for pod, node in found.placed:
        decision = decided(decider, state.snapshot(), pod, node, key)
        tried(decision, state.snapshot())
        outcomes.append(Outcome(decision=decision, evicted=evicted, seen=watch(decision, state.snapshot(), evicted)))
        evicted = ()
        if mode is Mode.SEQUENTIAL:
            assigned = decider.chain.assigned_on(pod, state.snapshot(), node)
            target.place(assigned, node, decision.claims)
            index.put(assigned.placed_on(node))
        yield
    for pod in found.without:
        decision = undecided(decider, state.snapshot(), pod, found.result)
        tried(decision, state.snapshot())
        outcomes.append(Outcome(decision=decision, evicted=(), seen=watch(decision, state.snapshot(), ())))
        yield
    return outcomes


def bind_claims(state: ClusterState, pod: PodView, node: str) -> None:
    """Bind claims with WaitForFirstConsumer to the volumes that they would get on the pod's node, so that no other pod can use these.

    A claim for which a volume would have to be provisioned is annotated with the node, so that pods that share it follow.
    """
    for each in volume_claims.assumptions(pod, node, state.snapshot()):
        if isinstance(each.after, objects.PersistentVolume):
            state.put(replace(each.after, status=replace(each.after.status, phase="Bound")))
            state.put(volume_claims.bound_to(each.claim, each.after))
        else:
            state.put(each.after)
