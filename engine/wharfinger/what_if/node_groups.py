"""Ranks groups of nodes for an autoscaler, so that pending pods get the nodes that the policies prefer.

Each group is tried alone: its nodes are added, and its pods are placed by the chain. Most pods placed wins; a pod that finds a node only
where others are evicted for it does not count. Among equal groups the points decide: one node of each is added at the same time, and each
pod sees them side by side. Then fewer nodes, then the smaller share of what is left free on them, then the name.

An autoscaler describes the nodes of a group, but not their devices. They are assumed to be those of a node of the same kind.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.plugins.devices.extended_resources import backed
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.node_labels import HOSTNAME, INSTANCE_TYPE
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.placing import queue_order
from wharfinger.what_if.supposed_changes import NewNode, SupposedChanges, evaluated, node_like

MIN_PODS, MIN_PODS_TOGETHER = 500, 1_000
"""Pods of a group, and of all groups together, that are placed in any case, the first in the queue: a second if no two pods are equal."""
BUDGET = 3.0
"""Seconds for all groups together, after which no more than these are placed: an autoscaler waits for five seconds only."""
RESOURCES = ("cpu", "memory")
Devices: TypeAlias = tuple[str, Sequence[objects.ResourceSlice]]
"""The node of the cluster whose devices the nodes of a group are taken to have, and its own slices; "" if no node of their kind has any."""


class NodeGroup(Struct, frozen=True, kw_only=True):
    """A group that an autoscaler could grow: `count` nodes like `node`, for these pods."""

    name: str
    node: objects.Node
    count: int
    pods: tuple[PodView, ...]


class RankedGroup(Struct, frozen=True, kw_only=True):
    """The effect of growing a group.

    `placed` of the first `tried` of `pods` find a node, on `nodes` new ones; `free` is the share of the cpu and memory of all new nodes
    that stays free. `points` are the sums of the pods' totals on a new node, in the order of the tiers; empty if they did not have to
    decide. `devices_of` is the node whose devices the new ones are taken to have: "" if there is none, None if no pod requests devices.
    """

    name: str
    pods: int
    tried: int
    placed: int
    nodes: int
    free: float
    points: tuple[float, ...] = ()
    devices_of: str | None = None

    def __str__(self) -> str:
        points = f", {' / '.join(f'{total:g}' for total in self.points)} points" if self.points else ""
        cut = "" if self.tried == self.pods else f" (of {self.pods:,}; there was time for no more)"
        devices = ""
        if self.devices_of is not None:
            devices = f", devices as on {self.devices_of}" if self.devices_of else ", without devices, as no node of its kind has any"
        nodes = count(self.nodes, "new node")
        return f"{self.placed} of {count(self.tried, 'pod')}{cut} on {nodes}{points}, {self.free:.0%} of them free{devices}"


def ranked_groups(
    chain: Chain, state: ClusterState, groups: Sequence[NodeGroup], now: Callable[[], float] = time.monotonic
) -> Generator[None, None, tuple[RankedGroup, ...]]:
    """A generator of steps, about one decision each, that returns the groups, best first. The state is left as it was.

    All groups are tried with as many of their first pods as there is time for, by `now`: all, or at least the same number of each group.
    """
    least = max(1, min(MIN_PODS, MIN_PODS_TOGETHER // max(1, len(groups))))
    ends = now() + BUDGET
    devices = _devices(state, groups)
    tried: list[RankedGroup] = []
    for group in groups:
        tried += [(yield from _alone(chain, state, group, devices[group.name], least))]
    took = max(now() - ends + BUDGET, 1e-9)
    limit = int(least * (BUDGET - took) / took)  # the number that the time left is enough for
    if limit > least and any(found.tried < found.pods for found in tried):
        for place, group in enumerate(groups):
            if tried[place].tried < tried[place].pods:
                tried[place] = yield from _alone(chain, state, group, devices[group.name], limit)
    best = max((found.placed for found in tried), default=0)
    equal = [group for group, found in zip(groups, tried, strict=True) if found.placed == best]
    looked_at = max((found.tried for found in tried), default=0)
    seen = [replace(group, pods=tuple(queue_order(chain, group.pods)[:looked_at])) for group in equal]
    points = (yield from _points(chain, state, seen, devices, least)) if len(equal) > 1 and best else {}
    ranked = [replace(found, points=points.get(found.name, ())) for found in tried]
    return tuple(sorted(ranked, key=lambda found: (-found.placed, [-total for total in found.points], found.nodes, found.free, found.name)))


def _alone(chain: Chain, state: ClusterState, group: NodeGroup, devices: Devices, limit: int) -> Generator[None, None, RankedGroup]:
    """A generator of steps that returns the group, with its nodes added and `limit` of its pods placed."""
    pods = queue_order(chain, group.pods)[:limit]
    with SupposedChanges(state) as supposed:
        added = yield from _added(supposed, group, devices, group.count)
        new = {node.name for node in added}
        results = yield from evaluated(Decider(chain), supposed, pods)
        found = [each for each in results.pods if each.node is not None and not each.victims]
        free = _free(state, new)
        asks = any(pod.object.spec.resource_claims or backed(pod, state.objects) for pod in group.pods)
    return RankedGroup(
        name=group.name,
        pods=len(group.pods),
        tried=len(pods),
        placed=len(found),
        nodes=len({each.node for each in found if each.node in new}),
        free=free,
        devices_of=devices[0] if asks else None,
    )


def _added(supposed: SupposedChanges, group: NodeGroup, devices: Devices, how_many: int) -> Generator[None, None, list[NewNode]]:
    """A generator of steps that returns new nodes of the group, added under names that no node has."""
    taken = supposed.state.snapshot()
    names = (name for number in range(1, taken.n_nodes + how_many + 1) if taken.row(name := f"{group.name}-new-{number}") is None)
    _, slices = devices
    new = [node_like(group.node, name, slices=slices) for name, _ in zip(names, range(how_many), strict=False)]
    for node in new:
        supposed.add(node)
        yield
    return new


def _devices(state: ClusterState, groups: Sequence[NodeGroup]) -> dict[str, Devices]:
    """The devices of the nodes of each group, by its name."""
    snapshot, local = state.snapshot(), defaultdict[str, list[objects.ResourceSlice]](list)
    for each in state.objects.all(objects.ResourceSlice):
        if each.spec.node_name and snapshot.row(each.spec.node_name) is not None:
            local[each.spec.node_name].append(each)
    labels = {name: _labels(snapshot.node_object(snapshot.known_row(name))) for name in local}
    models = {group.name: _of_same_kind(_labels(group.node), labels) for group in groups}
    return {group: (model, local[model] if model else ()) for group, model in models.items()}


def _of_same_kind(wanted: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]) -> str:
    """The node with the same labels, or else of the same instance type; of several the first by name, "" if there is none."""
    found = [
        (own != wanted, name)
        for name, own in labels.items()
        if own == wanted or (INSTANCE_TYPE in wanted and own.get(INSTANCE_TYPE) == wanted[INSTANCE_TYPE])
    ]
    return min(found)[1] if found else ""


def _labels(node: objects.Node) -> dict[str, str]:
    """The labels of a node but the one that is its name."""
    return {key: value for key, value in node.metadata.labels.items() if key != HOSTNAME}


def _free(state: ClusterState, names: set[str]) -> float:
    """The mean share of cpu and memory that is free on these nodes; 0 without any."""
    snapshot = state.snapshot()
    rows = [snapshot.known_row(name) for name in sorted(names)]
    shares = []
    for resource in RESOURCES:
        index = snapshot.resource_index(resource)
        offered = 0 if index is None else int(snapshot.allocatable[index][rows].sum())
        if index is not None and offered:
            shares.append(1 - int(snapshot.requested[index][rows].sum()) / offered)
    return sum(shares) / len(shares) if shares else 0.0


def _points(
    chain: Chain, state: ClusterState, groups: Sequence[NodeGroup], devices: Mapping[str, Devices], kinds: int
) -> Generator[None, None, dict[str, tuple[float, ...]]]:
    """A generator of steps that returns the sum of the totals of the pods of each group on its new node.

    The cluster has one new node per group. Pods of other templates than the first `kinds` of a group do not count.
    """
    with SupposedChanges(state) as supposed:
        nodes = {}
        for group in groups:
            [node] = yield from _added(supposed, group, devices[group.name], 1)
            nodes[group.name] = node.name
        snapshot, decider = state.snapshot(), Decider(chain)
        found: dict[str, defaultdict[int, float]] = {}
        for group in groups:
            totals = found[group.name] = defaultdict(float)
            alike = Counter(pod.template for pod in group.pods)
            first = {pod.template: pod for pod in reversed(group.pods)}
            for pod in [first[template] for template in islice(alike, kinds)]:
                for part in decider.decide(snapshot, pod).scores_at(nodes[group.name]):
                    totals[part.tier] += part.weighted * alike[pod.template]
                yield
    tiers = sorted(set().union(*found.values()))
    return {name: tuple(totals[tier] for tier in tiers) for name, totals in found.items()}
