"""The numbers behind what Kubernetes' own filters say: `cpu: 500m wanted, 300m free of 4`.

kube-scheduler's reasons name a resource or a taint at most; the amounts are what people look up next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from wharfinger.model import tolerations
from wharfinger.model.host_ports import taken_ports
from wharfinger.model.node_view import NodeView
from wharfinger.model.pod import PodView
from wharfinger.model.quantity import format_amount


def details(rule: str, pod: PodView, node: NodeView) -> tuple[str, ...]:
    """Lines with the amounts, taints or labels behind a rejection by a built-in filter; none where the reason says it all."""
    explain = _DETAILS.get(rule)
    return () if explain is None else tuple(explain(pod, node))


def _resources(pod: PodView, node: NodeView) -> Iterator[str]:
    allocatable, free = node.allocatable, node.free
    for resource, wanted in pod.requests.items():
        if wanted > free.get(resource, 0):
            amounts = (format_amount(resource, amount) for amount in (wanted, free.get(resource, 0), allocatable.get(resource, 0)))
            yield "{}: {} wanted, {} free of {}".format(resource, *amounts)
    if free.get("pods", 0) < 1:
        yield f"pods: {len(node.pods)} on the node, which takes {allocatable.get('pods', 0)}"


def _taints(pod: PodView, node: NodeView) -> Iterator[str]:
    for taint in tolerations.untolerated(pod.object.spec.tolerations, node.taints):
        value = f"={taint.value}" if taint.value else ""
        yield f"taint {taint.key}{value}:{taint.effect}"


def _selector(pod: PodView, node: NodeView) -> Iterator[str]:
    for key, value in pod.object.spec.node_selector.items():
        if node.labels.get(key) != value:
            yield f"nodeSelector {key}={value}, the node has {node.labels.get(key, 'no such label')}"


def _ports(pod: PodView, node: NodeView) -> Iterator[str]:
    for (_, protocol, port), other in taken_ports(pod, node.pods):
        user = other.key if other.namespace == pod.namespace else "a pod of another namespace"  # people pass explanations on
        yield f"{protocol} port {port} is used by {user}"


_DETAILS: Mapping[str, Callable[[PodView, NodeView], Iterator[str]]] = {
    "NodeResourcesFit": _resources,
    "TaintToleration": _taints,
    "NodeAffinity": _selector,
    "NodePorts": _ports,
}
