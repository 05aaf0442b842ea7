"""Explanations of devices: how many meet each condition, and how many all."""

from __future__ import annotations

from tests.unit.language.policies import policy as policy_of
from wharfinger.compiler.program import compile_policy
from wharfinger.explain.conditions import interpreter_of, operands
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

RULES = """policy "p"
let free = devices where not (it.taken ?? true)
filter gpus {
  require count(devices where it.attributes["model"] == "A100" and not it.tainted and it.name != "gpu-9", on: node) >= 3 else "few"
  require count(free, on: node) > count(devices, on: node) else "taken"
}
"""


def test_each_condition_is_counted() -> None:
    models, taint = ["A100", "A100", "T4"], [{"key": "broken", "effect": "NoSchedule"}]
    devices = [{"name": f"gpu-{n}", "attributes": {"model": {"string": model}}, "taints": taint[:n]} for n, model in enumerate(models)]
    spec = {"driver": "d", "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}, "nodeName": "a", "devices": devices}
    state = ClusterState()
    state.add_node(objects.Node(metadata=objects.ObjectMeta(name="a")))
    state.put(decode.convert({"metadata": {"name": "s"}, "spec": spec}, objects.ResourceSlice))
    compiled = compile_policy(policy_of(RULES))
    interpreter = interpreter_of(compiled, PodView(objects.Pod(metadata=objects.ObjectMeta(name="p"))), state.snapshot())
    first, second = compiled.policy.filters[0].clauses

    assert operands(interpreter, compiled.policy, first.condition, 0)[-1] == (
        'of 3 devices, 2 match `it.attributes["model"] == "A100"`, 1 match `not it.tainted`, 3 match `it.name != "gpu-9"`; 1 match all'
    )
    assert "of 3 devices, 3 match `not it.taken ?? true`" in operands(interpreter, compiled.policy, second.condition, 0)
