"""The OpenB trace (alibaba/clusterdata, cluster-trace-gpu-v2023) as Kubernetes nodes and pods.

How GPUs are accounted. Kubernetes counts an extended resource per node. It has no devices for it, and resources are independent of each
other. A node that advertised 8 `nvidia.com/gpu` for whole GPUs and, independently, 8,000 milli for shared ones would give every GPU twice.
So:

- a node advertises `nvidia.com/gpu: n` *and* `alibabacloud.com/gpu-milli: 1000·n`;
- a pod of a GPU share (`num_gpu` 1, `gpu_milli` < 1000) asks for that many milli;
- a pod of k whole GPUs asks for `nvidia.com/gpu: k` *and* for 1000·k milli.

All pods with GPUs request milli, so no GPU is given twice. The plugin GpuShares ensures that no single GPU gets more than it has.

The resource name is the one the trace's own scheduler used for shares. GPU models are the node label `nvidia.com/gpu.product`; a pod's
`gpu_spec` (`V100M16|V100M32`) becomes a required node affinity with operator In.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from importlib import resources
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.model.node_labels import HOSTNAME

GPU = "nvidia.com/gpu"
GPU_MILLI = "alibabacloud.com/gpu-milli"
GPU_PRODUCT = "nvidia.com/gpu.product"
QOS_LABEL = "openb/qos"

# The trace counts seconds from its own start and does not say when that was. Any fixed day will do.
EPOCH = datetime(2023, 1, 1, tzinfo=UTC)

# kubelet's default maximum; the trace does not say.
MAX_PODS = "110"

WHOLE_NUMBER = re.compile(r"[0-9]{1,11}")  # 10^11 seconds are 3,168 years, and the year of a time has four digits

Row = Mapping[str, str]


class Variant(Enum):
    """The pod list: DEFAULT has no GPU model constraints, GPUSPEC33 has them on a third of the GPU pods."""

    DEFAULT = "default"
    GPUSPEC33 = "gpuspec33"


def node_manifests() -> list[dict[str, Any]]:
    """The 1,523 nodes, in the order of the trace."""
    return [_node(f"openb-node-{i:04d}", row) for i, row in enumerate(_shipped("nodes.csv.gz"))]


def pod_manifests(variant: Variant = Variant.DEFAULT) -> list[dict[str, Any]]:
    """The 8,152 pods, all waiting for a node, in the order of the trace."""
    specs = variant is Variant.GPUSPEC33
    return [_pod(f"openb-pod-{i:04d}", row, row["gpu_spec"] if specs else "") for i, row in enumerate(_shipped("pods.csv.gz"))]


def manifests_from_csv(name: str, text: str) -> list[dict[str, Any]]:
    """Nodes or pods of a CSV file in the trace's own format (`sn,cpu_milli,…` or `name,cpu_milli,…`).

    Raises InvalidObject naming the file and the line when it is neither, or a number is not one.
    """
    rows = csv.DictReader(text.splitlines())
    try:
        columns = set(rows.fieldnames or ())
        if {"sn", "cpu_milli", "memory_mib", "gpu", "model"} <= columns:
            return [_node(row["sn"], row) for row in _checked(name, rows)]
        if {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "creation_time"} <= columns:
            return [_pod(row["name"], row, row["gpu_spec"]) for row in _checked(name, rows)]
    except csv.Error as error:
        raise InvalidObject(f"{name}: line {rows.line_num + 1}: not CSV: {error}") from error
    raise InvalidObject(f"{name}: a CSV file is read as an OpenB node or pod list, and its header is neither")


def _checked(name: str, rows: csv.DictReader[str]) -> Iterator[Row]:
    for row in rows:
        for column in ("cpu_milli", "memory_mib", "gpu", "num_gpu", "gpu_milli", "creation_time"):
            if column in row and not WHOLE_NUMBER.fullmatch(row[column] or ""):
                raise InvalidObject(f"{name}: line {rows.line_num}: {column} is {row[column]!r}, not a whole number of at most 11 digits")
        yield row


def _shipped(name: str) -> Iterator[Row]:
    packed = resources.files(__package__).joinpath(name).read_bytes()
    return csv.DictReader(gzip.decompress(packed).decode().splitlines())


def _node(name: str, row: Row) -> dict[str, Any]:
    gpus = int(row["gpu"])
    labels = {HOSTNAME: name}
    amounts = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi", "pods": MAX_PODS}
    if gpus:
        labels[GPU_PRODUCT] = row["model"]
        amounts |= {GPU: str(gpus), GPU_MILLI: str(1000 * gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _pod(name: str, row: Row, gpu_spec: str) -> dict[str, Any]:
    created = EPOCH + timedelta(seconds=int(row["creation_time"]))
    gpus = _gpu_amounts(int(row["num_gpu"]), int(row["gpu_milli"]))
    requests = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"} | gpus
    container = {"name": "main", "resources": {"requests": requests, "limits": gpus}}
    spec: dict[str, Any] = {"containers": [container]}
    if gpu_spec:
        spec["affinity"] = {"nodeAffinity": _in_models(sorted(set(gpu_spec.split("|"))))}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "openb",
            "labels": {QOS_LABEL: row["qos"]},
            "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _gpu_amounts(count: int, milli_each: int) -> dict[str, str]:
    """The GPU requests of a pod: always milli, and whole GPUs too if it does not share them."""
    if count == 0:
        return {}
    if milli_each < 1000:
        return {GPU_MILLI: str(milli_each)}
    return {GPU: str(count), GPU_MILLI: str(1000 * count)}


def _in_models(models: Sequence[str]) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": GPU_PRODUCT, "operator": "In", "values": list(models)}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


__all__ = [
    "EPOCH",
    "GPU",
    "GPU_MILLI",
    "GPU_PRODUCT",
    "Variant",
    "manifests_from_csv",
    "node_manifests",
    "pod_manifests",
]
