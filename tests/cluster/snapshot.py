"""The state of a cluster as files have it, and as the product's model reads it."""

from __future__ import annotations

import json

from tests.cluster.api import Api
from wharfinger.model.reading import files
from wharfinger.simulate.cluster import Cluster, cluster_of

KINDS = {
    "Node": "v1",
    "Pod": "v1",
    "Namespace": "v1",
    "Service": "v1",
    "PersistentVolumeClaim": "v1",
    "PersistentVolume": "v1",
    "ReplicaSet": "apps/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "PodGroup": "scheduling.k8s.io/v1alpha2",
    "PodDisruptionBudget": "policy/v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "DeviceClass": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
}


def listed(api: Api) -> bytes:
    """The output of `kubectl get KINDS -A -o json`, in less time for many thousand objects."""
    items = [{"apiVersion": version, "kind": kind, **item} for kind, version in KINDS.items() for item in api.list(kind)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def read_cluster(api: Api) -> Cluster:
    """The cluster as it is now, read by the product."""
    return cluster_of(files.read_bytes(listed(api), "the cluster"))
