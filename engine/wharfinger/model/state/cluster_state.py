"""The state of the cluster in the scheduler, updated by watch events and by its own decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wharfinger.errors import UnknownObject
from wharfinger.language.report.wording import count
from wharfinger.model import objects as kubernetes
from wharfinger.model.columns.metric_table import MetricColumn, Samples
from wharfinger.model.columns.pod_table import Placement
from wharfinger.model.devices.allocated import Allocations
from wharfinger.model.devices.device import DeviceSource
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading.files import Objects
from wharfinger.model.state.object_store import ObjectStore
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.model.state.tables import ClusterTables, PodsByNode


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
        self._aside = PodsByNode[tuple[PodView, bool]]()  # on unknown nodes, with whether they are assumed
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

    def snapshot(self, now: float | None = None, monotonic: float | None = None) -> Snapshot:
        """A read-only view of the present state; it may be read until the next change.

        `now` is the time in seconds since 1970, `monotonic` the same moment of a clock that is never set.
        """
        if now is None:
            now = self._tables.newest if self._now is None else self._now
        return Snapshot(self._tables, now, monotonic)

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
            self._aside.put(placement.pod.uid, name, (placement.pod, placement.assumed))
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
        tables.remove_nomination(pod.uid)
        tables.note_time(pod.created)
        tables.note_time(pod.started)
        if placement is not None and stays and placement.pod.demand == pod.demand:
            tables.renew(placement, pod)  # with the binding, an API server of 1.35 or later adds labels of the node
            return
        self._remove_placement(pod.uid)
        row = tables.nodes.row_of.get(pod.node_name)
        if row is None:
            self._aside.put(pod.uid, pod.node_name, (pod, False))
        else:
            tables.put(pod, row, assumed=False)

    def remove_pod(self, pod: kubernetes.Pod | PodView) -> bool:
        """Remove a pod in any state; True if it was known."""
        uid = pod.uid if isinstance(pod, PodView) else PodView(pod).uid
        nominated = self._tables.remove_nomination(uid)
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
        tables.remove_nomination(pod.uid)

    def forget(self, pod: PodView) -> bool:
        """Remove an assumed pod; True if it was assumed. A confirmed pod stays."""
        placement = self._tables.pods.by_uid.get(pod.uid)
        if placement is not None:
            if placement.assumed:
                self._tables.take_out(placement)
                self._tables.leaving.discard(pod.uid)
            return placement.assumed
        return self.is_assumed(pod.uid) and self._aside.take(pod.uid) is not None

    def _remove_placement(self, uid: str) -> bool:
        placement: Placement | None = self._tables.pods.by_uid.get(uid)
        if placement is not None:
            self._tables.take_out(placement)
            return True
        return self._aside.take(uid) is not None

    def is_placed(self, uid: str) -> bool:
        """True if a pod is assumed or placed, on a known node or aside."""
        return uid in self._tables.pods.by_uid or uid in self._aside

    def is_assumed(self, uid: str) -> bool:
        """True if a pod is assumed and not confirmed yet."""
        return self.assumed(uid) is not None

    def assumed(self, uid: str) -> PodView | None:
        """The pod of that uid with its node if it is assumed and not confirmed yet; None otherwise."""
        placement = self._tables.pods.by_uid.get(uid)
        if placement is not None:
            return placement.pod if placement.assumed else None
        aside = self._aside.get(uid)
        return aside[0] if aside is not None and aside[1] else None

    def placements(self) -> Iterator[tuple[PodView, bool]]:
        """Every pod that is assumed (True) or placed (False), on a known node or aside."""
        yield from ((placement.pod, placement.assumed) for placement in self._tables.pods.by_uid.values())
        yield from (pod for pod, _ in self._aside.items())

    @property
    def n_placements(self) -> tuple[int, int]:
        """(how many pods are placed, how many are assumed), on known nodes or aside."""
        placed, aside = self._tables.pods.by_uid.values(), [assumed for (_, assumed), _ in self._aside.items()]
        assumed = sum([placement.assumed for placement in placed]) + sum(aside)
        return len(placed) + len(aside) - assumed, assumed

    def nominate(self, pod: PodView, node_name: str) -> None:
        """Nominate a node for a pending pod, by preemption; valid until the pod is assumed, placed, removed or denominated."""
        self._tables.nominate(pod, node_name)

    def remove_nomination(self, pod: PodView) -> bool:
        """Remove the nomination of a pod; True if it had one."""
        return self._tables.remove_nomination(pod.uid)

    def expect_leaving(self, uid: str) -> None:
        """Mark a pod as being evicted by this scheduler; valid until it is removed, forgotten or `expect_staying` is called."""
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

    def reserve_devices(self, claim: kubernetes.ResourceClaim, allocation: kubernetes.Allocation) -> None:
        """Count the devices of an allocation as taken before it is written to the claim; `release_devices` ends that."""
        self._tables.revision += 1
        self._tables.objects.following(Allocations).take(claim, allocation)
        self._tables.objects_changed()

    def release_devices(self, claim: kubernetes.ResourceClaim, *, written: bool = False) -> bool:
        """Undo `reserve_devices` of one pod; True if no pod needs the allocation any more. `written`: the claim's status has it."""
        self._tables.revision += 1
        freed = self._tables.objects.following(Allocations).release(claim, written=written)
        self._tables.objects_changed()
        return freed

    def read_devices(self, sources: Sequence[DeviceSource]) -> None:
        """Set the sources of the devices of nodes, in order: devices of an earlier source come first."""
        self._tables.read_devices(sources)

    def set_group_size(self, key: str, size: int) -> None:
        """Set how many members of a group (`namespace/name`) are known, placed or not; 0 forgets the group."""
        self._tables.set_group_size(key, size)

    def set_metric(self, name: str, samples: Samples) -> None:
        """Replace the samples of a metric: node name → (value, time in seconds since 1970)."""
        self._tables.set_metric(name, samples)

    def put_metric(self, name: str, column: MetricColumn, samples: Samples, layout: int) -> None:
        """Replace the samples of a metric, all finite, and their column, built for the rows of `nodes_listed` in that layout."""
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
