"""Pods that leave their nodes: which ones `kubectl drain` lets stay, evicts or refuses, and how controllers create them again.

Source: staging/src/k8s.io/kubectl/pkg/drain, Kubernetes 1.36. Pods of DaemonSets and static pods stay. Pods that would be lost, and pods
with data on the node, make kubectl refuse the whole drain unless flags allow it. What a cordon makes of a node is here too, and which
running pods a question takes from their nodes and places anew: `all`, `namespace=…` or `selector=…`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec.structs import replace

from wharfinger.errors import UsageError
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.objects.matching import NO_SCHEDULE
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

UNSCHEDULABLE = objects.Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
MIRROR = "kubernetes.io/config.mirror"
"""The annotation of the API server's copy of a static pod."""

DAEMON_SET = "a pod of a DaemonSet stays"
STATIC = "a static pod stays: the kubelet runs it from a file"
LOCAL_DATA = "its emptyDir would be deleted with it; kubectl drain needs --delete-emptydir-data"
NO_CONTROLLER = "no controller would create it again; kubectl drain needs --force"

EXPECTED = "expected all, namespace=NAME or selector=LABELS"


def cordoned(node: objects.Node) -> objects.Node:
    """The node as it is after `kubectl cordon`: unschedulable, with the taint that the node controller adds."""
    others = tuple(taint for taint in node.spec.taints if (taint.key, taint.effect) != (UNSCHEDULABLE.key, UNSCHEDULABLE.effect))
    return replace(node, spec=replace(node.spec, unschedulable=True, taints=(*others, UNSCHEDULABLE)))


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


def recreated(pod: PodView, created: datetime | None = None) -> PodView:
    """The pod as its controller would create it again: on no node, created at `created` (as before if None).

    Of its status only the names of claims stay that were made of templates: they stand for the claims that would be made for it.

    Name and uid stay, so that ties between nodes are decided as for the pod itself. A real controller gives the pod a new uid, and its
    pods of a Deployment new names: among equally good nodes another one may then be chosen.
    """
    own = pod.object
    metadata = replace(own.metadata, deletion_timestamp=None, creation_timestamp=created or own.metadata.creation_timestamp)
    status = objects.PodStatus(resource_claim_statuses=own.status.resource_claim_statuses)
    return PodView(replace(own, metadata=metadata, spec=replace(own.spec, node_name=""), status=status))


def replaced_pods(state: ClusterState, words: Sequence[str]) -> tuple[PodView, ...]:
    """The running pods that any of the words names, in the order of their keys; pods being deleted and mirror pods are left out.

    Raises UsageError for a word of another form and for one that names no pod; InvalidObject for a selector that cannot be read.
    """
    running = sorted(
        (pod for pod, _ in state.placements() if not (pod.finished or pod.terminating or MIRROR in pod.annotations)),
        key=lambda pod: pod.key,
    )
    found: dict[str, PodView] = {}
    for word in words:
        chosen = _chosen(word)
        named = [pod for pod in running if chosen(pod)]
        if not named and word != "all":
            raise UsageError(f"{word}: there is no such running pod{_nearest(word, running)}")
        found |= {pod.uid: pod for pod in named}
    return tuple(sorted(found.values(), key=lambda pod: pod.key))


def _chosen(word: str) -> Callable[[PodView], bool]:
    """The test for pods that a word stands for."""
    kind, _, value = word.partition("=")
    if word == "all":
        return lambda _pod: True
    if kind == "namespace" and value:
        return lambda pod: pod.namespace == value
    if kind == "selector" and value.strip():
        wanted = matching.parse_selector(value)
        return lambda pod: wanted.matches(pod.labels)
    raise UsageError(f"{word}: {EXPECTED}")


def _nearest(word: str, running: Sequence[PodView]) -> str:
    """The end of an error: the namespace that may be meant."""
    kind, _, value = word.partition("=")
    meant = wording.closest(value, {pod.namespace for pod in running}) if kind == "namespace" else None
    return f"; did you mean namespace={meant}?" if meant else ""
