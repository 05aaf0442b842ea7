"""Which pods `kubectl drain` lets stay, evicts or refuses, and what its cordon makes of a node.

Source: staging/src/k8s.io/kubectl/pkg/drain, Kubernetes 1.36. Pods of DaemonSets and static pods stay. Pods that would be lost, and pods
with data on the node, make kubectl refuse the whole drain unless flags allow it.
"""

from __future__ import annotations

from msgspec import structs

from wharfinger.model import objects
from wharfinger.model.objects.matching import NO_SCHEDULE
from wharfinger.model.objects.pod_view import PodView

UNSCHEDULABLE = objects.Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
MIRROR = "kubernetes.io/config.mirror"
"""The annotation of the API server's copy of a static pod."""

DAEMON_SET = "a pod of a DaemonSet stays"
STATIC = "a static pod stays: the kubelet runs it from a file"
LOCAL_DATA = "its emptyDir would be deleted with it; kubectl drain needs --delete-emptydir-data"
NO_CONTROLLER = "no controller would create it again; kubectl drain needs --force"


def cordoned(node: objects.Node) -> objects.Node:
    """The node as it is after `kubectl cordon`: unschedulable, with the taint that the node controller adds."""
    others = tuple(taint for taint in node.spec.taints if (taint.key, taint.effect) != (UNSCHEDULABLE.key, UNSCHEDULABLE.effect))
    return structs.replace(node, spec=structs.replace(node.spec, unschedulable=True, taints=(*others, UNSCHEDULABLE)))


def staying(pod: PodView) -> str:
    """Why a drain leaves a pod where it is; "" if it does not."""
    owner = pod.controller
    if owner is not None and owner.kind == "DaemonSet":
        return DAEMON_SET
    return STATIC if MIRROR in pod.annotations else ""


def refusals(pod: PodView, *, force: bool = False, delete_empty_dir_data: bool = False) -> str:
    """Why `kubectl drain` refuses to drain the node of a pod that does not stay; "" if it does not refuse."""
    found = []
    if not delete_empty_dir_data and any(volume.empty_dir is not None for volume in pod.object.spec.volumes):
        found.append(LOCAL_DATA)
    if not force and pod.controller is None:
        found.append(NO_CONTROLLER)
    return "; ".join(found)


def replaceable(pod: PodView) -> bool:
    """True if a controller creates the pod again after it has left.

    The replacement of a pod that is being deleted exists already, except in a StatefulSet: there it has the same name.
    """
    owner = pod.controller
    return owner is not None and (not pod.terminating or owner.kind == "StatefulSet")
