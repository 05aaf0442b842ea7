"""The kinds that are watched, and their paths in the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wharfinger.model import objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind, its path, and which of its objects matter (`params`). Without a `required` kind nothing can be scheduled."""

    kind: type[objects.AnyObject]
    path: str
    required: bool = False
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The Kubernetes kind: `Pod`."""
        return self.kind.__name__

    @property
    def plural(self) -> str:
        """The name in paths and roles: `pods`."""
        return self.path.rpartition("/")[2]

    @property
    def api_version(self) -> str:
        """`v1`, or `apps/v1`."""
        return self.path.rpartition("/")[0].removeprefix("/apis/").removeprefix("/api/")

    @property
    def group(self) -> str:
        """The API group, empty for that of pods and nodes."""
        return self.api_version.rpartition("/")[0]


# As kube-scheduler's own informer for pods (scheduler.go, NewInformerFactory, Kubernetes 1.36): finished pods hold nothing. A pod that
# finishes leaves the selection, which the watch reports as its deletion.
_UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}

PODS = Resource(kind=objects.Pod, path="/api/v1/pods", required=True, params=_UNFINISHED)
NODES = Resource(kind=objects.Node, path="/api/v1/nodes", required=True)

SCHEDULING = (
    NODES,
    PODS,
    Resource(kind=objects.Namespace, path="/api/v1/namespaces"),
    Resource(kind=objects.Service, path="/api/v1/services"),
    Resource(kind=objects.ReplicationController, path="/api/v1/replicationcontrollers"),
    Resource(kind=objects.ReplicaSet, path="/apis/apps/v1/replicasets"),
    Resource(kind=objects.StatefulSet, path="/apis/apps/v1/statefulsets"),
    Resource(kind=objects.PersistentVolumeClaim, path="/api/v1/persistentvolumeclaims"),
    Resource(kind=objects.PersistentVolume, path="/api/v1/persistentvolumes"),
    Resource(kind=objects.StorageClass, path="/apis/storage.k8s.io/v1/storageclasses"),
    Resource(kind=objects.CSINode, path="/apis/storage.k8s.io/v1/csinodes"),
    Resource(kind=objects.CSIDriver, path="/apis/storage.k8s.io/v1/csidrivers"),
    Resource(kind=objects.CSIStorageCapacity, path="/apis/storage.k8s.io/v1/csistoragecapacities"),
    Resource(kind=objects.VolumeAttachment, path="/apis/storage.k8s.io/v1/volumeattachments"),
    Resource(kind=objects.PodDisruptionBudget, path="/apis/policy/v1/poddisruptionbudgets"),
    Resource(kind=objects.PriorityClass, path="/apis/scheduling.k8s.io/v1/priorityclasses"),
)
