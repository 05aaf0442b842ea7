"""VolumeZone: a node must be in the zone and region of the pod's bound volumes, by the labels of older volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.framework.cluster_event import ClusterEvent
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.prepared import (
    OUTDATED,
    SKIP_ALWAYS,
    Affected,
    Attempt,
    Mask,
    ObjectWatch,
    PreparedFilter,
    Reason,
    Rejected,
    Rows,
    Skip,
)
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.columns import arrays

if TYPE_CHECKING:
    from wharfinger.framework.prepared import Changes
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
GENERAL = {BETA_ZONE: ZONE, BETA_REGION: REGION}  # the label to read if a node lacks the older one
SEPARATOR = "__"  # between the zones of a volume that is in several
KINDS = (objects.PersistentVolumeClaim, objects.PersistentVolume, objects.StorageClass)
NAME = "VolumeZone"


class VolumeZone(FilterPlugin):
    """`pkg/scheduler/framework/plugins/volumezone`, Kubernetes 1.36."""

    name = NAME
    filter_volatility = Volatility.GLOBAL
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_LABEL | ClusterEvent.CLAIM | ClusterEvent.VOLUME | ClusterEvent.STORAGE_CLASS

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip without labelled volumes; `Rejected` if a claim, volume or class is missing or a claim is not bound yet."""
        pod, snapshot, _ = attempt
        if not pod.object.spec.volumes:
            return SKIP_ALWAYS
        found = _topologies(pod, snapshot.objects)
        if isinstance(found, str):
            return Rejected((Reason(found, resolvable=False),))
        watch = ObjectWatch(snapshot, *KINDS)
        return ZonesOfVolumes(found, watch) if found else Skip(watch.stands)


class ZonesOfVolumes(PreparedFilter):
    """Bit 0 for nodes in another zone or region than a label of a volume; `wanted` are the labels with their values."""

    reasons = (Reason("node(s) had no available volume zone", resolvable=False),)

    def __init__(self, wanted: Sequence[tuple[str, frozenset[str]]], watch: ObjectWatch) -> None:
        self._wanted = wanted
        self._watch = watch

    def bits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The verdicts."""
        constrained = np.logical_or.reduce([snapshot.label(label)[rows] != arrays.ABSENT for label in TOPOLOGY_LABELS])
        elsewhere = np.zeros(len(constrained), np.bool_)
        for label, values in self._wanted:
            elsewhere |= ~_has(snapshot, rows, label, values)
        return np.asarray(constrained & elsewhere)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """`OUTDATED` if claims, volumes or classes changed; otherwise the rows whose node changed."""
        return changes.node_rows if self._watch.stands(snapshot) else OUTDATED


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
            if refusal := _unbound(claim, store):
                return refusal
            continue
        volume = store.get(objects.PersistentVolume, claim.spec.volume_name)
        if volume is None:
            return volume_claims.volume_not_found(claim.spec.volume_name)
        found += _labels(volume)
    return found


def _unbound(claim: objects.PersistentVolumeClaim, store: ObjectStore) -> str:
    """The reason against a claim without a volume; "" if it gets one when its pod is placed."""
    name = volume_claims.claim_class(claim)
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = store.get(objects.StorageClass, name)
    if storage_class is None:
        return volume_claims.class_not_found(name)
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{name}"'
    return "" if storage_class.volume_binding_mode == volume_claims.WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"


def _labels(volume: objects.PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    labels = ((label, volume.metadata.labels.get(label)) for label in TOPOLOGY_LABELS)
    zones = ((label, [zone.strip() for zone in value.split(SEPARATOR)]) for label, value in labels if value is not None)
    return [(label, frozenset(values)) for label, values in zones if all(values)]  # a label that cannot be read is ignored


def _has(snapshot: Snapshot, rows: Rows, label: str, values: frozenset[str]) -> Mask:
    codes = snapshot.label(label)[rows]
    if label in GENERAL:
        codes = np.where(codes == arrays.ABSENT, snapshot.label(GENERAL[label])[rows], codes)
    wanted = [code for value in values if (code := snapshot.strings.find(value)) != arrays.ABSENT]
    return np.isin(codes, wanted)
