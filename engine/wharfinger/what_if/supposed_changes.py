"""Supposed changes: further nodes and pods in a state, which are removed after a question is answered.

A copy of a large cluster takes longer than most questions. So a question changes the state that it is given, and undoes its changes.

A new node is made like one that exists. It has the labels, the taints and the resources of its model, and a new name. It is ready and not
cordoned, so taints that the control plane sets for conditions are left out. Its devices are those of its model: the ResourceSlices of that
node alone are copied, and slices for nodes that a selector names count for it by its labels. What runs on every such node runs there too:
the pods of DaemonSets and the static pods. It holds no images, and metrics have no samples of it.

Pods are placed in the order of the scheduling queue; pods that preemption would evict leave at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.errors import UnknownObject
from wharfinger.framework.cluster_event import (
    Change,
    ClusterEvent,
    node_updated,
    object_put,
    object_removed,
    pod_changed,
    pod_placed,
    pod_removed,
)
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.prepared import ClaimAllocation
from wharfinger.groups.results import GroupResult
from wharfinger.groups.turns import Turn, groups_in_steps, turns
from wharfinger.model import objects
from wharfinger.model.devices.allocated import consumer_of
from wharfinger.model.node_labels import HOSTNAME
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate import device_claims
from wharfinger.simulate.dry_run import PodResult, gated_result, pod_result
from wharfinger.simulate.placing import bind_claims, place_group, read_in_steps
from wharfinger.what_if.leaving_pods import MARKED, staying

_PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOf")
_PREEMPTED = objects.PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
_OF_VOLUMES = (objects.PersistentVolumeClaim, objects.PersistentVolume)


class SupposedChanges:
    """A context that puts a state back at its end: same nodes, pods, nominations, objects and groups; only the revision is higher.

    `changed` is called after each change of a node, a pod or another object, but not when changes are undone.
    """

    def __init__(self, state: ClusterState, changed: Callable[[Change], None] = lambda _change: None) -> None:
        self.state = state
        self.changed = changed
        self._sizes = dict(state.snapshot().group_sizes)
        self._n_leaving = 0
        self._forget()

    def _forget(self) -> None:
        self._placed: dict[str, PodView] = {}
        self._nominated: list[tuple[PodView, str]] = []
        self._nominees: dict[str, PodView] = {}  # the pods that `nominate` was called for
        self._leaving: list[str] = []  # the uids that `expect_leaving` was called for
        self._nodes: list[NewNode] = []
        self._left: list[PodView] = []
        self._marked: dict[str, PodView] = {}
        self._held: dict[str, list[objects.ResourceClaim]] = {}  # claims for the devices of a leaving pod, by its uid
        self._replaced: list[objects.Node] = []
        self._put: list[tuple[str, str, objects.AnyObject | None]] = []
        self._volumes: dict[tuple[str, str], objects.AnyObject] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.undo()

    def claimed(self, pod: PodView) -> PodView:
        """The pod with claims made from the templates that it names, as the controller makes them before a scheduler sees the pod."""
        return device_claims.with_made_claims(self.state, pod, self.put)

    def place(self, pod: PodView, node: str, claims: Iterable[ClaimAllocation] = ()) -> None:
        """Count a pod on a node, with its claims bound there, and devices taken for `claims`."""
        self._keep_nomination(pod)
        if pod.object.spec.volumes and volume_claims.waiting_claims(pod, self.state.objects):
            self._keep_volumes()
            bind_claims(self.state, pod, node)
        device_claims.write_claims(self.state, pod, claims, self.put)
        self.state.assume(pod, node)
        self._placed[pod.uid] = pod
        self.changed(pod_placed(pod, node))

    def nominate(self, pod: PodView, node: str, victims: Iterable[PodView]) -> None:
        """Nominate a node for a pending pod, where victims of preemption are about to leave."""
        self._keep_nomination(pod)
        self._nominees[pod.uid] = pod
        self.state.nominate(pod, node)
        for victim in victims:
            self._leaving.append(victim.uid)
            self.state.expect_leaving(victim.uid)

    def remove_nomination(self, pod: PodView) -> None:
        """Take the nomination of a pending pod back, if it has one."""
        self._keep_nomination(pod)
        node = self.state.snapshot().nominated_to(pod.uid)
        if node is not None:
            self.state.remove_nomination(pod)
            self.changed(Change(events=ClusterEvent.NOMINATION, label="PodUpdate", node=node))

    def _keep_nomination(self, pod: PodView) -> None:
        """Remember the nomination that a pod has from the beginning."""
        nominated = self.state.snapshot().nominated_to(pod.uid)
        if nominated is not None and pod.uid not in self._nominees:
            self._nominated.append((pod, nominated))

    def put(self, obj: objects.AnyObject) -> None:
        """Add or replace an object that is neither a node nor a pod."""
        before = self.state.objects.get(type(obj), obj.metadata.name, obj.metadata.namespace)
        kind = objects.kind_of(obj)
        self._put.append((kind, objects.key_of(obj), before))
        self.state.put(obj)
        self.changed(object_put(kind, obj, before))

    def drop(self, obj: objects.AnyObject) -> None:
        """Remove an object that is neither a node nor a pod."""
        kind = objects.kind_of(obj)
        self._put.append((kind, objects.key_of(obj), obj))
        self.state.drop(kind, objects.key_of(obj))
        self.changed(object_removed(kind, obj))

    def add(self, new: NewNode) -> None:
        """Add a node with what runs there."""
        self.state.add_node(new.node)
        if new.drivers is not None:
            self.put(new.drivers)
        for each in new.slices:
            self.put(each)
        for pod in new.pods:
            self.state.add_pod(pod)
        self._nodes.append(new)

    def mark_deleted(self, pod: PodView, *, preempted: bool = False) -> None:
        """Mark a placed pod as being deleted, with `preempted` for another pod; it stays on its node until `leave`."""
        placed = self.state.snapshot().placed(pod.uid)
        if placed is None or pod.terminating:
            return
        was = placed[1]
        marked = _marked(was, preempted=preempted)
        if pod.uid in self._placed:
            self.state.remove_pod(was)
            self.state.assume(marked, was.node_name)
            self._placed[pod.uid] = marked
        else:
            self._marked[pod.uid] = was
            self.state.add_pod(marked)
        self.changed(pod_changed(was, marked))

    def begin_leaving(self, pod: PodView, *, preempted: bool = False) -> PodView:
        """Mark a placed pod as being deleted, so that its replacement can be placed before it leaves; returns the marked pod.

        A replacement has the uid and the claims of the pod itself, so the marked pod has another uid, and other claims for its devices.
        """
        placed = self.state.snapshot().placed(pod.uid)
        if placed is None:
            raise UnknownObject(f"pod {pod.key} is on no node")
        was = placed[1]
        self._n_leaving += 1
        leaving = _marked(was, preempted=preempted).with_uid(f"{was.uid}/leaving-{self._n_leaving}")
        self.state.remove_pod(was)
        if self._placed.pop(was.uid, None) is None:
            self._left.append(self._marked.pop(was.uid, was))
        held = [claim for claim in device_claims.claims_of(self.state, was) if claim.status.reserved_for == (consumer_of(was),)]
        device_claims.give_back_claims(self.state, was, self.put, self.drop)
        self._held[leaving.uid] = [_held_by(leaving, claim, f"leaving-{self._n_leaving}") for claim in held]
        for claim in self._held[leaving.uid]:
            self.put(claim)
        self.state.assume(leaving, was.node_name)
        self._placed[leaving.uid] = leaving
        self.changed(pod_changed(was, leaving))
        return leaving

    def leave(self, pod: PodView) -> None:
        """Remove a placed pod from its node, and release its devices."""
        placed = self.state.snapshot().placed(pod.uid)
        if self.state.remove_pod(pod):
            if self._placed.pop(pod.uid, None) is None:
                self._left.append(self._marked.pop(pod.uid, pod))
            self.changed(pod_removed(pod, pod.node_name if placed is None else placed[1].node_name))
            for claim in self._held.pop(pod.uid, ()):
                self.drop(claim)
            device_claims.give_back_claims(self.state, pod, self.put, self.drop)

    def replace(self, node: objects.Node) -> None:
        """Replace the node of this name by this one."""
        snapshot = self.state.snapshot()
        before = snapshot.node(snapshot.known_row(node.metadata.name)).object
        self._replaced.append(before)
        self.state.update_node(node)
        change = node_updated(before, node)
        if change is not None:
            self.changed(change)

    def undo(self) -> None:
        """Restore the state; later changes can be undone in the same way."""
        self._end_preemption()
        for pod in self._placed.values():
            self.state.forget(pod)
        for node in reversed(self._replaced):
            self.state.update_node(node)
        for pod in (*self._left, *self._marked.values()):
            self.state.add_pod(pod)
        for pod, nominated in self._nominated:
            self.state.nominate(pod, nominated)
        for new in reversed(self._nodes):
            for pod in new.pods:
                self.state.remove_pod(pod)
            self.state.remove_node(new.name)
        self._put_volumes_back()
        for kind, key, before in reversed(self._put):
            if before is None:
                self.state.drop(kind, key)
            else:
                self.state.put(before)
        for key in {*self.state.snapshot().group_sizes, *self._sizes}:
            self.state.set_group_size(key, self._sizes.get(key, 0))
        self._forget()

    def _end_preemption(self) -> None:
        """Undo `nominate`."""
        for pod in self._nominees.values():
            self.state.remove_nomination(pod)
        for uid in self._leaving:
            self.state.expect_staying(uid)

    def _keep_volumes(self) -> None:
        if self._volumes is None:
            self._volumes = self._all_volumes()

    def _put_volumes_back(self) -> None:
        if self._volumes is None:
            return
        for (kind, key), obj in self._all_volumes().items():
            before = self._volumes.get((kind, key))
            if before is None:
                self.state.drop(kind, key)
            elif before is not obj:
                self.state.put(before)

    def _all_volumes(self) -> dict[tuple[str, str], objects.AnyObject]:
        return {(objects.kind_of(obj), objects.key_of(obj)): obj for kind in _OF_VOLUMES for obj in self.state.objects.all(kind)}


def _marked(pod: PodView, *, preempted: bool) -> PodView:
    """The pod as it is while it is being deleted, with `preempted` for another pod."""
    marked = pod.with_deletion(MARKED)
    if not preempted:
        return marked
    own = marked.object
    others = tuple(each for each in own.status.conditions if each.type != _PREEMPTED.type)
    return PodView(replace(own, status=replace(own.status, conditions=(*others, _PREEMPTED)))).placed_on(pod.node_name)


def _held_by(pod: PodView, claim: objects.ResourceClaim, suffix: str) -> objects.ResourceClaim:
    """A copy of a claim under another name, with its devices, reserved for the pod alone."""
    name = f"{claim.metadata.name}-{suffix}"
    metadata = replace(claim.metadata, name=name, uid=f"{claim.metadata.uid}/{suffix}")
    return replace(claim, metadata=metadata, status=replace(claim.status, reserved_for=(consumer_of(pod),)))


class NodesLike(Struct, frozen=True, kw_only=True):
    """A change: `count` new nodes like the node `model`."""

    model: str
    count: int = 1

    def __str__(self) -> str:
        return f"with {'one more node' if self.count == 1 else f'{self.count:,} more nodes'} like {self.model}"


class NewNode(Struct, frozen=True, kw_only=True):
    """A node, its CSI drivers (None where the model has no CSINode), its devices, and the pods that run on every node of its kind."""

    node: objects.Node
    drivers: objects.CSINode | None
    pods: tuple[PodView, ...]
    slices: tuple[objects.ResourceSlice, ...] = ()

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.metadata.name


def nodes_like(snapshot: Snapshot, model: str, count: int = 1, taken: Container[str] = ()) -> tuple[NewNode, ...]:
    """`count` new nodes like the node of that name, with names that are not `taken`. UnknownObject if there is no such node."""
    row = snapshot.known_row(model)
    found = snapshot.node(row).object
    drivers = snapshot.objects.get(objects.CSINode, model)
    pods = [pod for pod in snapshot.pods_on(row) if staying(pod)]
    slices = [each for each in snapshot.objects.all(objects.ResourceSlice) if each.spec.node_name == model]
    return tuple(node_like(found, name, drivers, pods, slices) for name in itertools.islice(_names(snapshot, model, taken), count))


def _names(snapshot: Snapshot, model: str, taken: Container[str]) -> Iterator[str]:
    names = (f"{model}-new-{number}" for number in itertools.count(1))
    return (name for name in names if snapshot.row(name) is None and name not in taken)


def node_like(
    model: objects.Node,
    name: str,
    drivers: objects.CSINode | None = None,
    pods: Sequence[PodView] = (),
    slices: Sequence[objects.ResourceSlice] = (),
) -> NewNode:
    """A new node with this name like `model`, with its CSI drivers, devices, and copies of its DaemonSet and mirror pods."""
    labels = {key: name if key == HOSTNAME else value for key, value in model.metadata.labels.items()}
    metadata = objects.ObjectMeta(name=name, labels=labels, annotations=model.metadata.annotations)
    taints = tuple(taint for taint in model.spec.taints if not taint.key.startswith(_PASSING_TAINTS))
    conditions = tuple(replace(found, status=str(found.type == "Ready")) for found in model.status.conditions)
    status = replace(model.status, conditions=conditions, addresses=(), images=(), volumes_attached=())
    return NewNode(
        node=objects.Node(metadata=metadata, spec=objects.NodeSpec(taints=taints), status=status),
        drivers=None if drivers is None else replace(drivers, metadata=objects.ObjectMeta(name=name)),
        pods=tuple(_on(pod, name) for pod in pods),
        slices=tuple(_slices_on(slices, model.metadata.name, name)),
    )


def _slices_on(slices: Sequence[objects.ResourceSlice], model: str, node: str) -> Iterator[objects.ResourceSlice]:
    """Copies of the slices of a model node for another node, in new pools, which have no other slices."""
    sizes = Counter((each.spec.driver, each.spec.pool.name) for each in slices)
    for each in slices:
        own = each.spec.pool
        count = own.resource_slice_count
        whole = sizes[each.spec.driver, own.name]  # a pool that spans nodes has fewer slices than its count
        pool = replace(own, name=node if own.name == model else f"{own.name}-{node}", resource_slice_count=min(count, whole))
        metadata = objects.ObjectMeta(name=f"{each.metadata.name}-{node}")
        yield replace(each, metadata=metadata, spec=replace(each.spec, node_name=node, pool=pool))


def _on(pod: PodView, node: str) -> PodView:
    own = pod.object
    metadata = replace(own.metadata, name=f"{own.metadata.name}-{node}", uid=f"{pod.uid}/{node}", deletion_timestamp=None)
    return PodView(replace(own, metadata=metadata, spec=replace(own.spec, node_name=node)))


def added(supposed: SupposedChanges, nodes: Iterable[NodesLike]) -> Generator[None, None, tuple[tuple[str, str], ...]]:
    """A generator of steps that adds nodes, and returns their names with those of their models.

    UnknownObject for a model that does not exist.
    """
    new: list[tuple[str, str]] = []
    for wanted in nodes:
        for node in nodes_like(supposed.state.snapshot(), wanted.model, wanted.count):
            supposed.add(node)
            new.append((node.name, wanted.model))
            yield
    return tuple(new)


class Evaluated(NamedTuple):
    """The answers about pods, in the order of the queue, and about the groups that they belong to."""

    pods: tuple[PodResult, ...]
    groups: tuple[GroupResult, ...]


def evaluated(decider: Decider, supposed: SupposedChanges, pods: Sequence[PodView]) -> Generator[None, None, Evaluated]:
    """A generator of steps, one decision each, that returns the answers.

    Pods with scheduling gates are not placed. Members of a group are placed together.
    """
    chain = decider.chain
    found: list[PodResult] = []
    groups: list[GroupResult] = []
    index = yield from groups_in_steps(chain, supposed.state, pods)
    for turn in turns(chain, index, pods):
        gates = {pod.uid: gate for pod in turn.pods if (gate := chain.gate(pod)) is not None}
        n_nodes = supposed.state.snapshot().n_nodes
        found += [gated_result(pod, gates[pod.uid], n_nodes) for pod in turn.pods if pod.uid in gates]
        free = tuple(pod for pod in turn.pods if pod.uid not in gates)
        yield from read_in_steps(decider, supposed, free)
        if turn.group is not None:
            steps = place_group(decider, supposed, index, Turn(pods=free, group=turn.group), watch=_result)
            outcomes, result = yield from steps
            found += [outcome.seen for outcome in outcomes]
            groups.append(result)
        elif free:
            found.append(placed(decider, supposed, free[0])[0])
        yield
    return Evaluated(tuple(found), tuple(groups))


def _result(decision: Decision, _snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
    return pod_result(decision, evicted)


def placed(
    decider: Decider, supposed: SupposedChanges, pod: PodView, failed: Callable[[Decision], None] = lambda _decision: None
) -> tuple[PodResult, tuple[PodView, ...]]:
    """(the decision about a pod, which is placed; the victims of preemption, which leave).

    `failed` is called with the decision, while its details are readable, if it names no node.
    """
    state = supposed.state
    pod = supposed.claimed(pod)
    decision = decider.decide(state.snapshot(), pod)
    evicted: tuple[PodView, ...] = ()
    if decision.nominated is not None:
        evicted = decision.victims
        for victim in evicted:
            supposed.leave(victim)
        decision = decider.decide(state.snapshot(), pod)
    result = pod_result(decision, evicted)
    if decision.node is not None:
        supposed.place(decision.assigned, decision.node, decision.claims)
    else:
        failed(decision)
    return result, evicted
