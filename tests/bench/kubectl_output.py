"""A cluster as `kubectl get nodes,pods -A -o json` prints it: managed fields, statuses, tokens and all, about 3 KB a pod.

python -m tests.bench.kubectl_output 5000 50000 cluster.json
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIME = "2026-01-01T00:00:00Z"
ZONES = 3
APPS = 200


def _managed_fields() -> list[dict[str, Any]]:
    labels = {"f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}, "f:tier": {}}, "f:ownerReferences": {".": {}}}
    container = {".": {}, "f:image": {}, "f:name": {}, "f:resources": {".": {}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}}}
    spec = {"f:containers": {'k:{"name":"app"}': container}, "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}}
    fields = {"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": labels, "f:spec": spec}}
    return [{**fields, "manager": "kube-controller-manager", "operation": "Update", "time": TIME}]


def node(number: int) -> dict[str, Any]:
    """One node with thirty images."""
    name = f"node-{number:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m5.4xlarge",
        "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
    }
    images = [(number * 7 + step) % APPS for step in range(30)]
    status = {
        "allocatable": {"cpu": "15890m", "ephemeral-storage": "95551679124", "memory": "64310940Ki", "pods": "110"},
        "capacity": {"cpu": "16", "ephemeral-storage": "104845292Ki", "memory": "65335Mi", "pods": "110"},
        "conditions": [
            {"lastHeartbeatTime": TIME, "lastTransitionTime": TIME, "message": "fine", "reason": "Kubelet", "status": "False", "type": kind}
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ],
        "images": [
            {"names": [f"registry.example.com/app-{app}@sha256:{app:064x}", f"registry.example.com/app-{app}:v1"], "sizeBytes": 10**7 + app}
            for app in images
        ],
    }
    metadata = {"creationTimestamp": TIME, "labels": labels, "managedFields": _managed_fields(), "name": name, "uid": f"node-{number}"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": f"aws:///zone/i-{number}"}, "status": status}


def pod(number: int, nodes: int) -> dict[str, Any]:
    """One running pod of one of two hundred Deployments."""
    app = number % APPS
    resources = {"limits": {"memory": "512Mi"}, "requests": {"cpu": f"{100 + app}m", "memory": "256Mi"}}
    owner = {"apiVersion": "apps/v1", "controller": True, "kind": "ReplicaSet", "name": f"app-{app}-7d9c5b8f6", "uid": f"owner-{app}"}
    token = {"name": f"kube-api-access-{number:05x}", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    tolerations = [
        {"effect": "NoExecute", "key": f"node.kubernetes.io/{state}", "operator": "Exists", "tolerationSeconds": 300}
        for state in ("not-ready", "unreachable")
    ]
    conditions = [
        {"lastProbeTime": None, "lastTransitionTime": TIME, "observedGeneration": 1, "status": "True", "type": kind}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    container = {
        "image": f"registry.example.com/app-{app}:v1",
        "imagePullPolicy": "IfNotPresent",
        "name": "app",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "resources": resources,
        "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": token["name"], "readOnly": True}],
    }
    state = {
        "allocatedResources": resources["requests"],
        "containerID": f"containerd://{number:064x}",
        "name": "app",
        "ready": True,
        "resources": resources,
        "state": {"running": {"startedAt": TIME}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": TIME,
            "generateName": f"{owner['name']}-",
            "labels": {"app": f"app-{app}", "pod-template-hash": "7d9c5b8f6", "tier": "web"},
            "managedFields": _managed_fields(),
            "name": f"{owner['name']}-{number:05d}",
            "namespace": f"team-{app % 20}",
            "ownerReferences": [owner],
            "resourceVersion": str(number),
            "uid": f"pod-{number:032d}",
        },
        "spec": {
            "containers": [container],
            "nodeName": f"node-{number % nodes:05d}",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": tolerations,
            "volumes": [token],
        },
        "status": {"conditions": conditions, "containerStatuses": [state], "phase": "Running", "qosClass": "Burstable", "startTime": TIME},
    }


def write(path: Path, nodes: int, pods: int) -> None:
    """Write the List, one item after another."""

    def items() -> Iterator[dict[str, Any]]:
        yield from map(node, range(nodes))
        yield from (pod(number, nodes) for number in range(pods))

    encoder = json.JSONEncoder(separators=(",", ":"))
    with path.open("w") as file:
        for index, item in enumerate(items()):
            file.write('{"apiVersion":"v1","items":[' if index == 0 else ",")
            file.write(encoder.encode(item))
        file.write('],"kind":"List","metadata":{"resourceVersion":""}}\n')


if __name__ == "__main__":
    write(Path(sys.argv[3]), int(sys.argv[1]), int(sys.argv[2]))
