"""The OpenB trace (alibaba/clusterdata, cluster-trace-gpu-v2023) as Kubernetes nodes and pods.

How GPUs are accounted. Kubernetes counts an extended resource per node; it knows no devices, and nothing ties one resource to another. A
node that advertised 8 `nvidia.com/gpu` for whole GPUs and, independently, 8,000 milli for shared ones would sell every GPU twice. So:

- a node advertises `nvidia.com/gpu: n` *and* `alibabacloud.com/gpu-milli: 1000·n`;
- a pod of a GPU share (`num_gpu` 1, `gpu_milli` < 1000) asks for that many milli;
- a pod of k whole GPUs asks for `nvidia.com/gpu: k` *and* for 1000·k milli.

The milli are the pool that everything draws from, so no node is ever sold twice, with plain Kubernetes rules and with any policy. What
this cannot see is the device: a share of 800 milli is accepted where two devices have 400 free each, and a whole GPU is granted on 1,000
free milli although they may be spread over two devices. Results are thus an upper bound of what devices could honour; `device_overflow`
says how much of a placement finds no device.

The resource name is the one the trace's own scheduler used for shares. GPU models are the node label `nvidia.com/gpu.product`; a pod's
`gpu_spec` (`V100M16|V100M32`) becomes a required node affinity with operator In.
"""

from __future__ import annotations

from wharfinger.runtime.openb.devices import device_overflow
from wharfinger.runtime.openb.trace import EPOCH, GPU, GPU_MILLI, GPU_PRODUCT, Variant, manifests_from_csv, node_manifests, pod_manifests

__all__ = [
    "EPOCH",
    "GPU",
    "GPU_MILLI",
    "GPU_PRODUCT",
    "Variant",
    "device_overflow",
    "manifests_from_csv",
    "node_manifests",
    "pod_manifests",
]
