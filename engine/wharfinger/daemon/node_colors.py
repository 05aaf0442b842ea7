"""Colours of the nodes on the live page: by a resource, the number of pods, a metric, or the scores of one pod.

cpu, memory, nvidia.com/gpu …   requested per allocatable
pods                            pods per pods allowed
devices                         devices of ResourceSlices that claims hold, in part or whole, per devices
metric:<policy>/<name>          the samples of a metric that a policy declares
pod:<namespace>/<name>          the first tier's total of every node that is feasible for that pod now
group:<namespace>/<name>        the members of a group that are on a node; of one that waits, how many its domain may take at most
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from wharfinger.errors import UnknownObject
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.kept_result import Evaluation
from wharfinger.groups.domains import domains
from wharfinger.groups.exact import member_classes
from wharfinger.language.report.wording import count
from wharfinger.language.semantics import typed
from wharfinger.model.devices.pools import Pools
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.objects.requests import listing_order
from wharfinger.model.state.device_states import DeviceStates, State
from wharfinger.steps import at_once
from wharfinger.web.ui.page_content import Coloring, points, scale_of, share

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.groups.terms import Group
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.scheduler import Scheduler

METRIC, POD, GROUP = "metric:", "pod:", "group:"
DEVICES = "devices"
MAX_RESOURCES = 30
MAX_METRICS = 50
MAX_FOLLOWED = 6
"""Pods whose scores are kept up to date, and kinds of members of a group that are looked at."""
MAX_CELLS = 1_000_000
"""Results of a rule for a node that are kept for groups."""


class _PodEvaluation(Struct, frozen=True):
    """The evaluation of a pod by a chain."""

    chain: Chain
    key: Hashable
    evaluation: Evaluation


class NodeColorings:
    """The colourings of one scheduler's nodes. Pods are evaluated apart from the scheduler, whose decisions are not affected."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._evaluations: OrderedDict[str, _PodEvaluation] = OrderedDict()
        self._decider: Decider | None = None

    def choices(self, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
        """(key, title) of every colouring except those of pods."""
        offered = [name for index, name in enumerate(snapshot.resource_names) if snapshot.has_allocatable[index].any()]
        ordered = sorted(offered, key=listing_order)
        yield from ((name, f"{name} requested") for name in ordered[:MAX_RESOURCES])
        yield "pods", "pods per node"
        if snapshot.objects.following(Pools):
            yield DEVICES, "devices held by claims"
        yield from ((f"{METRIC}{name}", f"metric {name}") for name, _ in zip(self._metrics(), range(MAX_METRICS), strict=False))

    def _metrics(self) -> dict[str, typed.Metric]:
        policies = [policy for profile in self._scheduler.profiles for policy in profile.chain.policies]
        return {f"{policy.name}/{metric.name}": metric for policy in policies for metric in policy.policy.metrics}

    def coloring(self, key: str, snapshot: Snapshot) -> Coloring:
        """The colours of all nodes; UnknownObject for a key that does not exist."""
        for prefix, coloring in ((METRIC, self._measured), (POD, self._scores), (GROUP, self._group)):
            if key.startswith(prefix):
                return coloring(key.removeprefix(prefix), snapshot)
        if key == DEVICES:
            return _devices(snapshot)
        if key == "pods":
            return share("pods per node", snapshot.pod_count, snapshot.allowed_pods)
        index = snapshot.resource_index(key)
        if index is None and snapshot.n_nodes:
            raise UnknownObject(f"no node offers {key}")
        if index is None:  # there is no node to offer it
            return share(f"{key} requested", np.zeros(0, np.int64), np.zeros(0, np.int64))
        return share(f"{key} requested", snapshot.requested[index], snapshot.allocatable[index])

    def precompute(self, key: str, snapshot: Callable[[], Snapshot]) -> Iterator[None]:
        """The work of `coloring` in steps: reading the devices and volumes of all nodes.

        `snapshot` returns the present cluster.
        """
        if key == DEVICES:
            yield from DeviceStates.reading(snapshot)
        elif key.startswith(POD):
            pod = self._scheduler.known_pod(key.removeprefix(POD))
            profile = None if pod is None else self._scheduler.profiles.of(pod)
            if pod is not None and profile is not None:
                for _ in Decider(profile.chain).precompute(snapshot, _unbound(pod)):
                    yield

    def _measured(self, name: str, snapshot: Snapshot) -> Coloring:
        metric = self._metrics().get(name)
        if metric is None:
            raise UnknownObject(f"no policy that decides declares the metric {name}")
        column = snapshot.metric(*metric.key.names)
        values = np.full(snapshot.n_nodes, np.nan) if column is None else column.values
        unit = "fraction" if metric.type.kind.value == "percent" else metric.type.kind.value
        present = 0 if column is None else int(column.present.sum())
        return Coloring(
            title=f"metric {name}", unit=unit, **scale_of(values, unit), values=values, note=_coverage(column, present, snapshot)
        )

    def _scores(self, key: str, snapshot: Snapshot) -> Coloring:
        pod = self._scheduler.known_pod(key)
        profile = None if pod is None else self._scheduler.profiles.of(pod)
        if pod is None or profile is None:
            raise UnknownObject(f"there is no pod {key}" if pod is None else f"pod {key} belongs to another scheduler")
        waiting = _unbound(pod)
        evaluation = self._evaluation(profile.chain, waiting, snapshot)
        evaluation.update(waiting, snapshot)
        return points(f"score for {key}", evaluation, snapshot, "" if waiting is pod else " for another like it")

    def _group(self, key: str, snapshot: Snapshot) -> Coloring:
        group = self._scheduler.queue.groups.index.group(key)
        if group is None:
            raise UnknownObject(f"there is no group {key}, or no PodGroup of that name")
        if not group.placed:
            return self._room(group, snapshot)
        counts = Counter(pod.node_name for pod in group.placed)
        rows = [row for name in counts if (row := snapshot.row(name)) is not None]
        keys = [level.key for level in group.terms.levels]
        values = np.full(snapshot.n_nodes, np.nan)
        for domain in domains(keys, snapshot) if keys else ():
            if np.isin(rows, domain.rows).any():
                values[domain.rows] = 0.0
        for row in rows:
            values[row] = counts[snapshot.names[row]]
        note = f"{count(sum(counts.values()), 'member')} on {count(len(rows), 'node')}"
        return Coloring(title=f"members of {key}", unit="members", **scale_of(values, "members"), values=values, note=note)

    def _room(self, group: Group, snapshot: Snapshot) -> Coloring:
        """The number of members of a waiting group that the domain of each node may take, at least."""
        profile = self._scheduler.profiles.of(group.waiting[0])
        if profile is None:
            raise UnknownObject(f"group {group.key} belongs to another scheduler")
        if self._decider is None or self._decider.chain is not profile.chain:
            self._decider = Decider(profile.chain, max_cells=MAX_CELLS)
        found = domains([level.key for level in group.terms.levels if level.required], snapshot)
        values = np.full(snapshot.n_nodes, np.nan)
        for each in at_once(member_classes.classes(self._decider, group.waiting, snapshot))[:MAX_FOLLOWED]:
            room = np.minimum(member_classes.room(self._decider, snapshot, each.pod), len(each.members))
            for domain in found:
                taken = min(len(each.members), int(room[domain.rows].sum()))
                values[domain.rows] = np.nan_to_num(values[domain.rows]) + taken
        best = int(np.nanmax(values)) if np.isfinite(values).any() else 0
        note = f"no domain may take more than {best} of {count(len(group.waiting), 'waiting member')}"
        return Coloring(title=f"room for {group.key}", unit="members", low=0.0, high=float(len(group.waiting)), values=values, note=note)

    def _evaluation(self, chain: Chain, pod: PodView, snapshot: Snapshot) -> Evaluation:
        kept = self._evaluations.pop(pod.uid, None)
        key = chain.key(pod, snapshot)
        if kept is None or kept.chain is not chain or kept.key != key:
            kept = _PodEvaluation(chain, key, Evaluation(chain.pod_rules(pod, snapshot)))
        self._evaluations[pod.uid] = kept
        while len(self._evaluations) > MAX_FOLLOWED:
            self._evaluations.popitem(last=False)
        return kept.evaluation


def _devices(snapshot: Snapshot) -> Coloring:
    """The allocated part of each node's devices; nodes with equal devices and equal allocations are counted once."""
    states = snapshot.objects.following(DeviceStates)
    found, numbers = np.unique(states.ids(snapshot), return_inverse=True)
    counts = [_held_of(states.state(number)) for number in found.tolist()]
    held, offered = np.array(counts, np.int64).reshape(-1, 2)[numbers.reshape(-1)].T
    return share("devices held by claims", held, offered)


def _held_of(state: State) -> tuple[int, int]:
    """(devices that are allocated in whole or in part, all devices) of a node, without those that it cannot reach."""
    held = offered = 0
    for pool, usage in zip(state.node.pools, state.usage, strict=True):
        reachable = [True] * len(pool.devices) if pool.reachable is None else pool.reachable
        offered += sum(reachable)
        held += sum(position < len(reachable) and reachable[position] for position, _ in usage)
    return held, offered


def _unbound(pod: PodView) -> PodView:
    """The pod as it was before it was bound: bound, it would fit its own node alone."""
    return PodView(replace(pod.object, spec=replace(pod.object.spec, node_name=""))) if pod.node_name else pod


def _coverage(column: object, present: int, snapshot: Snapshot) -> str:
    return "there are no samples yet" if column is None else f"samples of {present} of {count(snapshot.n_nodes, 'node')}"
