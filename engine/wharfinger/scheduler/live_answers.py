"""Answers of a running scheduler: why a pod or group is where it is, what a policy does, and whether its state matches the API server.

Explanations are made on a copy of the state, made in short slices, and decided in a thread. One at a time, as each takes memory for a
second cluster. A request that waits longer than `TIMEOUT` ends with an error.

The state is compared with the API server as kube-scheduler's cache debugger does on SIGUSR2
(pkg/scheduler/backend/cache/debugger/comparer.go, Kubernetes 1.36), and beyond it: also where a pod is on another node, and whether the
sums that decisions read are the sums of what is there. Watches run behind the API server by some milliseconds, so a difference means
something when it is still there a little later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.errors import UnknownObject, UsageError, WharfingerError
from wharfinger.event_loop import BuildThread, in_slices
from wharfinger.explain.explained_group import ExplainedGroup, explained_group
from wharfinger.explain.explained_pod import ExplainedPod, explained, unknown_pod
from wharfinger.explain.explained_policy import ExplainedPolicy, explained_policy
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.language.report import wording
from wharfinger.model.objects import Node, Pod
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import copied
from wharfinger.policies.active import ActivePolicies

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.scheduler.scheduler import Scheduler

TIMEOUT = 20.0
MAX_SUGGESTED = 5000
"""Pods among which a similar name is looked for."""
MAX_LISTED = 5
"""Policies in force that are named in an error."""
Demand = Mapping[str, int]


class ExplanationBusy(WharfingerError):
    """No explanation within `TIMEOUT` seconds: other explanations take the time."""


class LiveExplanations:
    """Explains the pods, groups and policies of one scheduler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._thread = BuildThread(clock)

    async def of(self, scheduler: Scheduler, key: str, nodes: Sequence[str] = ()) -> ExplainedPod:
        """The explanation of a pod (`namespace/name`) at this time.

        UnknownObject for a pod or node that does not exist, UsageError for a pod of another scheduler, ExplanationBusy after `TIMEOUT`.
        """
        async with self._taking_turns():
            pod, chain = _question(scheduler, key)
            now, state = await self._copied(scheduler)
            known = scheduler.queue.groups.index
            group = known.key_of(pod.uid)
            index = None if group is None else known.only(group, state.objects)
            return await self._thread.run(explained, chain, state, pod, now, nodes, index)

    async def of_group(self, scheduler: Scheduler, key: str) -> ExplainedGroup:
        """The explanation of a group (`namespace/name`) at this time.

        UnknownObject for a group without members, UsageError for one of another scheduler, ExplanationBusy after `TIMEOUT`.
        """
        async with self._taking_turns():
            known = scheduler.queue.groups.index
            chain = _chain_of(scheduler, known, key)
            now, state = await self._copied(scheduler)
            return await self._thread.run(explained_group, chain, state, known.only(key, state.objects), key, now)

    async def of_policy(self, scheduler: Scheduler, active: ActivePolicies, name: str) -> tuple[str, ExplainedPolicy]:
        """(profile, the report about the policy of that name at this time); of one that decides rather than of a shadow policy.

        UnknownObject for a policy that is not in force, ExplanationBusy after `TIMEOUT`.
        """
        profile, chain, without = _in_force(active, name)
        async with self._taking_turns():
            waiting = [pod for pod in scheduler.known_pods if _waits(scheduler, pod, profile)]
            _, state = await self._copied(scheduler)
            return profile, await self._thread.run(explained_policy, chain, without, state, name, waiting)

    async def _copied(self, scheduler: Scheduler) -> tuple[float, ClusterState]:
        """(the present time, a copy of the state as it is now)."""
        snapshot = scheduler.snapshot()
        return snapshot.now, await in_slices(copied(snapshot), self._clock)

    @asynccontextmanager
    async def _taking_turns(self) -> AsyncIterator[None]:
        """A context that one request is in at a time; ExplanationBusy if it does not end within `TIMEOUT` seconds of the request."""
        try:
            async with asyncio.timeout(TIMEOUT), self._turn:
                yield
        except TimeoutError:
            raise ExplanationBusy(f"no explanation within {TIMEOUT:g} s; there are too many requests, try again later") from None


def _in_force(active: ActivePolicies, name: str) -> tuple[str, Chain, Chain]:
    """(the first profile with a policy of that name, its chain with the policy, the chain without it)."""
    for profile, chain in active.chains.items():
        if any(policy.name == name for policy in chain.policies):
            return profile, chain, with_policies(chain, [policy for policy in chain.policies if policy.name != name])
    for profile, shadows in active.shadows.items():
        if name in shadows:
            return profile, shadows[name], active.chains[profile]
    known = {policy.name for chain in active.chains.values() for policy in chain.policies}
    known |= {shadow for shadows in active.shadows.values() for shadow in shadows}
    nearest = wording.closest(name, known)
    others = f"; in force: {wording.capped(sorted(known), MAX_LISTED)}" if known else ""
    raise UnknownObject(f"no policy {name} is in force" + (f"; did you mean {nearest}?" if nearest else others))


def _waits(scheduler: Scheduler, pod: PodView, profile: str) -> bool:
    """True if the pod waits for a node from that profile."""
    if pod.node_name or pod.finished or pod.terminating or scheduler.state.is_placed(pod.uid):
        return False
    own = scheduler.profiles.of(pod)
    return own is not None and own.name == profile


def _chain_of(scheduler: Scheduler, index: GroupIndex, key: str) -> Chain:
    """The chain that decides about a group."""
    members = index.members(key)
    if not members:
        nearest = wording.closest(key, [known for _, known in zip(range(MAX_SUGGESTED), index, strict=False)])
        raise UnknownObject(f"no pod is a member of a group {key}" + (f"; did you mean {nearest}?" if nearest else ""))
    profile = scheduler.profiles.of(members[0])
    if profile is None:
        name = members[0].scheduler_name
        raise UsageError(f"group {key} is placed by another scheduler: the schedulerName of its pods is {name}")
    return profile.chain


def _question(scheduler: Scheduler, key: str) -> tuple[PodView, Chain]:
    """The pod and the chain that decides about it."""
    pod = scheduler.known_pod(key)
    if pod is None:
        raise unknown_pod(key, (known.key for _, known in zip(range(MAX_SUGGESTED), scheduler.known_pods, strict=False)))
    profile = scheduler.profiles.of(pod)
    if profile is None:
        raise UsageError(f"pod {key} is placed by another scheduler: its schedulerName is {pod.scheduler_name}")
    if pod.finished:
        raise UsageError(f"pod {key} has ended ({pod.object.status.phase}); nothing is decided about it any more")
    placed = scheduler.state.snapshot().placed(pod.uid)
    return (pod if placed is None else placed[1]), profile.chain


class OnOtherNode(Struct, frozen=True, kw_only=True):
    """A pod that is on another node than the scheduler has it on."""

    pod: str
    believed: str
    actual: str


class WrongSum(Struct, frozen=True, kw_only=True):
    """A node whose sum of requested resources is not the sum over its pods."""

    node: str
    believed: Demand
    actual: Demand


class Comparison(Struct, frozen=True, kw_only=True):
    """The differences. `missing_…` is in the API server alone, `extra_…` in the scheduler alone; pods by `namespace/name`.

    `assumed` are pods with the nodes that were chosen for them, whose binding the watch has not shown yet: no difference, unless they stay.
    """

    nodes: int
    pods: int
    missing_nodes: tuple[str, ...]
    extra_nodes: tuple[str, ...]
    missing_pods: tuple[str, ...]
    extra_pods: tuple[str, ...]
    other_node: tuple[OnOtherNode, ...]
    wrong_sums: tuple[WrongSum, ...]
    assumed: Mapping[str, str]

    @property
    def equal(self) -> bool:
        """True if there is no difference."""
        return not any((self.missing_nodes, self.extra_nodes, self.missing_pods, self.extra_pods, self.other_node, self.wrong_sums))


class CacheContents(Struct, frozen=True, kw_only=True):
    """The contents of a state at one moment: placed pods (True: assumed), and by row the names, requested amounts and pods of nodes."""

    placements: tuple[tuple[PodView, bool], ...]
    names: tuple[str, ...]
    resources: tuple[str, ...]
    requested: NDArray[np.int64]
    pod_count: NDArray[np.int64]

    def sums(self, row: int) -> Demand:
        """The requested amount of each resource on a node, and the number of its pods; without zeros."""
        amounts = [*zip(self.resources, self.requested[:, row].tolist(), strict=True), ("pods", int(self.pod_count[row]))]
        return {resource: amount for resource, amount in amounts if amount}


def contents_of(state: ClusterState) -> CacheContents:
    """The contents of a state, to be compared in a thread; takes some milliseconds for tens of thousands of pods."""
    snapshot = state.snapshot()
    return CacheContents(
        placements=tuple(state.placements()),
        names=tuple(snapshot.names),
        resources=tuple(snapshot.resource_names),
        requested=snapshot.requested.copy(),
        pod_count=snapshot.pod_count.copy(),
    )


def compare(contents: CacheContents, nodes: Sequence[Node], pods: Iterable[Pod]) -> Comparison:
    """The differences between the contents of a state and all nodes and pods of the API server."""
    actual = {view.uid: view for view in map(PodView, pods) if view.node_name and not view.finished}
    believed = {view.uid: (view, assumed) for view, assumed in contents.placements}
    known, listed = set(contents.names), {node.metadata.name for node in nodes}
    both = [(view, actual[uid]) for uid, (view, _) in believed.items() if uid in actual]
    moved = [
        OnOtherNode(pod=own.key, believed=own.node_name, actual=other.node_name) for own, other in both if own.node_name != other.node_name
    ]
    return Comparison(
        nodes=len(listed),
        pods=len(actual),
        missing_nodes=tuple(sorted(listed - known)),
        extra_nodes=tuple(sorted(known - listed)),
        missing_pods=tuple(sorted(view.key for uid, view in actual.items() if uid not in believed)),
        extra_pods=tuple(sorted(view.key for uid, (view, assumed) in believed.items() if not assumed and uid not in actual)),
        other_node=tuple(sorted(moved, key=lambda one: one.pod)),
        wrong_sums=tuple(_wrong_sums(contents, nodes)),
        assumed={view.key: view.node_name for uid, (view, assumed) in sorted(believed.items()) if assumed and uid not in actual},
    )


def _wrong_sums(contents: CacheContents, nodes: Iterable[Node]) -> Iterable[WrongSum]:
    """The nodes whose sums, kept by adding and subtracting, differ from sums computed again."""
    state = ClusterState()
    for node in nodes:
        state.add_node(node)
    for pod, _ in contents.placements:
        state.add_pod(pod)
    fresh = contents_of(state)
    rows = {name: row for row, name in enumerate(fresh.names)}
    for name, row in sorted((name, row) for row, name in enumerate(contents.names) if name in rows):
        kept, made = contents.sums(row), fresh.sums(rows[name])
        if kept != made:
            yield WrongSum(node=name, believed=kept, actual=made)
