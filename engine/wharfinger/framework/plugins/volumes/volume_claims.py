"""Volumes of pods: their claims, persistent volumes and storage classes, and the volume that a claim would get on each node.

Kubernetes searches the smallest matching volume node by node (`FindMatchingVolume`, component-helpers/storage/volume/pv_helpers.go, 1.36).
Here each volume is visited once, smallest first, and assigned to the nodes that can reach it and have none yet. Among volumes of one size
Kubernetes takes the one that its cache lists first; here it is the first by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.framework.prepared import ALL, Mask, Reason, Rejected
from wharfinger.model import objects
from wharfinger.model.objects import matching as selectors
from wharfinger.model.objects import quantity
from wharfinger.model.objects.pod_view import deciding_volumes
from wharfinger.model.state import node_selection
from wharfinger.model.state.object_store import ObjectFacts

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BOUND_ANNOTATION = "pv.kubernetes.io/bind-completed"
KINDS = (
    objects.PersistentVolumeClaim,
    objects.PersistentVolume,
    objects.StorageClass,
    objects.CSINode,
    objects.CSIDriver,
    objects.CSIStorageCapacity,
    objects.VolumeAttachment,
)
"""The kinds of objects that a decision about volumes may depend on."""

MAX_VOLUMES = 200
"""The maximum number of volumes of a pod to be placed: each is looked up, and matched with nodes and volumes."""


def too_many(pod: PodView) -> Rejected | None:
    """The rejection of a pod with more than `MAX_VOLUMES` claims and disks; None for all others."""
    volumes = pod.object.spec.volumes
    number = len(deciding_volumes(pod.object.spec)) if len(volumes) > MAX_VOLUMES else 0
    if number <= MAX_VOLUMES:
        return None
    return Rejected((Reason(f"the pod has {number:,} claims and disks; at most {MAX_VOLUMES} are supported", resolvable=False),))


class ClaimUse(Struct, frozen=True):
    """A volume of a pod that refers to a claim in the pod's namespace; the claim of an ephemeral volume must be owned by the pod."""

    claim: str
    ephemeral: bool


def claims_used(pod: PodView) -> Iterator[ClaimUse]:
    """The claims that a pod uses, in the order of its volumes; a claim used twice is returned twice."""
    for volume in pod.object.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, ephemeral=False)
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod.name}-{volume.name}", ephemeral=True)


def claim_of(use: ClaimUse, pod: PodView, store: ObjectStore) -> objects.PersistentVolumeClaim | None:
    """The claim that a pod uses, or None if there is none of that name."""
    return store.get(objects.PersistentVolumeClaim, use.claim, pod.namespace)


def is_for(claim: objects.PersistentVolumeClaim, pod: PodView) -> bool:
    """True if a claim was made for the pod's own ephemeral volume (`VolumeIsForPod`)."""
    return any(owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references)


def not_for(claim: objects.PersistentVolumeClaim, pod: PodView) -> str:
    """The message for a claim that was not made for the pod."""
    return f"PVC {objects.key_of(claim)} was not created for pod {pod.key} (pod is not owner)"


def claim_class(claim: objects.PersistentVolumeClaim) -> str:
    """The name of a claim's storage class, "" for none."""
    return claim.metadata.annotations.get(objects.CLASS_ANNOTATION) or claim.spec.storage_class_name or ""


def volume_class(volume: objects.PersistentVolume) -> str:
    """The name of a persistent volume's storage class, "" for none."""
    return volume.metadata.annotations.get(objects.CLASS_ANNOTATION) or volume.spec.storage_class_name


def bound_to(claim: objects.PersistentVolumeClaim, volume: objects.PersistentVolume) -> objects.PersistentVolumeClaim:
    """The claim as the volume controller leaves it when it has bound it to a volume."""
    metadata = replace(claim.metadata, annotations={**claim.metadata.annotations, _BOUND_ANNOTATION: "yes"})
    spec = replace(claim.spec, volume_name=volume.metadata.name)
    return replace(claim, metadata=metadata, spec=spec, status=replace(claim.status, phase="Bound"))


def reserved(volume: objects.PersistentVolume, claim: objects.PersistentVolumeClaim) -> objects.PersistentVolume:
    """The volume, reserved for a claim."""
    own = claim.metadata
    holder = objects.ObjectReference(kind="PersistentVolumeClaim", namespace=own.namespace, name=own.name, uid=own.uid)
    return replace(volume, spec=replace(volume.spec, claim_ref=holder))


def provisioned_on(node: str, claim: objects.PersistentVolumeClaim) -> objects.PersistentVolumeClaim:
    """The claim with the annotation that makes its provisioner create a volume for a node."""
    return replace(claim, metadata=replace(claim.metadata, annotations={**claim.metadata.annotations, SELECTED_NODE: node}))


def waiting_claims(pod: PodView, store: ObjectStore) -> list[objects.PersistentVolumeClaim]:
    """The pod's claims that exist and are not bound yet, each once."""
    found: list[objects.PersistentVolumeClaim] = []
    for use in claims_used(pod):
        claim = claim_of(use, pod, store)
        if claim is not None and not fully_bound(claim) and claim not in found:
            found.append(claim)
    return found


def fully_bound(claim: objects.PersistentVolumeClaim) -> bool:
    """True if a claim has a volume and the volume controller has completed the binding."""
    return bool(claim.spec.volume_name) and _BOUND_ANNOTATION in claim.metadata.annotations


def claim_not_found(name: str) -> str:
    """The lister's message for a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """The lister's message for a persistent volume that does not exist."""
    return f'persistentvolume "{name}" not found'


def no_binding_mode(name: str) -> str:
    """The message for a storage class without a binding mode."""
    return f'VolumeBindingMode not set for StorageClass "{name}"'


def class_not_found(name: str) -> str:
    """The lister's message for a storage class that does not exist."""
    return f'storageclass.storage.k8s.io "{name}" not found'


FILESYSTEM = "Filesystem"
NONE, NOT_ASKED = -1, -2


class VolumeFacts(NamedTuple):
    """The fields of a persistent volume that claims are matched with; `terms` are those of its node affinity, None without one."""

    volume: objects.PersistentVolume
    capacity: int
    access_modes: frozenset[str]
    terms: tuple[selectors.NodeTerm, ...] | None

    @property
    def order(self) -> tuple[int, str]:
        """Smaller volumes first, those of one size by name."""
        return self.capacity, self.volume.metadata.name


class KnownVolumes(ObjectFacts[objects.PersistentVolume, VolumeFacts]):
    """The facts of the volumes of a cluster; terms are matched against labels only (`CheckNodeAffinity`)."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.PersistentVolume,)

    @staticmethod
    def of(store: ObjectStore) -> KnownVolumes:
        """The volumes of a cluster."""
        return store.following(KnownVolumes, replay=False)

    def _read(self, obj: objects.PersistentVolume) -> VolumeFacts:
        spec = obj.spec
        terms = None if spec.node_affinity is None else node_selection.parse_terms(spec.node_affinity.required)
        return VolumeFacts(
            obj,
            capacity(obj),
            frozenset(spec.access_modes),
            None if terms is None else tuple(selectors.NodeTerm(term.labels) for term in terms),
        )


def reachable(volume: objects.PersistentVolume, snapshot: Snapshot) -> Mask:
    """The nodes from which a volume can be reached, `(n_nodes,) bool`."""
    terms = KnownVolumes.of(snapshot.objects).facts(volume).terms
    return np.ones(snapshot.n_nodes, np.bool_) if terms is None else node_selection.any_term(terms, snapshot, ALL)


class Matching:
    """The volumes that a pod's claims would get: per claim and node the index of a volume, −1 for none. `row`: only on that node."""

    def __init__(self, snapshot: Snapshot, row: int | None = None) -> None:
        self._snapshot = snapshot
        self._row = row
        self._known = KnownVolumes.of(snapshot.objects)
        self._numbers: dict[str, int] = {}
        self._given: list[NDArray[np.intp]] = []

    def give(self, claim: objects.PersistentVolumeClaim) -> Mask:
        """True for nodes where a claim gets a volume that no earlier claim has taken, `(n_nodes,) bool`."""
        given = np.full(self._snapshot.n_nodes, NONE if self._row is None else NOT_ASKED, np.intp)
        if self._row is not None:
            given[self._row] = NONE
        left = np.count_nonzero(given == NONE)
        for volume in self._candidates(claim):
            number = self._numbers.setdefault(volume.volume.metadata.name, len(self._numbers))
            rows = np.flatnonzero(given == NONE) if volume.terms is None else node_selection.rows_with(volume.terms, self._snapshot)
            rows = rows[given[rows] == NONE]
            for taken in self._given:
                rows = rows[taken[rows] != number]
            given[rows] = number
            left -= len(rows)
            if not left:
                break
        self._given.append(given)
        return np.asarray(given >= 0)

    def chosen(self, row: int) -> tuple[str | None, ...]:
        """The names of the volumes on one node, for the claims in the order in which they got volumes; None for no volume."""
        names = {number: name for name, number in self._numbers.items()}
        return tuple(names.get(int(given[row])) for given in self._given)

    def _candidates(self, claim: objects.PersistentVolumeClaim) -> list[VolumeFacts]:
        """The volumes that fit a claim, smallest first; if a volume is reserved for the claim, only that one."""
        store, wanted = self._snapshot.objects, _Wanted(claim)
        reserved = map(self._known.facts, store.group(objects.PersistentVolume, _holder, _reference(claim)))
        free = map(self._known.facts, store.group(objects.PersistentVolume, _holder, wanted.storage_class))
        first = list(itertools.islice(filter(wanted.may_get, reserved), 1))
        return first or sorted(filter(wanted.may_get, free), key=lambda each: each.order)


class _Wanted:
    """The requirements of a claim for a volume, without those for its nodes."""

    def __init__(self, claim: objects.PersistentVolumeClaim) -> None:
        self._claim = claim
        self.storage_class = claim_class(claim)
        self._size = requested(claim)
        self._mode = claim.spec.volume_mode or FILESYSTEM
        self._attributes_class = claim.spec.volume_attributes_class_name or ""
        self._access_modes = frozenset(claim.spec.access_modes)

    def may_get(self, facts: VolumeFacts) -> bool:
        """True if a volume fits the claim."""
        volume, spec = facts.volume, facts.volume.spec
        if volume_class(volume) != self.storage_class or volume.metadata.deletion_timestamp is not None:
            return False
        if spec.claim_ref is not None and not reserved_for(volume, self._claim):
            return False
        if facts.capacity < self._size or (spec.volume_mode or FILESYSTEM) != self._mode:
            return False
        if (spec.volume_attributes_class_name or "") != self._attributes_class:
            return False
        if spec.claim_ref is not None:
            return True
        available = volume.status.phase == "Available" and self._access_modes <= facts.access_modes
        return available and _selected(volume, self._claim.spec.selector)


def follow(store: ObjectStore) -> None:
    """Make a cluster index its volumes by the claim that has them."""
    store.group(objects.PersistentVolume, _holder, "")
    KnownVolumes.of(store)


def reading(pod: PodView, store: ObjectStore) -> Iterator[None]:
    """The steps of reading the free volumes that the claims of a pod may get; none where they have been read before."""
    for name in waiting_classes(pod, store):
        yield from KnownVolumes.of(store).reading(store.group(objects.PersistentVolume, _holder, name))


def waiting_classes(pod: PodView, store: ObjectStore) -> tuple[str, ...]:
    """The storage classes of the claims that get a volume when the pod is placed, each once."""
    return () if too_many(pod) is not None else tuple({claim_class(claim): None for claim in waiting_claims(pod, store)})


class Assumption(NamedTuple):
    """The change that gives a claim its volume when its pod is placed.

    `before` and `after` are a volume without and with its reservation, or the claim itself without and with the node for its provisioner.
    They are the same object if the volume is reserved for the claim already.
    """

    claim: objects.PersistentVolumeClaim
    before: objects.PersistentVolume | objects.PersistentVolumeClaim
    after: objects.PersistentVolume | objects.PersistentVolumeClaim

    def is_in(self, store: ObjectStore) -> bool:
        """True if a store has the changed object; False once an event has replaced it by another version."""
        metadata = self.after.metadata
        return store.get(type(self.after), metadata.name, metadata.namespace) is self.after


def assumptions(pod: PodView, node: str, snapshot: Snapshot) -> list[Assumption]:
    """What a placement of a pod on a node means for its claims without a volume (`AssumePodVolumes`).

    Kubernetes 1.36 does not subtract what is to be provisioned from the storage capacity of drivers, and neither does this. A claim for
    whose provisioner a node is chosen already is left out.
    """
    row = snapshot.row(node)
    claims = [claim for claim in waiting_claims(pod, snapshot.objects) if SELECTED_NODE not in claim.metadata.annotations]
    if row is None or not claims:
        return []
    ordered, matching = by_size(claims), Matching(snapshot, row)
    for claim in ordered:
        matching.give(claim)
    found: list[Assumption] = []
    for claim, name in zip(ordered, matching.chosen(row), strict=True):
        volume = None if name is None else snapshot.objects.get(objects.PersistentVolume, name)
        if volume is None:
            found.append(Assumption(claim, claim, provisioned_on(node, claim)))
        else:
            found.append(Assumption(claim, volume, reserved(volume, claim) if volume.spec.claim_ref is None else volume))
    return found


def _holder(volume: objects.PersistentVolume) -> str | tuple[str, str]:
    """(namespace, name) of the claim that has a volume, or for a free one the name of its class."""
    claim = volume.spec.claim_ref
    return volume_class(volume) if claim is None else (claim.namespace or "default", claim.name)


def _reference(claim: objects.PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.namespace or "default", claim.metadata.name


def by_size(claims: Sequence[objects.PersistentVolumeClaim]) -> list[objects.PersistentVolumeClaim]:
    """The claims in the order in which they get volumes: smallest first."""
    return sorted(claims, key=requested)


def capacity(volume: objects.PersistentVolume) -> int:
    """The size of a volume in nanobytes, exact; 0 without one."""
    return quantity.nano(volume.spec.capacity.get("storage", "0"))


def requested(claim: objects.PersistentVolumeClaim) -> int:
    """The requested size in nanobytes, exact; 0 without one."""
    return quantity.nano(claim.spec.resources.requests.get("storage", "0"))


def reserved_for(volume: objects.PersistentVolume, claim: objects.PersistentVolumeClaim) -> bool:
    """True if a volume is bound to a claim or reserved for it (`IsVolumeBoundToClaim`)."""
    reference = volume.spec.claim_ref
    if reference is None or (reference.namespace or "default", reference.name) != _reference(claim):
        return False
    return not reference.uid or reference.uid == claim.metadata.uid


def _selected(volume: objects.PersistentVolume, selector: objects.LabelSelector | None) -> bool:
    if selector is None:
        return True
    try:
        return selectors.label_selector(selector).matches(volume.metadata.labels)
    except InvalidObject:  # the API server does not let such a claim in
        return False
