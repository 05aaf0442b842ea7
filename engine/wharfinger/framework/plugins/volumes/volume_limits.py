"""VolumeRestrictions and NodeVolumeLimits: how many nodes or pods may use a volume, and how many volumes a node can attach.

Some disks may be mounted by one node only, and some claims may be used by one pod only. The state's tally of claims has the claims in use.
A selection counts, per node, the pods that mount one of the pod's disks in a way that excludes the pod.

A node can attach a limited number of volumes of each CSI driver (`attached_volumes` counts them).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import CountingPlugin, FilterPlugin, PrecomputingPlugin
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.plugins.volumes.attached_volumes import AttachedVolumes, attachables, may_attach
from wharfinger.framework.prepared import (
    OUTDATED,
    SKIP_ALWAYS,
    Affected,
    Attempt,
    Changes,
    ObjectRevision,
    PreparedFilter,
    Reason,
    Rejected,
    Rows,
    Skip,
)
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model.columns.pod_table import ReadInSteps, Tally
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

IN_USE = (
    Reason("node(s) had no available disk"),
    Reason("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"),
)
NO_DISK, CLAIM_IN_USE = 1, 2  # the bits of the reasons
TOO_MANY = (Reason("node(s) exceed max volume count"),)


class VolumeRestrictions(CountingPlugin, FilterPlugin):
    """`pkg/scheduler/framework/plugins/volumerestrictions`, Kubernetes 1.36."""

    name = "VolumeRestrictions"
    filter_volatility = Volatility.GLOBAL
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.POD_REMOVED | ClusterEvent.CLAIM

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if something other than a pod changed, or the pod of the change has volumes."""
        return change.pod is None or bool(change.pod.object.spec.volumes)

    def counting(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Iterator[ReadInSteps]:
        """Yield the claims of placed pods, and those pods that mount a disk of this one."""
        if not pod.object.spec.volumes or volume_claims.too_many(pod) is not None:
            return
        if exclusive_claims(pod, snapshot()):
            yield _used_claims(snapshot())
        if any(map(_exclusive, pod.object.spec.volumes)):
            yield mounted(pod, snapshot())

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip if neither an exclusive disk nor a ReadWriteOncePod claim in use matters; `Rejected` if a claim does not exist."""
        pod, snapshot = attempt.pod, attempt.snapshot
        if not pod.object.spec.volumes:
            return SKIP_ALWAYS
        if (refused := volume_claims.too_many(pod)) is not None:
            return refused
        uses = [use.claim for use in volume_claims.claims_used(pod) if not use.ephemeral]
        for name in uses:
            if snapshot.objects.get(objects.PersistentVolumeClaim, name, pod.namespace) is None:
                return Rejected((Reason(volume_claims.claim_not_found(name), resolvable=False),))
        found = Restrictions(pod, snapshot)
        return found if found.matter else Skip(found.is_valid)


class Restrictions(PreparedFilter):
    """Bit 0 for nodes that mount one of the pod's disks already; on all others bit 1 if one of its claims is in use."""

    reasons = IN_USE

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        self._pod = pod
        self._objects = ObjectRevision(snapshot, objects.PersistentVolumeClaim)
        self._claims_taken, self._disks_taken = _volumes_in_use(pod, snapshot)
        self.matter = bool(self._claims_taken) or self._disks_taken is not None

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts."""
        bits = np.full(len(snapshot.pod_count[rows]), CLAIM_IN_USE if self._claims_taken else 0, np.uint8)
        if self._disks_taken is not None:
            bits[self._disks_taken[rows]] = NO_DISK
        return bits

    def is_valid(self, snapshot: Snapshot) -> bool:
        """True if no claim or disk was taken or released, and no claim has changed."""
        if not self._objects.unchanged(snapshot):
            return False
        claims_taken, disks_taken = _volumes_in_use(self._pod, snapshot)
        return self._claims_taken == claims_taken and _equal(self._disks_taken, disks_taken)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:  # noqa: ARG002 — the extension point
        """`OUTDATED` unless everything is still valid."""
        return None if self.is_valid(snapshot) else OUTDATED

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reason against the supposed node: a disk mounted there, otherwise a claim in use by a pod that stays; empty if it passes."""
        if self._disks_taken is not None and any(map(Conflicts(self._pod.object.spec.volumes), supposed.pods())):
            return IN_USE[:1]
        if not self._claims_taken and not supposed.added:
            return ()
        wanted = exclusive_claims(self._pod, supposed.snapshot)
        more = sum(_uses(placed, wanted) for placed in supposed.added.values())
        fewer = sum(_uses(placed, wanted) for placed in supposed.removed.values())
        return IN_USE[1:] if self._claims_taken + more - fewer > 0 else ()


def _equal(before: NDArray[np.bool_] | None, after: NDArray[np.bool_] | None) -> bool:
    if before is None or after is None:
        return before is after
    return np.array_equal(before, after)


def _uses(placed: PodView, claims: frozenset[str]) -> int:
    return len(claims.intersection(claims_of(placed)))


def _volumes_in_use(pod: PodView, snapshot: Snapshot) -> tuple[int, NDArray[np.bool_] | None]:
    """The number of the pod's ReadWriteOncePod claims in use, and the nodes that mount one of its exclusive disks.

    The nodes are `(n_nodes,) bool`, None if the pod has no exclusive disk.
    """
    disks = any(map(_exclusive, pod.object.spec.volumes))
    return claims_in_use(pod, snapshot), mounted(pod, snapshot).by_node > 0 if disks else None


def claims_in_use(pod: PodView, snapshot: Snapshot) -> int:
    """The number of the pod's ReadWriteOncePod claims that placed pods use."""
    wanted = exclusive_claims(pod, snapshot)
    if not wanted:
        return 0
    used = _used_claims(snapshot).found
    return sum(1 for claim in wanted if used.get(claim))


def _used_claims(snapshot: Snapshot) -> Tally:
    """The claims of placed pods."""
    return snapshot.tally((VolumeRestrictions.name, "claims"), claims_of)


def exclusive_claims(pod: PodView, snapshot: Snapshot) -> frozenset[str]:
    """The pod's ReadWriteOncePod claims, `namespace/name`."""
    names = {use.claim for use in volume_claims.claims_used(pod) if not use.ephemeral}
    found = (snapshot.objects.get(objects.PersistentVolumeClaim, name, pod.namespace) for name in names)
    return frozenset(objects.key_of(claim) for claim in found if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes)


def claims_of(placed: PodView) -> Iterator[str]:
    """The claims that a placed pod names, `namespace/name`, each once."""
    yield from {f"{placed.namespace}/{use.claim}" for use in volume_claims.claims_used(placed) if not use.ephemeral}


def mounted(pod: PodView, snapshot: Snapshot) -> Selection:
    """The placed pods that mount a disk in a way that excludes the pod."""
    exclusive = [volume for volume in pod.object.spec.volumes if _exclusive(volume)]
    disks = tuple((each.gce_persistent_disk, each.aws_elastic_block_store, each.iscsi, each.rbd) for each in exclusive)
    return snapshot.selection((VolumeRestrictions.name, "disks", disks), Conflicts(exclusive))


class Conflicts:
    """The pods that mount one of some disks in a way that excludes another pod (`isVolumeConflict`)."""

    def __init__(self, volumes: Iterable[objects.Volume]) -> None:
        self._by_disk: dict[Hashable, list[objects.Volume]] = {}
        for volume in volumes:
            for disk in _disks(volume):
                self._by_disk.setdefault(disk, []).append(volume)

    def __call__(self, placed: PodView) -> bool:
        """True if a placed pod is one of them."""
        return any(
            _conflict(volume, other)
            for other in placed.object.spec.volumes
            for disk in _disks(other)
            for volume in self._by_disk.get(disk, ())
        )


def _disks(volume: objects.Volume) -> Iterator[Hashable]:
    """The identities of the disks of a volume; volumes conflict only if they have one in common."""
    if volume.gce_persistent_disk is not None:
        yield "gce", volume.gce_persistent_disk.pd_name
    if volume.aws_elastic_block_store is not None:
        yield "aws", volume.aws_elastic_block_store.volume_id
    if volume.iscsi is not None:
        yield "iscsi", volume.iscsi.iqn
    if volume.rbd is not None:
        yield "rbd", volume.rbd.pool, volume.rbd.image


def _exclusive(volume: objects.Volume) -> bool:
    return any(True for _ in _disks(volume))


def _conflict(volume: objects.Volume, other: objects.Volume) -> bool:
    disk, other_disk = volume.gce_persistent_disk, other.gce_persistent_disk
    if disk and other_disk and disk.pd_name == other_disk.pd_name and not (disk.read_only and other_disk.read_only):
        return True
    store, other_store = volume.aws_elastic_block_store, other.aws_elastic_block_store
    if store and other_store and store.volume_id == other_store.volume_id:
        return True
    target, other_target = volume.iscsi, other.iscsi
    if target and other_target and target.iqn == other_target.iqn and not (target.read_only and other_target.read_only):
        return True
    return _same_image(volume.rbd, other.rbd)


def _same_image(image: objects.RBD | None, other: objects.RBD | None) -> bool:
    if image is None or other is None:
        return False
    same = not set(image.monitors).isdisjoint(other.monitors) and image.pool == other.pool and image.image == other.image
    return same and not (image.read_only and other.read_only)


class NodeVolumeLimits(FilterPlugin, PrecomputingPlugin):
    """`pkg/scheduler/framework/plugins/nodevolumelimits`, Kubernetes 1.36."""

    name = "NodeVolumeLimits"
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
        """True if something other than a pod changed, or the pod of the change has volumes."""
        return change.pod is None or bool(change.pod.object.spec.volumes)

    def follow(self, store: ObjectStore) -> None:
        """Follow volumes and attachments."""
        AttachedVolumes.follow(store)

    def precompute(self, pod: PodView, snapshot: Callable[[], Snapshot], *, kept: bool) -> Iterator[None]:  # noqa: ARG002 — the extension point
        """Read the volumes of nodes, in steps of a node."""
        return AttachedVolumes.reading(snapshot) if may_attach(pod) else iter(())

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip without attachable volumes; `Rejected` with too many volumes of any kind."""
        if not may_attach(attempt.pod):
            return SKIP_ALWAYS
        return volume_claims.too_many(attempt.pod) or Limits(attempt.pod, attempt.snapshot)


class Limits(PreparedFilter):
    """Bit 0 if a driver would exceed its limit on a node, or everywhere if a claim is missing."""

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        self._objects = ObjectRevision(snapshot, *volume_claims.KINDS)
        self._refusal = _refusal(pod, snapshot)
        self.reasons = (Reason(self._refusal, resolvable=False),) if self._refusal else TOO_MANY
        self._wanted = frozenset(attachables(pod, snapshot.objects))

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts."""
        if self._refusal or not self._wanted:
            return np.full(len(snapshot.pod_count[rows]), bool(self._refusal), np.uint8)
        return AttachedVolumes.of(snapshot).exceeded(self._wanted, rows).view(np.uint8)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """`OUTDATED` if a storage object changed; otherwise the rows whose pods changed."""
        return changes.rows if self._objects.unchanged(snapshot) else OUTDATED

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...] | None:
        """The reason against the supposed node if a driver would exceed its limit; empty if it passes."""
        if self._refusal:
            return None
        attached = AttachedVolumes.of(supposed.snapshot)
        return TOO_MANY if attached.exceeded_with(supposed.pods(), self._wanted, supposed.snapshot.names[supposed.row]) else ()


def _refusal(pod: PodView, snapshot: Snapshot) -> str:
    """The reason why the pod cannot be placed on any node; "" if there is none."""
    for use in volume_claims.claims_used(pod):
        if not use.claim:
            return "PersistentVolumeClaim had no name"
        claim = volume_claims.claim_of(use, pod, snapshot.objects)
        if claim is None:
            return f"looking up PVC {pod.namespace}/{use.claim}: {volume_claims.claim_not_found(use.claim)}"
        if use.ephemeral and not volume_claims.is_for(claim, pod):
            return volume_claims.not_for(claim, pod)
    return ""
