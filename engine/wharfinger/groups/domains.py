"""The domains in which a group may be placed, and the placement of members in them during a search.

A domain is a set of nodes with the same values of the levels that the group's terms name. Every candidate satisfies the required levels.
Preferred levels are tried first: the nodes are divided by all levels, then without the narrowest preferred one, and so on, until only the
required ones are left.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.prepared import Attempt
from wharfinger.model.devices.allocated import Allocations

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.kept_result import Evaluation
    from wharfinger.framework.prepared import ClaimAllocation
    from wharfinger.groups.terms import Level
    from wharfinger.model.objects import ResourceClaim
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot


class Domain(Struct, frozen=True):
    """Nodes that a group may be placed on together: `rows` (n,) intp ascending, and their common values by topology key."""

    labels: Mapping[str, str]
    rows: NDArray[np.intp]

    @property
    def key(self) -> str:
        """The narrowest topology key; "" for the whole cluster."""
        return tuple(self.labels)[-1] if self.labels else ""

    @property
    def value(self) -> str:
        """The value of the narrowest key; "" for the whole cluster."""
        return self.labels[self.key] if self.labels else ""

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.labels.items()) or "the cluster"


def stages(levels: Sequence[Level]) -> Iterator[tuple[str, ...]]:
    """The topology keys to divide nodes by, widest first in each tuple: first all of them, at last the required ones."""
    n_preferred = sum(1 for level in levels if not level.required)
    for kept in range(n_preferred, -1, -1):
        preferred = [level.key for level in levels if not level.required][:kept]
        yield tuple(dict.fromkeys(level.key for level in levels if level.required or level.key in preferred))


def domains(keys: Sequence[str], snapshot: Snapshot) -> list[Domain]:
    """The domains of some topology keys in no meaningful order; nodes that lack a key are in none. Without keys, the whole cluster."""
    if not keys:
        return [Domain({}, np.arange(snapshot.n_nodes))] if snapshot.n_nodes else []
    topologies = [snapshot.topology(key) for key in keys]
    texts = [[snapshot.strings.text(code) or "" for code in topology.codes] for topology in topologies]
    if len(keys) == 1:
        return [Domain({keys[0]: text}, topologies[0].rows_of(number)) for number, text in enumerate(texts[0])]
    complete = np.logical_and.reduce([topology.ids >= 0 for topology in topologies])
    rows = np.flatnonzero(complete)
    ids = np.stack([topology.ids[rows] for topology in topologies])
    order = np.lexsort(ids)
    starts = np.flatnonzero(np.diff(ids[:, order], prepend=-1).any(axis=0))
    return [
        _domain(keys, texts, [topology.ids for topology in topologies], part) for part in np.split(rows[order], starts[1:]) if len(part)
    ]


def _domain(keys: Sequence[str], texts: Sequence[Sequence[str]], ids: Sequence[NDArray[np.int32]], rows: NDArray[np.intp]) -> Domain:
    first = int(rows[0])
    return Domain({key: text[int(of[first])] for key, text, of in zip(keys, texts, ids, strict=True)}, rows)


def of_rows(keys: Sequence[str], rows: Sequence[int], snapshot: Snapshot) -> Mapping[str, str] | None:
    """The common values of some nodes by topology key; None if they differ in a key or lack it."""
    found: dict[str, str] = {}
    for key in keys:
        codes = {int(snapshot.label(key)[row]) for row in rows}
        text = snapshot.strings.text(codes.pop()) if len(codes) == 1 else None
        if text is None:
            return None
        found[key] = text
    return found


FORGOTTEN_PER_STEP = 50
"""Members that are forgotten in one step."""
CHANGES_PER_STEP = 20
"""Pods that are taken from a state, or put back, in one step."""


class DomainPlacement(Struct):
    """The placement in one domain: members with their nodes in order, and the members left."""

    domain: Domain
    nodes: dict[str, str] = field(default_factory=dict)
    left: list[PodView] = field(default_factory=list)


def allocations(decider: Decider, snapshot: Snapshot, pod: PodView, node: str) -> tuple[ClaimAllocation, ...]:
    """The devices that the claims of a pod get on a node that takes it; empty for a pod without claims."""
    if not pod.demand.may_claim:
        return ()
    evaluation = decider.evaluation(snapshot, pod)
    return evaluation.filtering.allocations(Attempt(pod, snapshot, evaluation.shared), snapshot.known_row(node))


class Work(Struct):
    """The number of steps that one search or several have taken: decisions about a member, and other work of the same length."""

    steps: int = 0


class TentativePlacement:
    """A chain, a state, the members that are assumed on it, and the steps that are left; `plain`: no member got devices or volumes.

    The steps are counted in `work` too.
    """

    def __init__(self, decider: Decider, state: ClusterState, steps: int, work: Work | None = None) -> None:
        self.decider = decider
        self._state = state
        self._now = state.snapshot().now
        self.assumed: list[PodView] = []
        self._claims: dict[str, list[ResourceClaim]] = {}
        self._volumes: dict[str, list[volume_claims.Assumption]] = {}
        self._work = work or Work()
        self.steps = 0
        self.steps_left = steps
        self.plain = True

    @property
    def snapshot(self) -> Snapshot:
        """The state with the members that are assumed."""
        return self._state.snapshot(self._now)

    def evaluation(self, pod: PodView) -> Evaluation:
        """The results of filters and scores for a member."""
        return self.decider.evaluation(self.snapshot, pod)

    def spend(self, steps: int = 1) -> None:
        """Count some work."""
        self.steps += steps
        self.steps_left -= steps
        self._work.steps += steps

    def choose(self, pod: PodView, rows: NDArray[np.intp] | None) -> str | None:
        """The best node among some rows for a member (None: among all); None if the chain refuses it on all of them."""
        self.spend()
        snapshot = self.snapshot
        choice = self.decider.choose(snapshot, pod, rows)
        return None if choice is None else snapshot.names[choice.row]

    def takes(self, row: int, pod: PodView) -> bool:
        """True if the chain agrees to a member on a node."""
        self.spend()
        return bool(self.decider.filtering(self.snapshot, pod).feasible[row])

    def assume(self, pod: PodView, node: str) -> None:
        """Assume a member on a node, with the devices and volumes that it gets there."""
        snapshot = self.snapshot
        assigned = self.decider.chain.assigned_on(pod, snapshot, node)
        if pod.demand.may_claim:
            claims = allocations(self.decider, snapshot, pod, node)
            for each in claims:
                self._state.reserve_devices(each.claim, each.allocation)
                self._state.objects.following(Allocations).share(each.claim)
            self._claims[pod.uid] = [each.claim for each in claims]
        volumes = volume_claims.assumptions(pod, node, self.snapshot)
        if volumes:
            self._volumes[pod.uid] = volumes
            for volume in volumes:
                self._state.put(volume.after)
        self.plain = self.plain and assigned is pod and not pod.object.spec.resource_claims and not volumes
        self._state.assume(assigned, node)
        self.assumed.append(pod)

    def assume_all(self, nodes: Mapping[str, str], members: Mapping[str, PodView]) -> None:
        """Assume members by uid, in order."""
        for uid, node in nodes.items():
            self.assume(members[uid], node)

    def forget_last(self) -> PodView:
        """Forget the member that was assumed last, and return it."""
        pod = self.assumed.pop()
        self._state.forget(pod)
        for claim in reversed(self._claims.pop(pod.uid, ())):
            self._state.release_devices(claim)
        for volume in reversed(self._volumes.pop(pod.uid, ())):
            if volume.is_in(self._state.objects):
                self._state.put(volume.before)
        return pod

    def forgetting(self) -> Generator[None, None, None]:
        """A generator of steps that forgets all members."""
        while self.assumed:
            self.forget_last()
            if len(self.assumed) % FORGOTTEN_PER_STEP == 0:
                yield

    def forget_all(self) -> None:
        """Forget all members."""
        while self.assumed:
            self.forget_last()

    def reasons(self, pod: PodView, domain: Domain) -> Mapping[str, int]:
        """The number of nodes of a domain by the reason why they do not take a member."""
        snapshot = self.snapshot
        filtering = self.decider.filtering(snapshot, pod)
        return Diagnosis(filtering, snapshot.n_nodes).reasons_among(domain.rows)
