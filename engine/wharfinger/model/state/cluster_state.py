"""The state of the cluster as the scheduler knows it, kept up to date by watch events and by its own decisions; and copies of it.

Nodes and pods are immutable values, so a copy starts as a list of references. Building the tables of the copy takes longer and is done in
steps, so that the event loop is not blocked. `copied` returns a state that can be changed on its own. A `Checkpoint` keeps also which pods
are assumed or aside; `put_back` and `set_revision` restore a state with the same rows, pods and revision from it.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wharfinger.errors import UnknownObject
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model import objects as kubernetes
from wharfinger.model.columns.metric_table import MetricColumn, Samples
from wharfinger.model.columns.pod_table import Placement
from wharfinger.model.devices.allocated import Allocations, InFlight
from wharfinger.model.devices.device import DeviceSource
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading.files import Objects
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.model.state.tables import ClusterTables, ObjectStore

OBJECTS_PER_STEP = 50
"""Objects per step of a copy: well below a millisecond of work."""


class PodsOnUnknownNodes:
    """Pods on unknown nodes: the node has not been seen yet, or was removed. They are not counted until the node appears."""

    __slots__ = ("_by_node", "_node_of")

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, tuple[PodView, bool]]] = {}
        self._node_of: dict[str, str] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._node_of

    def __iter__(self) -> Iterator[tuple[PodView, str, bool]]:
        """Each pod, its node, and whether it is assumed."""
        for node, pods in self._by_node.items():
            yield from ((pod, node, assumed) for pod, assumed in pods.values())

    def put(self, pod: PodView, node: str, *, assumed: bool) -> None:
        """Keep a pod until its node appears; replaces an earlier entry of the pod."""
        self.take(pod.uid)
        self._by_node.setdefault(node, {})[pod.uid] = pod, assumed
        self._node_of[pod.uid] = node

    def take(self, uid: str) -> bool:
        """Remove a pod; True if it was here."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return False
        pods = self._by_node[node]
        del pods[uid]
        if not pods:
            del self._by_node[node]
        return True

    def take_all(self, node: str) -> list[tuple[PodView, bool]]:
        """Remove the pods of a node; returns each with whether it is assumed."""
        pods = self._by_node.pop(node, {})
        for uid in pods:
            del self._node_of[uid]
        return list(pods.values())

    def is_assumed(self, uid: str) -> bool:
        """True if the pod of that uid is here and assumed."""
        node = self._node_of.get(uid)
        return node is not None and self._by_node[node][uid][1]


class ClusterState:
    """Nodes, placed pods and all other objects that decisions read.

    A pod, by uid, is in one of these states (the same as in the cache of kube-scheduler 1.36, pkg/scheduler/backend/cache):

                      assume                        add_pod (confirm: the watch saw the binding)
        ┌─────────┐ ─────────▶ ┌─────────┐ ─────────────────────────────▶ ┌────────┐ ──┐ add_pod
        │ unknown │            │ assumed │                                │ placed │   │ (resized, relabelled,
        └─────────┘ ◀───────── └─────────┘                                └────────┘ ◀─┘  terminating)
          │  ▲  ▲     forget                                                ▲  │
          │  │  └───────────────────────────────────────────────────────────┼──┘ remove_pod, or update to Succeeded / Failed
          └──┼──────────────────────────────────────────────────────────────┘
             │        add_pod
             └ a pod without a node is unknown here: it waits in the queue, and its updates change nothing

    An assumed or placed pod may also be *aside*: its node is not known (the node's event has not arrived yet, or the node was removed
    first). The pod is not counted until the node appears.

    Events may be lost and lists repeated. The last version from the API server always wins: a pod confirmed on another node than
    it was assumed on moves there; an update or a repeated add of an unknown pod adds it; removing or forgetting an unknown pod
    changes nothing, and neither does forgetting a placed pod. Only the scheduler's own decisions must follow the diagram: assuming
    a pod that is assumed or placed already raises ValueError, assuming it on an unknown node UnknownObject. An object whose
    quantities cannot be read raises InvalidObject and changes nothing.
    """

    def __init__(self, now: float | None = None) -> None:
        self._tables = ClusterTables()
        self._aside = PodsOnUnknownNodes()
        self._now = now

    @classmethod
    def from_objects(cls, found: Objects, now: float | None = None) -> ClusterState:
        """The state described by objects that were read; pending pods are left out unless they are nominated.

        `now` is the time of the state, by default the latest time in its objects or the time of capture, whichever is later.
        """
        state = cls(now)
        for kind, members in found.by_kind.items():
            if kind not in (kubernetes.Node, kubernetes.Pod):
                for obj in members:
                    state.put(obj)
        for node in found.nodes:
            state.add_node(node)
        for pod in found.pods:
            state.add_pod(found.view(pod))
        if now is None and found.taken_at is not None:
            state._now = max(state._tables.newest, found.taken_at)
        taken = state.snapshot().now
        for name, samples in found.metrics.items():
            timed = {node: (value, taken if time is None else time) for node, (value, time) in samples.items()}
            state.set_metric(name, timed)
        return state

    def __repr__(self) -> str:
        nodes, pods = count(self._tables.nodes.rows.count, "node"), count(len(self._tables.pods.entries), "pod")
        return f"ClusterState({nodes}, {pods}, revision {self.revision})"

    @property
    def revision(self) -> int:
        """A number that grows with every change."""
        return self._tables.revision

    @property
    def objects(self) -> ObjectStore:
        """The objects that are neither nodes nor placed pods; change them with `put` and `drop`."""
        return self._tables.objects

    def snapshot(self, now: float | None = None) -> Snapshot:
        """A read-only view of the present state; it may be read until the next change."""
        if now is None:
            now = self._tables.newest if self._now is None else self._now
        return Snapshot(self._tables, now)

    def set_time(self, now: float) -> None:
        """Set the time of later snapshots."""
        self._now = now

    # ── nodes ──

    def add_node(self, node: kubernetes.Node) -> None:
        """Add a node, or update it if it exists; pods that are aside for this node are placed on it."""
        name = node.metadata.name
        if name in self._tables.nodes.row_of:
            self._tables.update_node(node)
            return
        row = self._tables.add_node(node)
        for pod, assumed in self._aside.take_all(name):
            self._tables.put(pod, row, assumed=assumed)

    def update_node(self, node: kubernetes.Node) -> None:
        """Update a node, or add it if it does not exist."""
        self.add_node(node)

    def remove_node(self, name: str) -> bool:
        """Remove a node; True if it existed. Its pods are kept aside until it is added again."""
        if name not in self._tables.nodes.row_of:
            return False
        orphans = self._tables.remove_node(name)
        for placement in orphans:
            self._aside.put(placement.pod, name, assumed=placement.assumed)
        return True

    # ── pods ──

    def add_pod(self, pod: kubernetes.Pod | PodView) -> None:
        """Apply the pod as the API server has it: place, confirm or move it, or remove it if it has finished."""
        view = pod if isinstance(pod, PodView) else PodView(pod)
        if view.finished:
            self.remove_pod(view)
        elif view.node_name:
            self._place(view)
        elif view.nominated_node and not self.is_placed(view.uid):
            self.nominate(view, view.nominated_node)

    def _place(self, pod: PodView) -> None:
        tables = self._tables
        pod.demand  # noqa: B018 - derived now, so that a pod that cannot be read changes nothing
        placement = tables.pods.by_uid.get(pod.uid)
        stays = placement is not None and tables.nodes.names[placement.row] == pod.node_name
        if placement is not None and stays and _same(placement.pod, pod):
            placement.pod, placement.assumed = pod, False
            tables.revision += 1
            return
        tables.denominate(pod.uid)
        tables.see(pod.created)
        tables.see(pod.started)
        if placement is not None and stays and placement.pod.demand == pod.demand:
            tables.renew(placement, pod)  # with the binding, an API server of 1.35 or later adds labels of the node
            return
        self._remove_placement(pod.uid)
        row = tables.nodes.row_of.get(pod.node_name)
        if row is None:
            self._aside.put(pod, pod.node_name, assumed=False)
        else:
            tables.put(pod, row, assumed=False)

    def remove_pod(self, pod: kubernetes.Pod | PodView) -> bool:
        """Remove a pod in any state; True if it was known."""
        uid = pod.uid if isinstance(pod, PodView) else PodView(pod).uid
        nominated = self._tables.denominate(uid)
        self._tables.leaving.discard(uid)
        return self._remove_placement(uid) or nominated

    def assume(self, pod: PodView, node_name: str) -> None:
        """Count a pod on the node that was chosen for it, before the API server has the binding."""
        tables = self._tables
        row = tables.nodes.row_of.get(node_name)
        if row is None:
            raise UnknownObject(f"pod {pod.key} cannot be assumed on node {node_name!r}: there is no such node")
        if self.is_placed(pod.uid):
            raise ValueError(f"pod {pod.key} cannot be assumed: it is assumed or placed already")
        tables.put(pod.placed_on(node_name), row, assumed=True)
        tables.denominate(pod.uid)

    def forget(self, pod: PodView) -> bool:
        """Remove an assumed pod; True if it was assumed. A confirmed pod stays."""
        placement = self._tables.pods.by_uid.get(pod.uid)
        if placement is not None:
            if placement.assumed:
                self._tables.take_out(placement)
                self._tables.leaving.discard(pod.uid)
            return placement.assumed
        return self._aside.is_assumed(pod.uid) and self._aside.take(pod.uid)

    def _remove_placement(self, uid: str) -> bool:
        placement: Placement | None = self._tables.pods.by_uid.get(uid)
        if placement is not None:
            self._tables.take_out(placement)
            return True
        return self._aside.take(uid)

    def is_placed(self, uid: str) -> bool:
        """True if a pod is assumed or placed, on a known node or aside."""
        return uid in self._tables.pods.by_uid or uid in self._aside

    def is_assumed(self, uid: str) -> bool:
        """True if a pod is assumed and not confirmed yet."""
        placement = self._tables.pods.by_uid.get(uid)
        if placement is not None:
            return placement.assumed
        return self._aside.is_assumed(uid)

    def placements(self) -> Iterator[tuple[PodView, bool]]:
        """Every pod that is assumed (True) or placed (False), on a known node or aside."""
        yield from ((placement.pod, placement.assumed) for placement in self._tables.pods.by_uid.values())
        yield from ((pod, assumed) for pod, _, assumed in self._aside)

    def nominate(self, pod: PodView, node_name: str) -> None:
        """Nominate a node for a pending pod, by preemption; valid until the pod is assumed, placed, removed or denominated."""
        self._tables.nominate(pod, node_name)

    def denominate(self, pod: PodView) -> bool:
        """Remove the nomination of a pod; True if it had one."""
        return self._tables.denominate(pod.uid)

    def expect_leaving(self, uid: str) -> None:
        """Note that a pod is being evicted by this scheduler; valid until it is removed, forgotten or `expect_staying` is called."""
        self._tables.set_leaving(uid, leaves=True)

    def expect_staying(self, uid: str) -> bool:
        """Undo `expect_leaving`; True if it had been called for the pod."""
        return self._tables.set_leaving(uid, leaves=False)

    # ── everything else ──

    def put(self, obj: kubernetes.AnyObject) -> None:
        """Add or replace any object: nodes and pods as in `add_node` and `add_pod`, others in `objects`."""
        if isinstance(obj, kubernetes.Node):
            self.add_node(obj)
        elif isinstance(obj, kubernetes.Pod):
            self.add_pod(obj)
        else:
            self._tables.revision += 1
            self._tables.objects.put(obj)
            self._tables.objects_changed()

    def drop(self, kind: str, key: str) -> bool:
        """Remove an object of `objects` by kind and key (`namespace/name` or `name`); True if it existed."""
        self._tables.revision += 1
        dropped = self._tables.objects.drop(kind, key)
        self._tables.objects_changed()
        return dropped

    def take_devices(self, claim: kubernetes.ResourceClaim, allocation: kubernetes.Allocation) -> None:
        """Count the devices of an allocation as taken before it is written to the claim; `give_back_devices` ends that."""
        self._tables.revision += 1
        self._tables.objects.following(Allocations).take(claim, allocation)
        self._tables.objects_changed()

    def give_back_devices(self, claim: kubernetes.ResourceClaim, *, written: bool = False) -> bool:
        """Undo `take_devices` of one pod; True if no pod needs the allocation in flight any more. `written`: the claim's status has it."""
        self._tables.revision += 1
        gone = self._tables.objects.following(Allocations).release(claim, written=written)
        self._tables.objects_changed()
        return gone

    def read_devices(self, sources: Sequence[DeviceSource]) -> None:
        """Ask these sources for the devices of nodes from now on; a device of an earlier one comes first."""
        self._tables.read_devices(sources)

    def set_group_size(self, key: str, size: int) -> None:
        """Set how many members of a group (`namespace/name`) are known, placed or not; 0 forgets the group."""
        self._tables.set_group_size(key, size)

    def set_metric(self, name: str, samples: Samples) -> None:
        """Replace the samples of a metric: node name → (value, time in seconds since 1970)."""
        self._tables.set_metric(name, samples)

    def put_metric(self, name: str, column: MetricColumn, samples: Samples, layout: int) -> None:
        """The same for finite samples with their column, which was built for the rows of `nodes_listed` in that layout."""
        self._tables.put_metric(name, column, samples, layout)

    def drop_metric(self, name: str) -> None:
        """Remove a metric; no error if it is not there."""
        self._tables.drop_metric(name)

    def nodes_listed(self) -> tuple[int, list[str], list[kubernetes.Node]]:
        """The layout number of the rows, and copies of the lists of node names and node objects in row order."""
        nodes = self._tables.nodes
        return nodes.rows.layout, list(nodes.names), list(nodes.objects)


def _same(old: PodView, new: PodView) -> bool:
    """True if two versions of a pod are equal in everything that decisions read."""
    return (
        old.template == new.template
        and old.name == new.name
        and old.created == new.created
        and old.started == new.started
        and _phase(old) == _phase(new)
    )


def _phase(pod: PodView) -> str:
    return pod.object.status.phase


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
    metrics = {name: dict(samples) for name, samples in snapshot.samples.items()}
    sizes, leaving = dict(snapshot.group_sizes), tuple(snapshot.evicted)
    state = ClusterState(snapshot.now)
    state.read_devices(tables.device_sources)
    for number, node in enumerate(nodes):
        state.add_node(node)
        if number % OBJECTS_PER_STEP == 0:
            yield
    for obj in others:
        state.put(obj)
    _take_off(state, in_flight)
    for number, pod in enumerate(pods):
        state.add_pod(pod)
        if number % OBJECTS_PER_STEP == 0:
            yield
    for pod, name in nominated:
        state.nominate(pod, name)
    for uid in leaving:
        state.expect_leaving(uid)
    for name, samples in metrics.items():
        state.set_metric(name, samples)
    for key, size in sizes.items():
        state.set_group_size(key, size)
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
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
    aside = list(state._aside)  # noqa: SLF001 — likewise
    return Checkpoint(
        revision=tables.revision,
        nodes=tuple(tables.nodes.objects),
        others=tuple(tables.objects),
        pods=[placement.pod for placement in placed] + [pod for pod, _, _ in aside],
        names=[names[placement.row] for placement in placed] + [name for _, name, _ in aside],
        assumed=[placement.assumed for placement in placed] + [assumed for _, _, assumed in aside],
        nominations=tuple(tables.nominations.items()),
        metrics=dict(tables.metrics.samples),
        device_sources=tables.device_sources,
        group_sizes=dict(tables.group_sizes),
        leaving=tuple(tables.leaving),
        in_flight=_in_flight(tables.objects),
    )


def _in_flight(store: ObjectStore) -> tuple[InFlight, ...]:
    known = store.followed(Allocations)
    return () if known is None else tuple(known.all_in_flight())


def _take_off(state: ClusterState, in_flight: Sequence[InFlight]) -> None:
    for flight in in_flight:
        for _ in range(flight.sharers):
            state.take_devices(flight.claim, flight.allocation)


def put_back(state: ClusterState, pod: PodView, node: str, *, assumed: bool) -> None:
    """Place a pod of a checkpoint in a state that already has the nodes."""
    if not assumed:
        state.add_pod(pod if pod.node_name == node else pod.placed_on(node))
    elif node in state._tables.nodes.row_of:  # noqa: SLF001 — likewise
        state.assume(pod, node)
    else:
        state._aside.put(pod.placed_on(node), node, assumed=True)  # noqa: SLF001 — likewise


def set_revision(state: ClusterState, revision: int) -> None:
    """Set the revision of a completely restored state; later changes continue from it."""
    tables = state._tables  # noqa: SLF001 — likewise
    tables.revision = tables.layout_revision = revision


def restored(cluster: Checkpoint, now: float) -> ClusterState:
    """A new state of what a checkpoint has, at the time `now`."""
    state = ClusterState(now)
    state.read_devices(cluster.device_sources)
    for node in cluster.nodes:
        state.add_node(node)
    for obj in cluster.others:
        state.put(obj)
    _take_off(state, cluster.in_flight)
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
