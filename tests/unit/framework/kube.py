"""Small clusters as plain Kubernetes JSON, and the decisions of the default chain."""

from __future__ import annotations

from typing import Any

from tests.parity import case as cases
from tests.parity.answer import filters
from wharfinger.framework import chain
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.model.state.cluster_state import ClusterState

ZONE = "topology.kubernetes.io/zone"
Plain = dict[str, Any]


def node(name: str, *, labels: Plain | None = None, images: list[Plain] | None = None, offer: Plain | None = None, **spec: Any) -> Plain:
    offered = {"cpu": "4", "memory": "16Gi", "pods": "110", **(offer or {})}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": offered, "capacity": offered, "images": images or []},
    }


def pod(
    name: str = "p", *, on: str = "", labels: Plain | None = None, requests: Plain | None = None, status: Plain | None = None, **spec: Any
) -> Plain:
    containers = [{"name": "c", "image": "web:1", "resources": {"requests": requests or {}}, "ports": spec.pop("ports", [])}]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}, **spec.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"containers": containers, "nodeName": on, **spec}, "status": status or {}}


def state(nodes: list[Plain], pods: list[Plain] | None = None, **others: Any) -> ClusterState:
    return cases.cluster({"id": "here", "nodes": nodes, "pods": pods or [], **others})


def decide(cluster: ClusterState, pending: Plain, *, preempt: bool = False, **arguments: Plain) -> Decision:
    disabled = set() if preempt else {"DefaultPreemption"}
    return cycle.decide(
        chain.assemble(config=ChainConfig(arguments=arguments, disabled=disabled)), cluster.snapshot(), cases.pending({"pod": pending})
    )


def rejected(plugin: str, cluster: ClusterState, pending: Plain, **arguments: Plain) -> dict[str, list[str]]:
    """The nodes that a filter rejects by itself, each with its reasons."""
    chained = chain.assemble(config=ChainConfig(arguments=arguments))
    return filters(chained, cluster.snapshot(), cases.pending({"pod": pending}))[plugin]


def points(plugin: str, decision: Decision) -> dict[str, float]:
    """The points of a plugin at every feasible node."""
    found = {node: {part.name: part.points for part in decision.scores_at(node)} for node in decision.feasible_nodes()}
    return {node: parts[plugin] for node, parts in found.items() if plugin in parts}
