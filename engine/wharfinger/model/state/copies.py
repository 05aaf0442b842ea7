"""Copies of a cluster's state: one made in steps, one that follows the state, and checkpoints to restore a state from.

Nodes and pods are immutable values, so a copy starts as a list of references, taken in one go while the snapshot is current. Building the
tables of the copy takes longer and is done in steps, so that the event loop is not blocked. `copied` returns a state that can be changed on
its own. A `FollowedCopy` is brought up to date when it is needed, which takes time in proportion to what has changed since: it keeps
references to the objects that it was made of. An object with another identity has changed. A `Checkpoint` keeps also which pods are assumed
or aside; `put_back` and `set_revision` restore a state with the same rows, pods and revision from it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field

from wharfinger.model import objects
from wharfinger.model.columns.metric_table import Samples
from wharfinger.model.devices.allocated import Allocations, InFlight
from wharfinger.model.devices.device import DeviceSource
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.object_store import ObjectStore
from wharfinger.model.state.snapshot import Snapshot

T = TypeVar("T")

OBJECTS_PER_STEP = 50
"""Objects per step of a copy: well below a millisecond of work."""


def copied(snapshot: Snapshot, without: Container[str] = ()) -> Generator[None, None, ClusterState]:
    """A generator of steps that returns the copy; the first step must run while the snapshot is current.

    Placed pods whose uid is among `without` are left out.
    """
    tables = snapshot._current()  # noqa: SLF001 — row by row would take twice as long, and this step blocks the loop
    nodes = list(tables.nodes.objects)
    pods = [placement.pod for members in tables.pods.by_row for uid, placement in members.items() if uid not in without]
    nominated = [(pod, snapshot.names[row]) for row in snapshot.nominated_rows.tolist() for pod in snapshot.nominated(row)]
    others = list(snapshot.objects)
    in_flight = _in_flight(snapshot.objects)
    metrics = dict(snapshot.samples)  # samples are replaced, never changed
    sizes, leaving = dict(snapshot.group_sizes), tuple(snapshot.evicted)
    state = ClusterState(snapshot.now)
    state.read_devices(tables.device_sources)
    state.objects.follow_like(snapshot.objects)
    yield from _in_parts(state.add_node, nodes)
    yield from _in_parts(state.put, others)
    _reserve_in_flight(state, in_flight)
    yield from _in_parts(state.add_pod, pods)
    for pod, name in nominated:
        state.nominate(pod, name)
    for uid in leaving:
        state.expect_leaving(uid)
    for name, samples in metrics.items():
        state.set_metric(name, samples)
        yield
    for key, size in sizes.items():
        state.set_group_size(key, size)
    return state


def _in_parts(put: Callable[[T], None], everything: Sequence[T]) -> Iterator[None]:
    """The steps of putting objects into a state."""
    for number, each in enumerate(everything):
        put(each)
        if number % OBJECTS_PER_STEP == 0:
            yield


# ── a copy that follows ──


class _Seen(Struct):
    """The contents of a copy, by reference: nodes, the pods of each by uid, nominations by uid, and revisions."""

    revision: int = -1
    objects_revision: int = -1
    metrics_revision: int = -1
    nodes: dict[str, objects.Node] = field(default_factory=dict)
    pods: dict[str, dict[str, PodView]] = field(default_factory=dict)
    nominations: dict[str, tuple[PodView, str]] = field(default_factory=dict)
    others: dict[tuple[str, str], objects.AnyObject] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)


class FollowedCopy:
    """A copy of one state. It may be changed for a question, if it is put back before it follows again."""

    def __init__(self) -> None:
        self._state: ClusterState | None = None
        self._seen = _Seen()

    def drop(self) -> None:
        """Free the copy; the next need makes a new one."""
        self._state, self._seen = None, _Seen()

    def follow(self, snapshot: Snapshot) -> Generator[None, None, ClusterState]:
        """A generator of steps that returns the copy as of `snapshot`; the first step must run while the snapshot is current.

        A generator that is not run to its end leaves no copy: the next one makes it again.
        """
        state, seen = self._state or ClusterState(snapshot.now), self._seen
        state.objects.follow_like(snapshot.objects)
        self.drop()
        state.set_time(snapshot.now)
        nodes, pods = _changed(snapshot, seen)
        present = set(snapshot.names)
        nominations = {pod.uid: (pod, snapshot.names[row]) for row in snapshot.nominated_rows.tolist() for pod in snapshot.nominated(row)}
        others = None if snapshot.objects.revision == seen.objects_revision else list(snapshot.objects)
        renewed = snapshot.metrics_revision != seen.metrics_revision
        metrics = dict(snapshot.samples) if renewed else None
        seen.revision, seen.metrics_revision = snapshot.revision, snapshot.metrics_revision
        seen.objects_revision = snapshot.objects.revision
        sizes, leaving = dict(snapshot.group_sizes), set(snapshot.evicted)
        yield
        yield from _follow_nodes(state, seen, nodes, present)
        if others is not None:
            yield from _follow_others(state, seen, others)
        yield from _follow_pods(state, seen, pods)
        _follow_nominations(state, seen, nominations)
        for key in {*state.snapshot().group_sizes, *sizes}:
            state.set_group_size(key, sizes.get(key, 0))
        for uid in {*state.snapshot().evicted} - leaving:
            state.expect_staying(uid)
        for uid in leaving:
            state.expect_leaving(uid)
        if metrics is not None:
            for name in seen.metrics - metrics.keys():
                state.drop_metric(name)
            for name, samples in metrics.items():
                state.set_metric(name, samples)
                yield
            seen.metrics = set(metrics)
        self._state, self._seen = state, seen
        return state


def _changed(snapshot: Snapshot, seen: _Seen) -> tuple[dict[str, objects.Node], dict[str, dict[str, PodView]]]:
    """The nodes that may have changed since, and the pods of nodes whose pods may have."""
    tables = snapshot._current()  # noqa: SLF001 — row by row would take several times as long, and this step blocks the loop
    names, every = snapshot.names, range(snapshot.n_nodes)
    node_rows, pod_rows = (
        every if rows is None else rows.tolist() for rows in (snapshot.node_changes(seen.revision), snapshot.usage_changes(seen.revision))
    )
    nodes = {names[row]: tables.nodes.objects[row] for row in node_rows}
    return nodes, {names[row]: {uid: placement.pod for uid, placement in tables.pods.by_row[row].items()} for row in pod_rows}


def _follow_nodes(state: ClusterState, seen: _Seen, nodes: Mapping[str, objects.Node], present: set[str]) -> Generator[None, None, None]:
    for name in seen.nodes.keys() - present:
        for pod in seen.pods.pop(name, {}).values():
            state.remove_pod(pod)
        state.remove_node(name)
        del seen.nodes[name]
    for number, (name, node) in enumerate(nodes.items()):
        if seen.nodes.get(name) is not node:
            state.add_node(node)
            seen.nodes[name] = node
        if number % OBJECTS_PER_STEP == 0:
            yield


def _follow_pods(state: ClusterState, seen: _Seen, pods: Mapping[str, dict[str, PodView]]) -> Generator[None, None, None]:
    """First the pods that have left their node, so that one that has moved is not taken from where it is now."""
    for number, (name, now) in enumerate(pods.items()):
        for uid, pod in seen.pods.get(name, {}).items():
            if uid not in now:
                state.remove_pod(pod)
        if number % OBJECTS_PER_STEP == 0:
            yield
    for number, (name, now) in enumerate(pods.items()):
        before = seen.pods.get(name, {})
        for uid, pod in now.items():
            if before.get(uid) is not pod:
                state.add_pod(pod)
        seen.pods[name] = now
        if number % (OBJECTS_PER_STEP // 10) == 0:
            yield


def _follow_others(state: ClusterState, seen: _Seen, others: list[objects.AnyObject]) -> Generator[None, None, None]:
    now = {}
    for number, obj in enumerate(others):
        key = objects.kind_of(obj), objects.key_of(obj)
        now[key] = obj
        if seen.others.get(key) is not obj:
            state.put(obj)
        if number % OBJECTS_PER_STEP == 0:
            yield
    for kind, name in seen.others.keys() - now.keys():
        state.drop(kind, name)
    seen.others = now


def _follow_nominations(state: ClusterState, seen: _Seen, nominations: dict[str, tuple[PodView, str]]) -> None:
    for uid, (pod, node) in seen.nominations.items():
        found = nominations.get(uid)
        if found is None or found[0] is not pod or found[1] != node:
            state.remove_nomination(pod)
    for pod, node in nominations.values():
        if state.snapshot().nominated_to(pod.uid) != node:
            state.nominate(pod, node)
    seen.nominations = nominations


# ── checkpoints ──


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A copy of a state by reference: everything in it is immutable.

    `pods`, `names` (of their nodes) and `assumed` are parallel lists: first the pods by row and in their order on the row, then those
    aside. A tuple for each of fifty thousand pods would take ten times as long. `nominations` are (pod, node), `leaving` the uids of pods
    that are being evicted.
    """

    revision: int
    nodes: tuple[objects.Node, ...]
    others: tuple[objects.AnyObject, ...]
    pods: Sequence[PodView]
    names: Sequence[str]
    assumed: Sequence[bool]
    nominations: tuple[tuple[PodView, str], ...]
    metrics: Mapping[str, Samples]
    device_sources: tuple[DeviceSource, ...] = ()
    group_sizes: Mapping[str, int] = field(default_factory=dict)
    leaving: tuple[str, ...] = ()
    in_flight: tuple[InFlight, ...] = ()


def checkpoint_of(state: ClusterState) -> Checkpoint:
    """The checkpoint of the present state; takes some milliseconds for tens of thousands of pods."""
    tables = state._tables  # noqa: SLF001 — only copies need rows in order
    names = tables.nodes.names
    placed = [placement for members in tables.pods.by_row for placement in members.values()]
    aside = state._aside.items()  # noqa: SLF001 — as above
    return Checkpoint(
        revision=tables.revision,
        nodes=tuple(tables.nodes.objects),
        others=tuple(tables.objects),
        pods=[placement.pod for placement in placed] + [pod for (pod, _), _ in aside],
        names=[names[placement.row] for placement in placed] + [name for _, name in aside],
        assumed=[placement.assumed for placement in placed] + [assumed for (_, assumed), _ in aside],
        nominations=tuple(tables.nominations.items()),
        metrics=dict(tables.metrics.samples),
        device_sources=tables.device_sources,
        group_sizes=dict(tables.group_sizes),
        leaving=tuple(tables.leaving),
        in_flight=_in_flight(tables.objects),
    )


def _in_flight(store: ObjectStore) -> tuple[InFlight, ...]:
    known = store.existing_follower(Allocations)
    return () if known is None else tuple(known.all_in_flight())


def _reserve_in_flight(state: ClusterState, in_flight: Sequence[InFlight]) -> None:
    for flight in in_flight:
        for _ in range(flight.sharers):
            state.reserve_devices(flight.claim, flight.allocation)


def put_back(state: ClusterState, pod: PodView, node: str, *, assumed: bool) -> None:
    """Place a pod of a checkpoint in a state that already has the nodes."""
    if not assumed:
        state.add_pod(pod if pod.node_name == node else pod.placed_on(node))
    elif node in state._tables.nodes.row_of:  # noqa: SLF001 — as above
        state.assume(pod, node)
    else:
        state._aside.put(pod.uid, node, (pod.placed_on(node), True))  # noqa: SLF001 — as above


def set_revision(state: ClusterState, revision: int) -> None:
    """Set the revision of a completely restored state; later changes continue from it."""
    tables = state._tables  # noqa: SLF001 — as above
    tables.revision = tables.layout_revision = revision


def restored(cluster: Checkpoint, now: float) -> ClusterState:
    """A new state with the contents of a checkpoint, at the time `now`."""
    state = ClusterState(now)
    state.read_devices(cluster.device_sources)
    for node in cluster.nodes:
        state.add_node(node)
    for obj in cluster.others:
        state.put(obj)
    _reserve_in_flight(state, cluster.in_flight)
    for pod, name, assumed in zip(cluster.pods, cluster.names, cluster.assumed, strict=True):
        put_back(state, pod, name, assumed=assumed)
    for pod, name in cluster.nominations:
        state.nominate(pod, name)
    for uid in cluster.leaving:
        state.expect_leaving(uid)
    for metric, samples in cluster.metrics.items():
        state.set_metric(metric, samples)
    for key, size in cluster.group_sizes.items():
        state.set_group_size(key, size)
    return state
