"""The events that may help a pod that a filter of a policy has rejected, by the values that the filter reads."""

from __future__ import annotations

import pytest

from tests.property.test_cached_decision import compiled
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework import cluster_event
from wharfinger.framework.cluster_event import ClusterEvent

ALWAYS = ClusterEvent.NODE_ADD
READS = [
    ('time_of_day(tz: "UTC") < 8h', ClusterEvent.TIME),
    ('weekday(tz: "Europe/Berlin") in ["sat", "sun"]', ClusterEvent.TIME),
    ("hash(pod.namespace) < 10%", cluster_event.NO_EVENT),
    ('has(pod.node_selector["disk"])', cluster_event.NO_EVENT),
    ('(pod.namespace_labels["tier"] ?? "") == "gold"', ClusterEvent.NAMESPACE),
    ('pod.namespace_labels matches "tier=gold"', ClusterEvent.NAMESPACE),
    ("(pod.group.size ?? 1) > 4", cluster_event.ANY),
    ('(pod.group.name ?? "") == "llm"', cluster_event.NO_EVENT),
]


def _wakes(policy: CompiledPolicy) -> cluster_event.Wakes:
    return cluster_event.of_filter(policy, policy.policy.filters[0])


@pytest.mark.parametrize(("condition", "events"), READS)
def test_a_filter_is_woken_by_what_it_reads(condition: str, events: ClusterEvent) -> None:
    policy = compiled(f'policy "p"\nlet it_holds = {condition}\nfilter f {{ require it_holds else "no" }}')
    assert _wakes(policy).events == ALWAYS | events


@pytest.mark.parametrize("condition", ['has_taint(node, "old")', "untolerated_taints(pod, node) == 0", "node_affinity_matches(pod)"])
def test_taints_and_labels_of_nodes_wake(condition: str) -> None:
    wakes = _wakes(compiled(f'policy "p"\nfilter f {{ require {condition} else "no" }}'))
    assert ClusterEvent.NODE_TAINT | ClusterEvent.NODE_LABEL in wakes.events
    assert wakes.keys is None


def test_counts_by_labels_of_namespaces_wake() -> None:
    text = 'policy "p"\nlet gold = pods where it.namespace_labels matches "gold"\nfilter f { require count(gold, on: node) == 0 else "no" }'
    assert cluster_event.POD | ClusterEvent.NAMESPACE in _wakes(compiled(text)).events


def test_a_scope_that_reads_the_clock_is_looked_at_again() -> None:
    policy = compiled('policy "p"\nfor pods where weekday(tz: "UTC") != "sun"\nfilter f { require node.pod_count < 3 else "no" }')
    assert policy.scope_reads_time
    assert ClusterEvent.TIME in _wakes(policy).events


def test_a_scope_that_reads_labels_of_namespaces_is_looked_at_again() -> None:
    policy = compiled('policy "p"\nfor pods where pod.namespace_labels["team"] == "ml"\nfilter f { require node.pod_count < 3 else "no" }')
    assert policy.scope_reads_namespaces
    assert policy.scope_varies
    assert ClusterEvent.NAMESPACE in _wakes(policy).events
