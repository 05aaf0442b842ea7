"""VolumeBinding and VolumeZone: a node must reach the pod's bound volumes, and must allow volumes for its unbound claims.

A claim whose class waits for its first consumer gets a matching persistent volume that the node can reach, or a new one from a provisioner
if the class and the storage capacity allow it. All of that depends on nodes and storage objects only, so the verdicts of all nodes are
computed together and kept until one of these objects changes. Older volumes say by labels in which zone and region their nodes must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.cluster_event import ClusterEvent
from wharfinger.framework.extension import FilterPlugin, PrecomputingPlugin
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.prepared import (
    ALL,
    OUTDATED,
    SKIP_ALWAYS,
    Affected,
    Attempt,
    Changes,
    Mask,
    ObjectRevision,
    PreparedFilter,
    Reason,
    Rejected,
    Rows,
    Skip,
)
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.columns import arrays
from wharfinger.model.node_labels import BETA_REGION, BETA_ZONE, GENERAL, REGION, ZONE
from wharfinger.model.objects import matching as selectors
from wharfinger.model.objects import quantity
from wharfinger.model.state import node_selection
from wharfinger.model.state.object_store import ObjectFacts

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

UNREACHABLE, NO_VOLUME, NO_SPACE, NO_SUCH_VOLUME = 1, 2, 4, 8  # the bits of the reasons
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
SEPARATOR = "__"  # between the zones of a volume that is in several


class PodClaims(Struct, frozen=True, kw_only=True):
    """A pod's claims: those with a volume, those that get a volume when the pod is placed, and those that must get one before."""

    bound: tuple[objects.PersistentVolumeClaim, ...]
    waiting: tuple[objects.PersistentVolumeClaim, ...]
    immediate: tuple[objects.PersistentVolumeClaim, ...]


class VolumeBindingArguments(BuiltInArguments, frozen=True, kw_only=True):
    """VolumeBindingArgs: the seconds to wait, before a placed pod is bound, until the controllers of volumes have bound its claims."""

    bind_timeout_seconds: Annotated[int, Meta(ge=0)] = 600


class VolumeBinding(FilterPlugin, PrecomputingPlugin):
    """The filter of `pkg/scheduler/framework/plugins/volumebinding`, Kubernetes 1.36."""

    name = "VolumeBinding"
    arguments_model = VolumeBindingArguments
    filter_volatility = Volatility.GLOBAL
    wakes_on = (
        ClusterEvent.NODE_ADD
        | ClusterEvent.NODE_LABEL
        | ClusterEvent.CLAIM
        | ClusterEvent.VOLUME
        | ClusterEvent.STORAGE_CLASS
        | ClusterEvent.CSI_NODE
        | ClusterEvent.CSI_DRIVER
        | ClusterEvent.CSI_CAPACITY
    )

    def follow(self, store: ObjectStore) -> None:
        """Follow which claims have volumes, and which volumes are free."""
        volume_claims.follow(store)
        StorageCapacities.of(store).of_class("")

    def precompute(self, pod: PodView, snapshot: Callable[[], Snapshot], *, kept: bool) -> Iterator[None]:  # noqa: ARG002 — the extension point
        """Read the free volumes that the pod's claims may get, and the storage that drivers offer for others."""
        store = snapshot().objects
        yield from volume_claims.reading(pod, store)
        offers = StorageCapacities.of(store)
        for name in volume_claims.waiting_classes(pod, store):
            yield from offers.reading(offers.of_class(name))

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip without claims; `Rejected` if a claim is missing, lost, being deleted, or unbound and not waiting for its first consumer."""
        pod, snapshot = attempt.pod, attempt.snapshot
        uses = tuple(volume_claims.claims_used(pod))
        if not uses:
            return SKIP_ALWAYS
        if (refused := volume_claims.too_many(pod)) is not None:
            return refused
        found = _claims(pod, uses, snapshot.objects)
        if isinstance(found, str):
            return Rejected((Reason(found, resolvable=False),))
        if found.immediate:
            return Rejected((Reason(UNBOUND, resolvable=False),))
        return Bindable(_bound(found.bound, snapshot) | _waiting(found.waiting, snapshot), ObjectRevision(snapshot, *volume_claims.KINDS))


class Bindable(PreparedFilter):
    """The verdicts of all nodes, `(n_nodes,)`, one bit for each of the reasons that apply."""

    reasons = (
        Reason("node(s) didn't match PersistentVolume's node affinity", resolvable=False),
        Reason("node(s) didn't find available persistent volumes to bind", resolvable=False),
        Reason("node(s) did not have enough free storage", resolvable=False),
        Reason("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", resolvable=False),
    )

    def __init__(self, bits: NDArray[np.uint8], revision: ObjectRevision) -> None:
        self._bits = bits
        self._objects = revision

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:  # noqa: ARG002 — the extension point
        """The verdicts."""
        return self._bits[rows]

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """`OUTDATED` if a node or a storage object changed."""
        return OUTDATED if len(changes.node_rows) or not self._objects.unchanged(snapshot) else None


def _claims(pod: PodView, uses: Sequence[volume_claims.ClaimUse], store: ObjectStore) -> PodClaims | str:
    """The pod's claims, or the reason why it cannot be placed (`podHasPVCs`, `GetPodVolumeClaims`)."""
    found: list[objects.PersistentVolumeClaim] = []
    for use in uses:
        claim = volume_claims.claim_of(use, pod, store)
        refusal = _missing(use) if claim is None else _unusable(claim, use, pod)
        if refusal:
            return refusal
        if claim is not None:
            found.append(claim)
    kinds: dict[str, list[objects.PersistentVolumeClaim]] = {"bound": [], "waiting": [], "immediate": []}
    for claim in found:
        try:
            kinds[_kind(claim, store)].append(claim)
        except InvalidObject as error:
            return str(error)
    return PodClaims(**{kind: tuple(claims) for kind, claims in kinds.items()})


def _missing(use: volume_claims.ClaimUse) -> str:
    if use.ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.claim}"'
    return volume_claims.claim_not_found(use.claim)


def _unusable(claim: objects.PersistentVolumeClaim, use: volume_claims.ClaimUse, pod: PodView) -> str:
    name = claim.metadata.name
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return volume_claims.not_for(claim, pod) if use.ephemeral and not volume_claims.is_for(claim, pod) else ""


def _kind(claim: objects.PersistentVolumeClaim, store: ObjectStore) -> str:
    """The field of `PodClaims` that a claim belongs to; InvalidObject for a storage class without a binding mode."""
    if volume_claims.fully_bound(claim):
        return "bound"
    storage_class = store.get(objects.StorageClass, volume_claims.claim_class(claim))
    if storage_class is None:
        return "immediate"
    if storage_class.volume_binding_mode is None:
        raise InvalidObject(volume_claims.no_binding_mode(storage_class.metadata.name))
    waits = storage_class.volume_binding_mode == volume_claims.WAIT_FOR_FIRST_CONSUMER
    return "waiting" if waits and not claim.spec.volume_name else "immediate"


def _bound(claims: Sequence[objects.PersistentVolumeClaim], snapshot: Snapshot) -> NDArray[np.uint8]:
    """The bits that bound claims set, `(n_nodes,)`: on each node the first claim that fails decides (`checkBoundClaims`)."""
    bits = np.zeros(snapshot.n_nodes, np.uint8)
    for claim in claims:
        volume = snapshot.objects.get(objects.PersistentVolume, claim.spec.volume_name)
        if volume is None:
            bits[bits == 0] = NO_SUCH_VOLUME
            break
        bits[(bits == 0) & ~volume_claims.reachable(volume, snapshot)] = UNREACHABLE
    return bits


def _waiting(claims: Sequence[objects.PersistentVolumeClaim], snapshot: Snapshot) -> NDArray[np.uint8]:
    """The bits that claims without a volume set, `(n_nodes,)` (`FindPodVolumes`)."""
    bits = np.zeros(snapshot.n_nodes, np.uint8)
    chosen = [claim for claim in claims if volume_claims.SELECTED_NODE in claim.metadata.annotations]
    for claim in chosen:  # a provisioner has begun to make the volume for one node
        bits[~node_selection.named(claim.metadata.annotations[volume_claims.SELECTED_NODE], snapshot, ALL)] = NO_VOLUME
    matching = volume_claims.Matching(snapshot)
    to_provision: list[tuple[objects.PersistentVolumeClaim, Mask]] = [(claim, np.ones(len(bits), np.bool_)) for claim in chosen]
    others = volume_claims.by_size([claim for claim in claims if claim not in chosen])
    to_provision += [(claim, ~matching.give(claim)) for claim in others]
    for claim, without_volume in to_provision:
        undecided = (bits == 0) & without_volume
        if undecided.any():
            refused = _provision(claim, snapshot)
            bits[undecided] = refused[undecided]
    return bits


def _provision(claim: objects.PersistentVolumeClaim, snapshot: Snapshot) -> NDArray[np.uint8]:
    """The bits set where no volume can be made for a claim, `(n_nodes,)` (`checkVolumeProvisions`)."""
    storage_class = snapshot.objects.get(objects.StorageClass, volume_claims.claim_class(claim))
    if storage_class is None or not has_provisioner(storage_class):
        return np.full(snapshot.n_nodes, NO_VOLUME, np.uint8)
    bits = np.where(_capacity(claim, storage_class, snapshot), 0, NO_SPACE).astype(np.uint8)
    bits[~_allowed(storage_class.allowed_topologies, snapshot)] = NO_VOLUME
    return bits


def has_provisioner(storage_class: objects.StorageClass) -> bool:
    """True if volumes of a class can be made; False if there are only those that an administrator makes."""
    return storage_class.provisioner not in {"", NO_PROVISIONER}


def _allowed(terms: Sequence[objects.TopologySelectorTerm], snapshot: Snapshot) -> Mask:
    """The nodes in one of the topologies, `(n_nodes,) bool`; all where none is given (`MatchTopologySelectorTerms`)."""
    allowed = np.full(snapshot.n_nodes, not terms, np.bool_)
    for term in terms:
        if term.match_label_expressions:
            inside = [_in(snapshot, one.key, one.values) for one in term.match_label_expressions]
            allowed |= np.logical_and.reduce(inside)
    return allowed


def _in(snapshot: Snapshot, key: str, values: Sequence[str]) -> Mask:
    return _any_of(snapshot.label(key), values, snapshot)


def _any_of(codes: NDArray[np.int32], values: Iterable[str], snapshot: Snapshot) -> Mask:
    """True where the `codes` of a label's column, read before, are those of some values, `(n_rows,) bool`."""
    return np.isin(codes, [code for value in values if (code := snapshot.strings.find(value)) != arrays.ABSENT])


def _capacity(claim: objects.PersistentVolumeClaim, storage_class: objects.StorageClass, snapshot: Snapshot) -> Mask:
    """The nodes on which the driver has capacity for a claim, `(n_nodes,) bool`; all nodes if the driver reports no capacity."""
    enough = np.ones(snapshot.n_nodes, np.bool_)
    driver = snapshot.objects.get(objects.CSIDriver, storage_class.provisioner)
    size = claim.spec.resources.requests.get("storage")
    if driver is None or not driver.spec.storage_capacity or size is None:
        return enough
    enough[:] = False
    known, wanted = StorageCapacities.of(snapshot.objects), quantity.value(size)
    values: dict[str, list[str]] = {}  # by label: looked up together, as local storage has an offer for each node
    for offer in map(known.facts, known.of_class(storage_class.metadata.name)):
        if offer.term is None or offer.max_size is None or offer.max_size < wanted:
            continue
        if offer.label is None:
            enough[node_selection.rows_with((offer.term,), snapshot)] = True
        else:
            values.setdefault(offer.label.key, []).extend(offer.label.values)
    for label, found in values.items():
        enough |= _in(snapshot, label, found)
    return enough


class StorageCapacity(NamedTuple):
    """A CSIStorageCapacity: the largest volume that can be made, and the nodes that reach it; None where that cannot be read.

    `label` is the requirement of `term` if that is one of values of a label alone.
    """

    max_size: int | None
    term: selectors.NodeTerm | None
    label: selectors.Requirement | None


class StorageCapacities(ObjectFacts[objects.CSIStorageCapacity, StorageCapacity]):
    """The storage capacity that drivers offer. Local storage has an offer for each node."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.CSIStorageCapacity,)

    @staticmethod
    def of(store: ObjectStore) -> StorageCapacities:
        """The offers of a cluster."""
        return store.following(StorageCapacities, replay=False)

    def of_class(self, storage_class: str) -> Sequence[objects.CSIStorageCapacity]:
        """The offers for a storage class."""
        return self._store.group(objects.CSIStorageCapacity, _storage_class_of, storage_class)

    def _read(self, obj: objects.CSIStorageCapacity) -> StorageCapacity:
        limit = obj.maximum_volume_size if obj.maximum_volume_size is not None else obj.capacity
        term = _within(obj.node_topology)
        return StorageCapacity(None if limit is None else quantity.value(limit), term, None if term is None else _of_one_label(term))


def _storage_class_of(offer: objects.CSIStorageCapacity) -> str:
    return offer.storage_class_name


def _within(topology: objects.LabelSelector | None) -> selectors.NodeTerm | None:
    try:
        return selectors.NodeTerm(selectors.label_selector(topology))
    except InvalidObject:  # an offer that cannot be read offers nothing
        return None


def _of_one_label(term: selectors.NodeTerm) -> selectors.Requirement | None:
    alone = len(term.labels.requirements) == 1 and not term.fields and not term.labels.nothing
    return term.labels.requirements[0] if alone and term.labels.requirements[0].operator == "In" else None


class VolumeZone(FilterPlugin):
    """`pkg/scheduler/framework/plugins/volumezone`, Kubernetes 1.36."""

    name = "VolumeZone"
    filter_volatility = Volatility.GLOBAL
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_LABEL | ClusterEvent.CLAIM | ClusterEvent.VOLUME | ClusterEvent.STORAGE_CLASS

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip without labelled volumes; `Rejected` if a claim, volume or class is missing or a claim is not bound yet."""
        pod, snapshot = attempt.pod, attempt.snapshot
        if not pod.object.spec.volumes:
            return SKIP_ALWAYS
        if (refused := volume_claims.too_many(pod)) is not None:
            return refused
        found = _topologies(pod, snapshot.objects)
        if isinstance(found, str):
            return Rejected((Reason(found, resolvable=False),))
        revision = ObjectRevision(snapshot, objects.PersistentVolumeClaim, objects.PersistentVolume, objects.StorageClass)
        return ZonesOfVolumes(found, revision) if found else Skip(revision.unchanged)


class ZonesOfVolumes(PreparedFilter):
    """Bit 0 for nodes in another zone or region than a label of a volume; `wanted` are the labels with their values."""

    reasons = (Reason("node(s) had no available volume zone", resolvable=False),)

    def __init__(self, wanted: Sequence[tuple[str, frozenset[str]]], revision: ObjectRevision) -> None:
        self._wanted = wanted
        self._objects = revision

    def bits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The verdicts."""
        constrained = np.logical_or.reduce([snapshot.label(label)[rows] != arrays.ABSENT for label in TOPOLOGY_LABELS])
        elsewhere = np.zeros(len(constrained), np.bool_)
        for label, values in self._wanted:
            elsewhere |= ~_in_zone(snapshot, rows, label, values)
        return np.asarray(constrained & elsewhere)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """`OUTDATED` if claims, volumes or classes changed; otherwise the rows whose node changed."""
        return changes.node_rows if self._objects.unchanged(snapshot) else OUTDATED


def _topologies(pod: PodView, store: ObjectStore) -> list[tuple[str, frozenset[str]]] | str:
    """(label, values) for each zone or region label of the pod's volumes, or why the pod cannot be placed."""
    found: list[tuple[str, frozenset[str]]] = []
    for use in volume_claims.claims_used(pod):
        if use.ephemeral:
            continue
        if not use.claim:
            return "PersistentVolumeClaim had no name"
        claim = volume_claims.claim_of(use, pod, store)
        if claim is None:
            return volume_claims.claim_not_found(use.claim)
        if not claim.spec.volume_name:
            if refusal := _refused_unbound(claim, store):
                return refusal
            continue
        volume = store.get(objects.PersistentVolume, claim.spec.volume_name)
        if volume is None:
            return volume_claims.volume_not_found(claim.spec.volume_name)
        found += _zone_labels(volume)
    return found


def _refused_unbound(claim: objects.PersistentVolumeClaim, store: ObjectStore) -> str:
    """The reason against a claim without a volume; "" if it gets one when its pod is placed."""
    name = volume_claims.claim_class(claim)
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = store.get(objects.StorageClass, name)
    if storage_class is None:
        return volume_claims.class_not_found(name)
    if storage_class.volume_binding_mode is None:
        return volume_claims.no_binding_mode(name)
    return "" if storage_class.volume_binding_mode == volume_claims.WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"


def _zone_labels(volume: objects.PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    labels = ((label, volume.metadata.labels.get(label)) for label in TOPOLOGY_LABELS)
    zones = ((label, [zone.strip() for zone in value.split(SEPARATOR)]) for label, value in labels if value is not None)
    return [(label, frozenset(values)) for label, values in zones if all(values)]  # a label that cannot be read is ignored


def _in_zone(snapshot: Snapshot, rows: Rows, label: str, values: frozenset[str]) -> Mask:
    codes = snapshot.label(label)[rows]
    if label in GENERAL:
        codes = np.where(codes == arrays.ABSENT, snapshot.label(GENERAL[label])[rows], codes)
    return _any_of(codes, values, snapshot)
