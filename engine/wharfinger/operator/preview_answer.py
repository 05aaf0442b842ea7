"""The answer to a preview: the decisions of a dry run on a copy of the cluster, with the supposed changes."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from wharfinger.crd.models import MAX_PLACEMENTS, MAX_PODS, MAX_PODS_WITH_DEVICES, MAX_RULES, NearestMiss, PlacementCount, RuleCount
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework import pod_devices
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.groups.attempt import attempt
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.turns import groups_in_steps, set_group_sizes
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import copied
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.operator.controller import cut
from wharfinger.operator.counted_work import MAX_OPERATIONS, CountedWork, within
from wharfinger.simulate import placing
from wharfinger.steps import followed_by
from wharfinger.what_if.drain.answer import Drain, DrainOutcome
from wharfinger.what_if.drain.plan import drain_steps, precompute_drain
from wharfinger.what_if.further_pods import further_groups, grouped
from wharfinger.what_if.supposed_changes import NodesLike, SupposedChanges, added

_MAX_REASONS = 8
MAX_CELLS = 10_000_000
"""Results of a rule for a node that are kept during an answer: up to 200 MB. A policy can make each pod a template of its own."""
MAX_DRAIN_STEPS = 5 * MAX_PODS
"""Steps of a drain, about one decision each: pods that wait are tried again after every step, and the scheduler continues between steps."""


class WhatIf(Struct, frozen=True, kw_only=True):
    """The supposed changes of the cluster, and whether further pods are counted."""

    nodes: tuple[NodesLike, ...] = ()
    drain: tuple[str, ...] = ()
    capacity: bool = False


class Miss(Struct, frozen=True, kw_only=True):
    """The reasons of the first pod that finds no node."""

    message: str
    rules: tuple[RuleCount, ...]
    nearest: NearestMiss | None


class FurtherCapacity(Struct, frozen=True, kw_only=True):
    """The number of further pods that fit, and why the next one does not; "" if the limit ended the count."""

    count: int
    message: str


class Drained(Struct, frozen=True, kw_only=True):
    """The number of pods that leave drained nodes and are created again, that are placed, and that may not leave.

    PodDisruptionBudgets forbid it for some, `kubectl drain` without flags refuses others.
    """

    leave: int
    placed: int
    forbidden: int
    refused: int


class Answer(Struct, frozen=True, kw_only=True):
    """The node of each pod (None where no node fits), in the order of the decisions; `drained` is what becomes of pods of drained nodes.

    `devices` are those of each pod that gets some, as text.
    """

    nodes: tuple[tuple[str, str | None], ...]
    miss: Miss | None
    policy_revision: str
    further: FurtherCapacity | None = None
    drained: Drained | None = None
    devices: Mapping[str, str] = field(default_factory=dict)

    def status(self) -> dict[str, Any]:
        """The part of the status with the answer."""
        counts = Counter(node for _, node in self.nodes if node is not None)
        ordered = sorted(counts, key=lambda node: (-counts[node], node))
        devices = self._devices_by_node()
        status: dict[str, Any] = {
            "pods": len(self.nodes),
            "placed": sum(counts.values()),
            "placements": [
                PlacementCount(node=node, count=counts[node], devices=devices.get(node)).plain() for node in ordered[:MAX_PLACEMENTS]
            ],
            "policyRevision": self.policy_revision,
        }
        if len(ordered) > MAX_PLACEMENTS:
            status["moreNodes"] = len(ordered) - MAX_PLACEMENTS
        if self.miss is not None:
            status |= {"message": self.miss.message, "rules": [each.plain() for each in self.miss.rules]}
            if self.miss.nearest is not None:
                status["nearestMiss"] = self.miss.nearest.plain()
        if self.further is not None:
            status["further"] = self.further.count
            status |= {"furtherMessage": self.further.message} if self.further.message else {}
        if self.drained is not None:
            status |= {
                "drained": self.drained.leave,
                "drainedPlaced": self.drained.placed,
                "drainedForbidden": self.drained.forbidden,
                "drainedRefused": self.drained.refused,
            }
        return status

    def _devices_by_node(self) -> dict[str, tuple[str, ...]]:
        """A line for each pod that gets devices, `MAX_PODS_WITH_DEVICES` of a node at most."""
        pods: dict[str, list[str]] = defaultdict(list)
        for pod, node in self.nodes:
            if node is not None and pod in self.devices:
                pods[node].append(pod)
        return {
            node: tuple(cut(f"{pod}: {self.devices[pod]}", 253) for pod in found[:MAX_PODS_WITH_DEVICES]) for node, found in pods.items()
        }


def answer_preview(  # noqa: PLR0913, PLR0917 — the question, and its namespace
    chain: Chain,
    snapshot: Snapshot,
    pods: Sequence[PodView],
    made: Sequence[objects.AnyObject] = (),
    namespace: str | None = None,
    what_if: WhatIf = WhatIf(),  # noqa: B008 — it is frozen
    *,
    limit: int = MAX_OPERATIONS,
) -> Generator[None, None, Answer]:
    """A generator of steps that returns the answer; UsageError if it takes more than `limit` operations.

    `made` are objects that belong to the pods: their ReplicaSet, their claims.

    For users of one `namespace` (None: for anyone) disruption budgets of other namespaces do not count: which pods a budget
    covers depends on labels that these users may not see. UnknownObject for a node that does not exist, UsageError for a drain of more than
    `MAX_PODS` pods.
    """
    work = CountedWork()
    decider = Decider(chain, MAX_CELLS, work)
    return (yield from within(answer_without_limit(decider, snapshot, pods, made, namespace, what_if), work, limit))


def answer_without_limit(  # noqa: PLR0913, PLR0917 — the same parameters as of the function above
    decider: Decider,
    snapshot: Snapshot,
    pods: Sequence[PodView],
    made: Sequence[objects.AnyObject],
    namespace: str | None,
    what_if: WhatIf,
) -> Generator[None, None, Answer]:
    """A generator of steps that returns the answer of a decider, however many operations it takes."""
    state = yield from copied(snapshot)
    if namespace is not None:
        _forget_budgets_of_others(state, namespace)
    for obj in made:
        state.put(obj)
        yield
    _check_nodes(state.snapshot(), what_if, to_all=namespace is None)
    supposed = SupposedChanges(state)
    yield from added(supposed, what_if.nodes)
    gates = {pod.uid: gate.text for pod in pods if (gate := decider.chain.gate(pod)) is not None}
    free = [pod for pod in pods if pod.uid not in gates]
    if what_if.drain:
        nodes, devices, miss, drained = yield from _drained(decider, supposed, what_if.drain, free)
    else:
        nodes, devices, miss = yield from _placed(decider, state, free)
        drained = None
    if gates:
        nodes += [(pod.key, None) for pod in pods if pod.uid in gates]
        miss = miss or Miss(message=cut(next(iter(gates.values())), 4000), rules=(), nearest=None)
    further = None
    if what_if.capacity and pods:
        further = FurtherCapacity(count=0, message=miss.message) if miss is not None else (yield from _further(decider, state, pods))
    return Answer(
        nodes=tuple(nodes), miss=miss, policy_revision=decider.chain.policy_revision, further=further, drained=drained, devices=devices
    )


_Nodes = list[tuple[str, str | None]]
_Devices = dict[str, str]


def _placed(decider: Decider, state: ClusterState, pods: Sequence[PodView]) -> Generator[None, None, tuple[_Nodes, _Devices, Miss | None]]:
    """(the node of each pod, the devices of those that get some, the first miss)."""
    misses: list[Miss] = []
    devices: _Devices = {}

    def watch(decision: Decision, seen: Snapshot, _evicted: tuple[PodView, ...]) -> None:
        if decision.node is None and not misses:
            misses.append(_miss(decision, seen))
        if got := decision.devices:
            devices[decision.pod.key] = pod_devices.text(got, decision.node)

    outcomes = yield from placing.place_pods(decider, state, pods, watch=watch)
    nodes: _Nodes = [(outcome.decision.pod.key, outcome.decision.node) for outcome in outcomes]
    return nodes, devices, misses[0] if misses else None


def _drained(
    decider: Decider, supposed: SupposedChanges, drain: Sequence[str], pods: Sequence[PodView]
) -> Generator[None, None, tuple[_Nodes, _Devices, Miss | None, Drained]]:
    """(the node of each pod, the devices of those that get some, the first miss, what becomes of the pods of the drained nodes).

    UsageError after `MAX_DRAIN_STEPS`.
    """
    yield from precompute_drain(decider, supposed, drain, pods)
    found: Drain = yield from _bounded(drain_steps(decider, supposed, drain, waiting=pods))
    chain = decider.chain
    previewed = {each.pod: each for each in found.pods if not each.source}
    nodes = [(pod.key, previewed[pod.key].node) for pod in placing.queue_order(chain, pods)]
    got = {key: each.placement for key, each in previewed.items() if each.placement is not None and each.placement.devices}
    devices = {key: pod_devices.text(placement.devices, placement.node) for key, placement in got.items()}
    waits = next((pod for pod in placing.queue_order(chain, pods) if previewed[pod.key].node is None), None)
    miss = None
    if waits is not None:
        snapshot = supposed.state.snapshot()
        miss = replace(_miss(decider.decide(snapshot, waits), snapshot), message=cut(previewed[waits.key].reason, 4000))
    again = [each for each in found.pods if each.source and each.placement is not None]
    drained = Drained(
        leave=len(again),
        placed=sum(each.node is not None for each in again),
        forbidden=len(found.of(DrainOutcome.FORBIDDEN)),
        refused=len(found.of(DrainOutcome.REFUSED)),
    )
    return nodes, devices, miss, drained


def _bounded(steps: Generator[None, None, Drain]) -> Generator[None, None, Drain]:
    """The same steps, `MAX_DRAIN_STEPS` at most; UsageError after that."""
    taken = itertools.count(1)

    def count() -> None:
        if next(taken) >= MAX_DRAIN_STEPS:
            raise UsageError(
                f"the drain takes more than {MAX_DRAIN_STEPS:,} steps; drain fewer nodes at a time, or use `wharf drain --live`"
            )

    return followed_by(steps, count)


def _check_nodes(snapshot: Snapshot, what_if: WhatIf, *, to_all: bool) -> None:
    """UnknownObject for a missing node, with the nearest name unless that is not for all; UsageError for too many pods."""
    for name in (*(wanted.model for wanted in what_if.nodes), *what_if.drain):
        if not to_all and snapshot.row(name) is None:
            raise UnknownObject(f"there is no node {name}")
        snapshot.known_row(name)
    n_pods = sum(len(snapshot.pods_on(snapshot.known_row(name))) for name in set(what_if.drain))
    if n_pods > MAX_PODS:
        raise UsageError(f"{n_pods:,} pods are on the nodes to drain; at most {MAX_PODS:,} are previewed")


def _further(decider: Decider, state: ClusterState, pods: Sequence[PodView]) -> Generator[None, None, FurtherCapacity]:
    """Place further pods of the workload until one finds no node, `MAX_PODS` at most; a pod that needs preemption finds none.

    Pods that form a group are counted in whole groups.
    """
    index = yield from groups_in_steps(decider.chain, state, pods)
    key = index.key_of(pods[0].uid)
    if key is not None:
        return (yield from _further_groups(decider, state, index, key, pods))
    (workload,) = grouped(pods)
    world = placing.DirectPlacement(state)
    for count, (pod, claims) in enumerate(itertools.islice(workload.further(state), MAX_PODS)):
        for claim in claims:
            state.put(claim)
        yield from placing.read_in_steps(decider, world, [pod], evicting=True)
        decision = decider.decide(state.snapshot(), world.claimed(pod))
        if decision.node is None:
            return FurtherCapacity(count=count, message=cut(decision.message, 4000))
        world.place(decision.assigned, decision.node, decision.claims)
        yield
    return FurtherCapacity(count=MAX_PODS, message="")


def _further_groups(
    decider: Decider, state: ClusterState, index: GroupIndex, key: str, pods: Sequence[PodView]
) -> Generator[None, None, FurtherCapacity]:
    """Place further groups like the one of the pods until one has no place; the count is that of their pods."""
    world, count = placing.DirectPlacement(state), 0
    for further in further_groups(index, key, pods, state):
        if count + len(further.pods) > MAX_PODS:
            return FurtherCapacity(count=count, message="")
        if further.pod_group is not None:
            state.put(further.pod_group)
        for pod in further.pods:
            index.put(pod)
        set_group_sizes(index, state)
        own = index.key_of(further.pods[0].uid) or key
        found = yield from attempt(decider, state, index, own, tuple(map(world.claimed, further.pods)))
        if len(found.placed) < len(further.pods):
            return FurtherCapacity(count=count, message=cut(found.result.of_member, 4000))
        for pod, node in found.placed:
            index.put(placing.place_on(decider, world, pod, node).placed_on(node))
        count += len(further.pods)
    return FurtherCapacity(count=count, message="")


def _forget_budgets_of_others(state: ClusterState, namespace: str) -> None:
    budgets = [budget for budget in state.objects.all(objects.PodDisruptionBudget) if budget.metadata.namespace != namespace]
    for budget in budgets:
        state.drop("PodDisruptionBudget", objects.key_of(budget))


def _miss(decision: Decision, snapshot: Snapshot) -> Miss:
    rejecting = [each for each in decision.diagnosis.filters if each.alone]
    rules = tuple(
        RuleCount(rule=each.plugin[:253], rejected=each.alone, reasons=_counted(each.reasons))
        for each in sorted(rejecting, key=lambda each: (-each.alone, each.plugin))[:MAX_RULES]
    )
    return Miss(message=cut(decision.message, 4000), rules=rules, nearest=_nearest(decision, snapshot, [each.plugin for each in rejecting]))


def _counted(reasons: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(cut(f"{count} {text}", 1024) for text, count in wording.most_first(reasons)[:_MAX_REASONS])


def _nearest(decision: Decision, snapshot: Snapshot, plugins: Sequence[str]) -> NearestMiss | None:
    """The node that fewest filters reject; of equals the first by name."""
    if not snapshot.n_nodes or not plugins:
        return None
    against = np.zeros(snapshot.n_nodes, np.int64)
    for plugin in plugins:
        against += decision.diagnosis.rejected_by(plugin)
    rows = np.flatnonzero(against == against.min()).tolist()
    row = min(rows, key=lambda row: snapshot.names[row])
    reasons = [f"{found.plugin}: {reason}" for found in decision.diagnosis.at(row) for reason in found.reasons]
    return NearestMiss(node=snapshot.names[row], reasons=tuple(cut(reason, 1024) for reason in reasons[:16]))
