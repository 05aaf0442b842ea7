"""Which persistent volume a claim would get on which node, for all nodes at once.

Kubernetes asks node by node for the smallest volume that fits (`FindMatchingVolume`, component-helpers/storage/volume/pv_helpers.go, 1.36).
Here volumes are gone through once, smallest first, and each is given to the nodes that can reach it and have none yet. Among volumes of
one size Kubernetes takes whichever its cache lists first; here it is the first by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.framework import node_selection, volumes
from wharfinger.framework.verdict import Mask
from wharfinger.model import objects, quantity, selectors

if TYPE_CHECKING:
    from wharfinger.model.snapshot import Snapshot

ALL = slice(None)
FILESYSTEM = "Filesystem"
NONE = -1


def reachable(volume: objects.PersistentVolume, snapshot: Snapshot) -> Mask:
    """The nodes from which a volume can be reached, `(n_nodes,) bool`; its terms are matched against labels only (`CheckNodeAffinity`)."""
    affinity = volume.spec.node_affinity
    terms = None if affinity is None else node_selection.parse_terms(affinity.required)
    if terms is None:
        return np.ones(snapshot.n_nodes, np.bool_)
    return node_selection.any_term((selectors.NodeTerm(term.labels) for term in terms), snapshot, ALL)


class Matching:
    """The volumes that a pod's claims would get: per claim and node the index of a volume, −1 for none."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._numbers: dict[str, int] = {}
        self._given: list[NDArray[np.intp]] = []

    def give(self, claim: objects.PersistentVolumeClaim) -> Mask:
        """Where a claim finds a volume that no claim before it has taken, `(n_nodes,) bool`."""
        given = np.full(self._snapshot.n_nodes, NONE, np.intp)
        for volume in self._candidates(claim):
            number = self._numbers.setdefault(volume.metadata.name, len(self._numbers))
            rows = np.flatnonzero((given == NONE) & reachable(volume, self._snapshot))
            for taken in self._given:
                rows = rows[taken[rows] != number]
            given[rows] = number
            if NONE not in given:
                break
        self._given.append(given)
        return np.asarray(given != NONE)

    def chosen(self, row: int) -> tuple[str | None, ...]:
        """The names of the volumes on one node, for the claims in the order in which they were given theirs; None for none."""
        names = {number: name for name, number in self._numbers.items()}
        return tuple(names.get(int(given[row])) for given in self._given)

    def _candidates(self, claim: objects.PersistentVolumeClaim) -> list[objects.PersistentVolume]:
        """The volumes that would do for a claim, smallest first; one that is reserved for it is the only one it may get."""
        store = self._snapshot.objects
        reserved = store.group(objects.PersistentVolume, _holder, _reference(claim))
        free = store.group(objects.PersistentVolume, _holder, volumes.claim_class(claim))
        first = [volume for volume in reserved if self._may_serve(volume, claim)][:1]
        return first or sorted((volume for volume in free if self._may_serve(volume, claim)), key=_by_capacity)

    def _may_serve(self, volume: objects.PersistentVolume, claim: objects.PersistentVolumeClaim) -> bool:
        """Whether a volume would do for a claim, apart from where it is."""
        spec, wanted = volume.spec, claim.spec
        if volumes.volume_class(volume) != volumes.claim_class(claim) or volume.metadata.deletion_timestamp is not None:
            return False
        if spec.claim_ref is not None and not reserved_for(volume, claim):
            return False
        if capacity(volume) < requested(claim) or (spec.volume_mode or FILESYSTEM) != (wanted.volume_mode or FILESYSTEM):
            return False
        if (spec.volume_attributes_class_name or "") != (wanted.volume_attributes_class_name or ""):
            return False
        if spec.claim_ref is not None:
            return True
        available = volume.status.phase == "Available" and set(wanted.access_modes) <= set(spec.access_modes)
        return available and _selected(volume, wanted.selector)


def chosen_on(
    claims: Sequence[objects.PersistentVolumeClaim], snapshot: Snapshot, row: int
) -> list[tuple[objects.PersistentVolumeClaim, objects.PersistentVolume | None]]:
    """The claims of a pod with the volume that each gets on a node, smallest claim first; None for one that has to be provisioned."""
    ordered = by_size(claims)
    matching = Matching(snapshot)
    for claim in ordered:
        matching.give(claim)
    found = [None if name is None else snapshot.objects.get(objects.PersistentVolume, name) for name in matching.chosen(row)]
    return list(zip(ordered, found, strict=True))


def _holder(volume: objects.PersistentVolume) -> str | tuple[str, str]:
    """(namespace, name) of the claim that has a volume, or for a free one the name of its class."""
    claim = volume.spec.claim_ref
    return volumes.volume_class(volume) if claim is None else (claim.namespace or "default", claim.name)


def _reference(claim: objects.PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.namespace or "default", claim.metadata.name


def _by_capacity(volume: objects.PersistentVolume) -> tuple[int, str]:
    return capacity(volume), volume.metadata.name


def by_size(claims: Sequence[objects.PersistentVolumeClaim]) -> list[objects.PersistentVolumeClaim]:
    """The claims in the order in which they are served: smallest first."""
    return sorted(claims, key=requested)


def capacity(volume: objects.PersistentVolume) -> int:
    """The size of a volume in nanobytes, exact; 0 where it says none."""
    return quantity.nano(volume.spec.capacity.get("storage", "0"))


def requested(claim: objects.PersistentVolumeClaim) -> int:
    """The size asked for in nanobytes, exact; 0 where it says none."""
    return quantity.nano(claim.spec.resources.requests.get("storage", "0"))


def reserved_for(volume: objects.PersistentVolume, claim: objects.PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim or reserved for it (`IsVolumeBoundToClaim`)."""
    reference = volume.spec.claim_ref
    if reference is None or (reference.namespace or "default", reference.name) != (
        claim.metadata.namespace or "default",
        claim.metadata.name,
    ):
        return False
    return not reference.uid or reference.uid == claim.metadata.uid


def _selected(volume: objects.PersistentVolume, selector: objects.LabelSelector | None) -> bool:
    if selector is None:
        return True
    try:
        return selectors.label_selector(selector).matches(volume.metadata.labels)
    except InvalidObject:  # the API server does not let such a claim in
        return False
