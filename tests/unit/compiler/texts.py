"""Policies and small clusters written out, for tests of the compiler."""

from __future__ import annotations

from typing import Any

from tests.load_source import load_source
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics import typed
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

ZONE = "topology.kubernetes.io/zone"
WEB_SPREAD = """
policy "web-spread" version "1.2.0"
for pods where pod.labels["tier"] == "web" and pod.namespace != "kube-system"
param max_per_node: count   = 2   range 1..10
param keep_free:    percent = 10% range 0%..50%
let siblings = pods where it.labels["app"] == pod.labels["app"]
let here     = count(siblings, on: node)
filter not_crowded {
  require here < max_per_node
    else "already runs {here} pod(s) of {pod.labels['app']}, limit {max_per_node}"
  require ratio(node.free.memory - pod.requests.memory, node.allocatable.memory) >= keep_free
    else "would leave less than {keep_free} of memory free" on missing reject
}
filter no_spot when pod.priority >= 1000 {
  reject (node.labels["lifecycle"] ?? "on-demand") == "spot" else "critical pod on a spot node"
}
score zone_spread weight 5 = spread(siblings, by: "topology.kubernetes.io/zone") on missing 0
score node_spread weight 3 = -here normalize minmax
prefer fast_disk  weight 1 when pod.annotations["disk"] == "fast" = node.labels matches "disktype in (ssd,nvme)"
base kubernetes { ImageLocality weight 0 }
tie_break node.pod_count asc
"""


def typed_policy(text: str) -> typed.Policy:
    found = Diagnostics()
    policy = load_source(Source(name="test.policy", text=text), CATALOGUE, found)
    assert policy is not None, [f"{d.span}: {d.message}" for d in found]
    return policy


def compiled(text: str, **params: Any) -> CompiledPolicy:
    return compile_policy(typed_policy(text), params)


def node(name: str, *, labels: dict[str, str] | None = None, **offers: str) -> objects.Node:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"} | {key.replace("_", "-"): value for key, value in offers.items()}
    return objects.Node(
        metadata=objects.ObjectMeta(name=name, labels=labels or {}), status=objects.NodeStatus(allocatable=amounts, capacity=amounts)
    )


def pod(name: str, *, on: str = "", labels: dict[str, str] | None = None, priority: int | None = None, **requests: str) -> PodView:
    container = objects.Container(name="main", resources=objects.ContainerResources(requests=requests))
    return PodView(
        objects.Pod(
            metadata=objects.ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", labels=labels or {}),
            spec=objects.PodSpec(containers=(container,), node_name=on, priority=priority),
        )
    )


def cluster(*things: objects.Node | PodView) -> ClusterState:
    state = ClusterState()
    for thing in things:
        if isinstance(thing, PodView):
            state.add_pod(thing)
        else:
            state.add_node(thing)
    return state
