"""NodeVolumeLimits: a node can attach only so many volumes of a CSI driver.

A volume that several pods of a node share counts once, so the pods of a node have to be looked at one by one; but only on nodes whose
driver sets a limit, and after a change only on the rows that changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.framework import csi_volumes, volumes
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.csi_volumes import Attachable
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.verdict import SKIP, PreFilterAnswer, Reason, Rows, Verdicts
from wharfinger.language.catalogue import Volatility
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.framework.supposition import Supposition
    from wharfinger.model.pod import PodView
    from wharfinger.model.snapshot import Snapshot

REASONS = (Reason("node(s) exceed max volume count"),)
NAME = "NodeVolumeLimits"


class NodeVolumeLimits(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodevolumelimits`, Kubernetes 1.36."""

    name = NAME
    filter_volatility = Volatility.GLOBAL
    wakes_on = (
        ClusterEvent.NODE_ADD
        | ClusterEvent.POD_REMOVED
        | ClusterEvent.CSI_NODE
        | ClusterEvent.CLAIM
        | ClusterEvent.VOLUME
        | ClusterEvent.STORAGE_CLASS
        | ClusterEvent.VOLUME_ATTACHMENT
    )

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """Whether something other than a pod changed, or a pod went that had volumes."""
        return change.pod is None or bool(change.pod.object.spec.volumes)

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:
        """Skip without attachable volumes."""
        cycle[NAME, "objects"] = snapshot.objects.revision_of(*volumes.KINDS)
        if not csi_volumes.may_attach(pod):
            return SKIP
        cycle[NAME] = _Asked(pod, snapshot)
        return None

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:  # noqa: ARG002 — the extension point
        """The verdicts for `rows`: bit 0 where a driver would have to attach more than it can, or everywhere if a claim is missing."""
        asked: _Asked = cycle[NAME]
        places = np.arange(snapshot.n_nodes)[rows] if isinstance(rows, slice) else rows
        if asked.refusal:
            return Verdicts((Reason(asked.refusal, resolvable=False),), np.ones(len(places), np.uint8))
        bits = [asked.exceeded(row, snapshot, snapshot.pods_on(row)) for row in places.tolist()] if asked.wanted else [False] * len(places)
        return Verdicts(REASONS, np.array(bits, np.uint8))

    def filter_if(self, cycle: CycleState, pod: PodView, supposed: Supposition) -> tuple[Reason, ...] | None:  # noqa: ARG002 — the extension point
        """The reason against the supposed node, if a driver would have to attach more volumes than it can."""
        asked: _Asked = cycle[NAME]
        if asked.refusal:
            return None
        return REASONS if asked.exceeded(supposed.row, supposed.snapshot, supposed.pods()) else ()

    def filter_changes(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:
        """All if a storage object has changed; else the rows whose pods have."""
        if not pod.object.spec.volumes:
            return None
        if cycle.get((NAME, "objects")) != snapshot.objects.revision_of(*volumes.KINDS):
            return slice(None)
        changed = snapshot.usage_changes(since)
        if changed is None:
            return slice(None)
        return changed if len(changed) else None


class _Asked:
    """What a pod wants attached, and what is needed of the cluster to say where that is possible."""

    __slots__ = ("_attachments", "_drivers", "refusal", "wanted")

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        self.refusal = _refusal(pod, snapshot)
        self.wanted = frozenset(csi_volumes.attachables(pod, snapshot.objects))
        self._drivers = {volume.driver for volume in self.wanted}
        self._attachments = _attachments(snapshot)

    def exceeded(self, row: int, snapshot: Snapshot, pods: Iterable[PodView]) -> bool:
        """Whether a driver of a node, with these pods on it, would have more volumes to attach than it can."""
        name = snapshot.names[row]
        node = snapshot.objects.get(objects.CSINode, name)
        limits = _limits(node)
        if self._drivers.isdisjoint(limits):
            return False
        used = {volume for placed in pods if placed.object.spec.volumes for volume in csi_volumes.attachables(placed, snapshot.objects)}
        there = _handles(used | self._attachments.get(name, frozenset()), node)
        new = _handles(self.wanted, node) - there  # a volume that is there already counts once
        present, more = Counter(driver for driver, _ in there), Counter(driver for driver, _ in new)
        return any(present[driver] + count > limits[driver] for driver, count in more.items() if driver in limits)


def _handles(found: Iterable[Attachable], node: objects.CSINode | None) -> set[tuple[str, str]]:
    """(driver, handle) of the volumes that count on a node, each once."""
    return {(volume.driver, volume.handle) for volume in found if volume.counts_on(node)}


def _limits(node: objects.CSINode | None) -> Mapping[str, int]:
    """How many volumes each driver of a node can attach; drivers without a limit are left out."""
    drivers = () if node is None else node.spec.drivers
    return {driver.name: driver.allocatable.count for driver in drivers if driver.allocatable and driver.allocatable.count is not None}


def _attachments(snapshot: Snapshot) -> Mapping[str, frozenset[Attachable]]:
    """The volumes that are attached to each node, whether or not a pod uses them still."""
    found: defaultdict[str, set[Attachable]] = defaultdict(set)
    for attachment in snapshot.objects.all(objects.VolumeAttachment):
        volume = snapshot.objects.get(objects.PersistentVolume, attachment.spec.source.persistent_volume_name or "")
        attachable = None if volume is None else csi_volumes.of_volume(volume)
        if attachable is not None:
            found[attachment.spec.node_name].add(attachable)
    return {node: frozenset(attached) for node, attached in found.items()}


def _refusal(pod: PodView, snapshot: Snapshot) -> str:
    """Why the pod cannot be placed whatever the node, or ""."""
    for use in volumes.claims_used(pod):
        if not use.claim:
            return "PersistentVolumeClaim had no name"
        claim = volumes.claim_of(use, pod, snapshot.objects)
        if claim is None:
            return f"looking up PVC {pod.namespace}/{use.claim}: {volumes.claim_not_found(use.claim)}"
        if use.ephemeral and not volumes.is_for(claim, pod):
            return volumes.not_for(claim, pod)
    return ""
