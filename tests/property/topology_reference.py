"""Reference of spread constraints and pod affinity, node by node and pod by pod: each count looks at every pod.

Slow and obvious on purpose, and written from the objects alone: it shares no code with the plugins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.model import objects

HOSTNAME = "kubernetes.io/hostname"
SKEWED = "node(s) didn't match pod topology spread constraints"
KEYLESS = SKEWED + " (missing required label)"
UNMATCHED = "node(s) didn't match pod affinity rules"
REPELLED = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass
class World:
    """Nodes with the pods on them, and namespaces' labels."""

    nodes: Sequence[objects.Node]
    pods_on: Mapping[str, Sequence[objects.Pod]]
    namespaces: Mapping[str, Mapping[str, str]]
    services: Sequence[objects.Service]

    def placed(self) -> list[tuple[objects.Node, objects.Pod]]:
        return [(node, pod) for node in self.nodes for pod in self.pods_on[node.metadata.name]]


def selects(selector: objects.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(_holds(one.key, one.operator, one.values, labels) for one in selector.match_expressions)


def _holds(key: str, operator: str, values: Sequence[str], labels: Mapping[str, str]) -> bool:
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
    return key not in labels


def namespace_of(pod: objects.Pod) -> str:
    return pod.metadata.namespace or "default"


# ── topology spread ──


def constraints(
    world: World, pod: objects.Pod, when: str
) -> list[tuple[objects.TopologySpreadConstraint, Callable[[Mapping[str, str]], bool]]]:
    own = pod.spec.topology_spread_constraints
    if own:
        return [(one, _spread_selector(one, pod)) for one in own if one.when_unsatisfiable == when]
    mine = [
        service.spec.selector
        for service in world.services
        if (service.metadata.namespace or "default") == namespace_of(pod) and service.spec.selector.items() <= pod.metadata.labels.items()
    ]
    merged = {key: value for selector in mine for key, value in selector.items()}
    if when != "ScheduleAnyway" or not merged:
        return []
    defaults = ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))
    return [
        (
            objects.TopologySpreadConstraint(topology_key=key, max_skew=skew, when_unsatisfiable=when),
            lambda labels: merged.items() <= labels.items(),
        )
        for key, skew in defaults
    ]


def _spread_selector(one: objects.TopologySpreadConstraint, pod: objects.Pod) -> Callable[[Mapping[str, str]], bool]:
    more = {key: pod.metadata.labels[key] for key in one.match_label_keys if key in pod.metadata.labels}
    if more and one.label_selector is None:
        return lambda labels: more.items() <= labels.items()
    return lambda labels: selects(one.label_selector, labels) and more.items() <= labels.items()


def _included(one: objects.TopologySpreadConstraint, pod: objects.Pod, node: objects.Node) -> bool:
    if one.node_affinity_policy in {None, "Honor"} and not pod.spec.node_selector.items() <= node.metadata.labels.items():
        return False
    if one.node_taints_policy == "Honor":
        return not node.spec.taints or bool(pod.spec.tolerations)
    return True


def _similar(world: World, pod: objects.Pod, node: objects.Node, selector: Callable[[Mapping[str, str]], bool]) -> int:
    return sum(
        1
        for other in world.pods_on[node.metadata.name]
        if namespace_of(other) == namespace_of(pod) and other.metadata.deletion_timestamp is None and selector(other.metadata.labels)
    )


def spread_filter(world: World, pod: objects.Pod, node: objects.Node) -> str:
    """The reason why a node is rejected, "" if it is not."""
    hard = constraints(world, pod, "DoNotSchedule")
    keys = {one.topology_key for one, _ in hard}
    for one, selector in hard:
        if one.topology_key not in node.metadata.labels:
            return KEYLESS
        counts: dict[str, int] = {}
        for other in world.nodes:
            if keys <= other.metadata.labels.keys() and _included(one, pod, other):
                value = other.metadata.labels[one.topology_key]
                counts[value] = counts.get(value, 0) + _similar(world, pod, other, selector)
        least = min(counts.values(), default=0)
        if len(counts) < (1 if one.min_domains is None else one.min_domains):
            least = 0
        mine = counts.get(node.metadata.labels[one.topology_key], 0)
        if mine + selector(pod.metadata.labels) - least > one.max_skew:
            return SKEWED
    return ""


def spread_points(world: World, pod: objects.Pod, feasible: Sequence[objects.Node]) -> dict[str, int] | None:
    """The normalised points of the feasible nodes, None if the plugin has nothing to say."""
    soft = constraints(world, pod, "ScheduleAnyway")
    if not soft:
        return None
    keys = {one.topology_key for one, _ in soft}
    explicit = bool(pod.spec.topology_spread_constraints)
    ignored = {node.metadata.name for node in feasible if explicit and not keys <= node.metadata.labels.keys()}
    scored = [node for node in feasible if node.metadata.name not in ignored]
    raw = {node.metadata.name: _spread_raw(world, pod, node, soft, scored) for node in scored}
    highest, lowest = max(raw.values(), default=0), min(raw.values(), default=0)
    points = {name: 100 if not highest else 100 * (highest + lowest - score) // highest for name, score in raw.items()}
    return points | dict.fromkeys(ignored, 0)


def _spread_raw(world: World, pod: objects.Pod, node: objects.Node, soft: Any, scored: Sequence[objects.Node]) -> int:
    explicit = bool(pod.spec.topology_spread_constraints)
    keys = {one.topology_key for one, _ in soft}
    score = 0.0
    for one, selector in soft:
        if one.topology_key not in node.metadata.labels:
            continue
        values = {other.metadata.labels.get(one.topology_key, "") for other in scored}
        if one.topology_key == HOSTNAME:
            size, count = len(scored), _similar(world, pod, node, selector)
        else:
            size = len(values)
            count = sum(
                _similar(world, pod, other, selector)
                for other in world.nodes
                if other.metadata.labels.get(one.topology_key) == node.metadata.labels[one.topology_key]
                and (not explicit or keys <= other.metadata.labels.keys())
                and _included(one, pod, other)
            )
        score += count * math.log(size + 2) + (one.max_skew - 1)
    return math.floor(score + 0.5)


# ── pod affinity ──


def _terms(pod: objects.Pod, kind: str, when: str) -> Sequence[Any]:
    affinity = pod.spec.affinity
    side = None if affinity is None else getattr(affinity, kind)
    return () if side is None else getattr(side, f"{when}_during_scheduling_ignored_during_execution")


def about(term: objects.PodAffinityTerm, owner: objects.Pod, other: objects.Pod, world: World) -> bool:
    """True if a term of one pod is about another pod."""
    own = not term.namespaces and term.namespace_selector is None
    namespaces = {namespace_of(owner)} if own else set(term.namespaces)
    labels = world.namespaces.get(namespace_of(other), {})
    # Known namespaces are selected by their labels; of unknown ones Kubernetes sees no labels, and only an empty selector takes them.
    known = namespace_of(other) in world.namespaces
    selected = term.namespace_selector is not None and selects(term.namespace_selector, labels)
    unknown_counts = (
        term.namespace_selector is not None and not term.namespace_selector.match_labels and not term.namespace_selector.match_expressions
    )
    if namespace_of(other) not in namespaces and not (selected and (known or unknown_counts or owner.spec.node_name)):
        return False
    rev = owner.metadata.labels.get("rev")
    if term.match_label_keys and rev is not None and other.metadata.labels.get("rev") != rev:
        return False
    return selects(term.label_selector, other.metadata.labels)


def affinity_filter(world: World, pod: objects.Pod, node: objects.Node) -> str:
    """The reason why a node is rejected, "" if it is not."""
    here = node.metadata.labels
    required = _terms(pod, "pod_affinity", "required")
    wanted = [where for where, other in world.placed() if required and all(about(term, pod, other, world) for term in required)]
    if any(term.topology_key not in here for term in required):
        return UNMATCHED
    near = all(any(where.metadata.labels.get(term.topology_key) == here[term.topology_key] for where in wanted) for term in required)
    anywhere = any(term.topology_key in where.metadata.labels for where in wanted for term in required)
    first = not anywhere and all(about(term, pod, pod, world) for term in required)
    if not near and not first:
        return UNMATCHED
    for term in _terms(pod, "pod_anti_affinity", "required"):
        if any(_together(term, here, where) and about(term, pod, other, world) for where, other in world.placed()):
            return REPELLED
    for where, other in world.placed():
        for term in _terms(other, "pod_anti_affinity", "required"):
            if _together(term, here, where) and about(term, other, pod, world):
                return UNWELCOME
    return ""


def _together(term: objects.PodAffinityTerm, here: Mapping[str, str], where: objects.Node) -> bool:
    return term.topology_key in here and where.metadata.labels.get(term.topology_key) == here[term.topology_key]


def affinity_points(world: World, pod: objects.Pod, feasible: Sequence[objects.Node]) -> dict[str, int] | None:
    """The normalised points of the feasible nodes, None if the plugin has nothing to say."""
    found: list[tuple[str, str, int]] = []
    for where, other in world.placed():
        for weight, term, owner, subject in _meetings(pod, other):
            if about(term, owner, subject, world) and term.topology_key in where.metadata.labels:
                found.append((term.topology_key, where.metadata.labels[term.topology_key], weight))
    if not found:
        return None
    raw = {node.metadata.name: sum(weight for key, value, weight in found if node.metadata.labels.get(key) == value) for node in feasible}
    low, high = min(raw.values()), max(raw.values())
    return {name: 0 if high == low else int(100 * ((score - low) / (high - low))) for name, score in raw.items()}


def _meetings(pod: objects.Pod, other: objects.Pod) -> list[tuple[int, objects.PodAffinityTerm, objects.Pod, objects.Pod]]:
    """(weight, term, whose term, about whom) for every term that makes a score when a pod meets a placed one."""
    both = ((pod, other), (other, pod))
    found = [
        (sign * each.weight, each.pod_affinity_term, owner, subject)
        for owner, subject in both
        for kind, sign in (("pod_affinity", 1), ("pod_anti_affinity", -1))
        for each in _terms(owner, kind, "preferred")
    ]
    return found + [(1, term, other, pod) for term in _terms(other, "pod_affinity", "required")]
