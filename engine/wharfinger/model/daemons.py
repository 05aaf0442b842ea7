"""What the DaemonSet controller does to a pod, and on which nodes (controller/daemon, Kubernetes 1.36)."""

from __future__ import annotations

from msgspec import structs

from wharfinger.model import objects, selectors, tolerations

_TOLERATED = {
    "node.kubernetes.io/not-ready": "NoExecute",
    "node.kubernetes.io/unreachable": "NoExecute",
    "node.kubernetes.io/disk-pressure": "NoSchedule",
    "node.kubernetes.io/memory-pressure": "NoSchedule",
    "node.kubernetes.io/pid-pressure": "NoSchedule",
    "node.kubernetes.io/unschedulable": "NoSchedule",
}
_WITHOUT_NETWORK = {"node.kubernetes.io/network-unavailable": "NoSchedule"}


def with_tolerations(spec: objects.PodSpec) -> objects.PodSpec:
    """The spec with the tolerations that every daemon has."""
    wanted = _TOLERATED | (_WITHOUT_NETWORK if spec.host_network else {})
    added = tuple(objects.Toleration(key=key, operator="Exists", effect=effect) for key, effect in wanted.items())
    return structs.replace(spec, tolerations=(*(one for one in spec.tolerations if one not in added), *added))


def runs_on(spec: objects.PodSpec, node: objects.Node) -> bool:
    """Whether a daemon of this spec belongs on a node: its name, node selector and affinity, and taints; not its resources."""
    name, labels = node.metadata.name, node.metadata.labels
    if spec.node_name not in {"", name} or not selectors.of_labels(spec.node_selector).matches(labels):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is not None and not selectors.node_selector(required).matches(labels, name):
        return False
    return not tolerations.untolerated(spec.tolerations, node.spec.taints)


def pinned_to(spec: objects.PodSpec, node_name: str) -> objects.PodSpec:
    """The spec with node affinity for one node only, in place of the names that its terms had (ReplaceDaemonSetPodNodeNameNodeAffinity)."""
    only = objects.NodeSelectorTerm(
        match_fields=(objects.NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,)),)
    )
    affinity = spec.affinity or objects.Affinity()
    node_affinity = structs.replace(
        affinity.node_affinity or objects.NodeAffinity(),
        required_during_scheduling_ignored_during_execution=objects.NodeSelector(node_selector_terms=(only,)),
    )
    return structs.replace(spec, affinity=structs.replace(affinity, node_affinity=node_affinity))
