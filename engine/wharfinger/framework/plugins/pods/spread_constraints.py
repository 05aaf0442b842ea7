"""Topology spread constraints as the plugin uses them: parsed, defaulted, and with the nodes they look at.

A pod without constraints of its own gets the profile's default ones, over the pods selected by the Services and the controller that it
belongs to. Rules of `pkg/scheduler/framework/plugins/podtopologyspread/common.go` and `plugins/helper/spread.go`, Kubernetes 1.36.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.errors import InvalidObject
from wharfinger.framework.plugins import node_affinity
from wharfinger.framework.verdict import Mask
from wharfinger.model import objects
from wharfinger.model.objects import selectors, tolerations

if TYPE_CHECKING:
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"

SYSTEM_DEFAULTS = (
    objects.TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    objects.TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)
OWNERS = (objects.Service, objects.ReplicationController, objects.ReplicaSet, objects.StatefulSet)
"""The kinds from which the selector of default constraints is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One constraint of a pod."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: selectors.Selector
    honor_affinity: bool
    honor_taints: bool
    counts_itself: bool  # whether the pod will be one of those it spreads over

    def selection(self, snapshot: Snapshot, namespace: str) -> Selection:
        """The placed pods that count: of the pod's namespace, selected, and not on their way out."""
        return snapshot.selection(("PodTopologySpread", namespace, self.selector), lambda placed: self.counts(placed, namespace))

    def counts(self, placed: PodView, namespace: str) -> bool:
        """Whether a placed pod counts for pods of a namespace."""
        return placed.namespace == namespace and not placed.terminating and self.selector.matches(placed.labels)


@dataclass(frozen=True, slots=True)
class Eligible:
    """The nodes whose pods count for a constraint, `(n_nodes,) bool`, None for all that have its key; `key` stands for the values."""

    mask: Mask | None
    key: bytes | None


def parse(constraints: Sequence[objects.TopologySpreadConstraint], pod: PodView, when_unsatisfiable: str) -> tuple[Constraint, ...]:
    """The constraints of a kind; InvalidObject where a selector is malformed."""
    return tuple(_parsed(constraint, pod) for constraint in constraints if constraint.when_unsatisfiable == when_unsatisfiable)


def parse_default(
    constraints: Sequence[objects.TopologySpreadConstraint], pod: PodView, snapshot: Snapshot, when_unsatisfiable: str
) -> tuple[Constraint, ...]:
    """The default constraints of a kind for a pod without its own; none for a pod that belongs to nothing."""
    wanted = [constraint for constraint in constraints if constraint.when_unsatisfiable == when_unsatisfiable]
    if not wanted:
        return ()
    selector = default_selector(pod, snapshot)
    return () if selector == selectors.EVERYTHING else tuple(_with_selector(constraint, pod, selector) for constraint in wanted)


def default_selector(pod: PodView, snapshot: Snapshot) -> selectors.Selector:
    """What the Services that select the pod, and its controller, select together; everything if there are none."""
    store, namespace = snapshot.objects, pod.namespace
    labels: dict[str, str] = {}
    for service in store.group(objects.Service, _namespace_of, namespace):
        if selectors.of_labels(service.spec.selector).matches(pod.labels):
            labels |= service.spec.selector
    owner = pod.controller
    selector = selectors.of_labels(labels)
    if owner is None:
        return selector
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = store.get(objects.ReplicationController, owner.name, namespace)
        return selector if controller is None else selectors.of_labels(labels | controller.spec.selector)
    found: objects.ReplicaSet | objects.StatefulSet | None = None
    if (owner.api_version, owner.kind) == ("apps/v1", "ReplicaSet"):
        found = store.get(objects.ReplicaSet, owner.name, namespace)
    elif (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet"):
        found = store.get(objects.StatefulSet, owner.name, namespace)
    return selector if found is None else _and_selector(selector, found.spec.selector)


def eligible(constraints: Sequence[Constraint], pod: PodView, snapshot: Snapshot, *, all_keys: bool) -> tuple[Eligible, ...]:
    """For each constraint the nodes whose pods count: `all_keys` leaves out nodes that lack the key of any of the constraints."""
    present = [snapshot.domain(constraint.topology_key)[0] >= 0 for constraint in constraints]
    common = np.logical_and.reduce(present) if all_keys else None
    affinity = _affinity_mask(pod, snapshot) if any(constraint.honor_affinity for constraint in constraints) else None
    taints = _taint_mask(pod, snapshot) if any(constraint.honor_taints for constraint in constraints) else None
    found = []
    for constraint, has_key in zip(constraints, present, strict=True):
        mask = has_key if common is None else common
        if constraint.honor_affinity and affinity is not None:
            mask = mask & affinity
        if constraint.honor_taints and taints is not None:
            mask = mask & taints
        found.append(Eligible(None, None) if np.array_equal(mask, has_key) else Eligible(mask, _digest(mask)))
    return tuple(found)


def _parsed(constraint: objects.TopologySpreadConstraint, pod: PodView) -> Constraint:
    selector = selectors.label_selector(constraint.label_selector)
    labels = {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels}
    if labels:  # a constraint without selector then selects by these labels alone
        selector = (selectors.EVERYTHING if selector.nothing else selector).and_labels(labels)
    return _with_selector(constraint, pod, selector)


def _with_selector(constraint: objects.TopologySpreadConstraint, pod: PodView, selector: selectors.Selector) -> Constraint:
    return Constraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        selector=selector,
        honor_affinity=constraint.node_affinity_policy in {None, HONOR},
        honor_taints=constraint.node_taints_policy == HONOR,
        counts_itself=selector.matches(pod.labels),
    )


def _namespace_of(service: objects.Service) -> str:
    return service.metadata.namespace or "default"


def _and_selector(selector: selectors.Selector, other: objects.LabelSelector | None) -> selectors.Selector:
    try:
        more = selectors.label_selector(other).requirements
    except InvalidObject:  # a controller with a selector that cannot be read is left out
        return selector
    return selectors.Selector(tuple(sorted({*selector.requirements, *more})))


def _affinity_mask(pod: PodView, snapshot: Snapshot) -> Mask | None:
    needed = node_affinity.required(pod.object)
    return None if needed is None else needed.matches(snapshot, slice(None))


def _taint_mask(pod: PodView, snapshot: Snapshot) -> Mask:
    distinct, places = np.unique(snapshot.taint_set, return_inverse=True)
    accepted = [not tolerations.untolerated(pod.object.spec.tolerations, snapshot.taints(number)) for number in distinct.tolist()]
    mask: Mask = np.array(accepted, np.bool_)[places]
    return mask


def _digest(mask: Mask) -> bytes:
    return hashlib.blake2b(mask.tobytes(), digest_size=16).digest()
