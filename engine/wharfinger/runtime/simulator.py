"""Where pods would go: the scheduler's own decision, without a cluster to bind in.

`SEQUENTIAL` assumes each placement before the next pod is decided, as the live scheduler does; where preemption makes room, its victims
leave at once and the pod is decided again. `INDEPENDENT` asks for each pod alone, as if no other were waiting. Either way every answer
comes from the same `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from msgspec.structs import replace

from wharfinger.framework import volume_claims
from wharfinger.framework.chain import Chain
from wharfinger.framework.cycle import Decider
from wharfinger.framework.decision import Decision
from wharfinger.framework.plugins.volume_binding import SELECTED_NODE
from wharfinger.model import objects
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot

Seen = TypeVar("Seen")


class Mode(Enum):
    """Whether a placement counts for the pods after it."""

    SEQUENTIAL = "sequential"
    INDEPENDENT = "independent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Seen]):
    """What was decided for one pod, which pods had to leave for it, and what `watch` made of it while the snapshot was current."""

    decision: Decision
    evicted: tuple[PodView, ...]
    seen: Seen


def queue_order(chain: Chain, pods: Iterable[PodView]) -> list[PodView]:
    """The pods as the queue would hand them out: as the chain sorts it (priority), then creation time (unknown last), then key."""
    return sorted(pods, key=lambda pod: (chain.sort_key(pod), pod.created is None, pod.created or 0.0, pod.key))


def place(
    chain: Chain,
    state: ClusterState,
    pods: Iterable[PodView],
    *,
    watch: Callable[[Decision, Snapshot, tuple[PodView, ...]], Seen],
    mode: Mode = Mode.SEQUENTIAL,
) -> Iterator[Outcome[Seen]]:
    """Outcomes in queue order, one at a time. In SEQUENTIAL mode `state` is changed: it assumes every placement.

    A decision reads its snapshot lazily and a snapshot dies with the next change, so whatever is wanted of it must be taken in `watch`
    (decision, snapshot, evicted pods).
    """
    decider = Decider(chain)
    for pod in queue_order(chain, pods):
        decision = decider.decide(state.snapshot(), pod)
        evicted: tuple[PodView, ...] = ()
        if decision.nominated is not None and mode is Mode.SEQUENTIAL:
            evicted = decision.victims
            decision = _decide_without(evicted, decider, state, pod)
        yield Outcome(decision=decision, evicted=evicted, seen=watch(decision, state.snapshot(), evicted))
        if decision.node is not None and mode is Mode.SEQUENTIAL:
            bind_claims(state, pod, decision.node)
            state.assume(pod, decision.node)


def _decide_without(victims: Iterable[PodView], decider: Decider, state: ClusterState, pod: PodView) -> Decision:
    for victim in victims:
        state.remove_pod(victim)
    return decider.decide(state.snapshot(), pod)


def bind_claims(state: ClusterState, pod: PodView, node: str) -> None:
    """Bind the claims of a pod that waited for its node to the volumes that they would get there, so that no other pod counts on these.

    A claim for which a volume would have to be made gets the node instead, as its provisioner would be told it: pods that share it follow.
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
