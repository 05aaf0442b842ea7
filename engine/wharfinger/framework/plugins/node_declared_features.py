"""NodeDeclaredFeatures: pods that need a feature of the kubelet stay off nodes that do not declare it.

Nodes declare features in `status.declaredFeatures`, so that a cluster can run kubelets of several versions. Which features a pod needs is
read from its spec. Sources: `pkg/scheduler/framework/plugins/nodedeclaredfeatures` and the registry in
`component-helpers/nodedeclaredfeatures/features`, Kubernetes 1.36; its other features concern updates of pods, not scheduling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.prepared import SKIP_ALWAYS, Attempt, Mask, PreparedFilter, Reason, Rows, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


def _restarts_all_containers(spec: objects.PodSpec) -> bool:
    containers = (*spec.containers, *spec.init_containers)
    return any(rule.action == "RestartAllContainers" for container in containers for rule in container.restart_policy_rules)


def _has_user_namespace_on_host_network(spec: objects.PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


FEATURES: Mapping[str, Callable[[objects.PodSpec], bool]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_user_namespace_on_host_network,
}
"""Features that matter for scheduling: whether a pod needs them, by name."""


def needed(spec: objects.PodSpec) -> tuple[str, ...]:
    """The names of the features that a pod needs."""
    return tuple(name for name, needs in FEATURES.items() if needs(spec))


class NodeDeclaredFeatures(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodedeclaredfeatures`, with the feature gates of Kubernetes 1.36 as they are by default."""

    name = "NodeDeclaredFeatures"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_OTHER

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip:
        """Skip for a pod that needs no feature, which is nearly every pod."""
        features = needed(attempt.pod.object.spec)
        return Undeclared(features) if features else SKIP_ALWAYS

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the node declares the features that the pod needs now, or is not known."""
        return change.now is None or set(needed(pod.object.spec)) <= set(change.now.status.declared_features)


class Undeclared(PreparedFilter):
    """Bit 0 where the node does not declare all features."""

    reasons = (Reason("node(s) didn't match Pod's required features", resolvable=False),)

    def __init__(self, features: tuple[str, ...]) -> None:
        self._features = features

    def bits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The verdicts."""
        declared = [snapshot.fact(f"declaredFeatures/{name}", _declares(name))[rows] == 1 for name in self._features]
        lacking: Mask = ~np.logical_and.reduce(declared)
        return lacking


def _declares(name: str) -> Callable[[objects.Node], float]:
    return lambda node: float(name in node.status.declared_features)
