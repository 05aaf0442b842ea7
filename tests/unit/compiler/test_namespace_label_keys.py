"""Labels of a pod's namespace as keys: they are read from the cluster, and the attributes under them like those under a written key."""

from __future__ import annotations

import pytest

from tests.unit.compiler.texts import compiled
from wharfinger.policies import policy_tests

OF_NAMESPACE, OF_DEVICE = 'pod.namespace_labels["key"]', 'pod.namespace_labels["device"]'
RULES = f"""policy "p"
filter f {{ require CONDITION else "no" on missing reject }}
group by pod.labels["job"] ?? {OF_NAMESPACE} {{ min_count 1 }}
test "t" {{
  node a {{
    labels: {{ "example.com/x": "1" }}, annotations: {{ "example.com/x": "1" }}, conditions: {{ "example.com/x": "True" }},
    resources: {{ "example.com/x": 3 }}, devices: [{{ attributes: {{ x: "1" }}, capacity: {{ x: 8 }} }}]
  }}
  node b
  pod p {{
    namespace_labels: {{ key: "example.com/x", device: "x", "example.com/x": "1" }}, labels: {{ "example.com/x": "1" }},
    annotations: {{ "example.com/x": "1" }}, requests: {{ "example.com/x": 2 }}, limits: {{ "example.com/x": 2 }},
    node_selector: {{ "example.com/x": "1" }}
  }}
  pod other {{ namespace: "without-labels", labels: {{ "example.com/x": "1" }} }}
  place p
  expect p on a
  place other
  expect other pending message "no"
}}
"""
CONDITIONS = [
    *(f'{subject}[{OF_NAMESPACE}] == "1"' for subject in ("node.labels", "pod.labels", "pod.namespace_labels", "pod.node_selector")),
    *(f'{subject}[{OF_NAMESPACE}] == "1"' for subject in ("node.annotations", "pod.annotations")),
    f'node.conditions[{OF_NAMESPACE}] == "True"',
    *(f"{subject}[{OF_NAMESPACE}] == 2" for subject in ("pod.requests", "pod.limits")),
    *(f"{subject}[{OF_NAMESPACE}] == 3" for subject in ("node.free", "node.allocatable", "node.capacity")),
    f'count(devices where it.attributes[{OF_DEVICE}] == "1", on: node) == 1',
    f"sum(devices, it.capacity[{OF_DEVICE}], on: node) == 8",
    f'pod.group.name == "example.com/x" and count(group) == 0 and has({OF_NAMESPACE})',
    f"pod.group.size == 1 and has({OF_NAMESPACE})",
    f"has(node.labels[pod.labels[{OF_NAMESPACE}] ?? {OF_NAMESPACE}]) or has(node.labels[{OF_NAMESPACE}])",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_labels_of_namespaces_can_be_keys_of_attributes(condition):
    policy = compiled(RULES.replace("CONDITION", condition)).policy
    assert [failure.sentence for result in policy_tests.run([policy]).results for failure in result.failures] == []
