"""Kernels and interpreter agree on what policies say of devices: selections, aggregates, and which device of a node comes first."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import clusters
from tests.property.test_check_sound import mended
from tests.property.test_evaluators import differences, pending
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import SKIP, Interpreter
from wharfinger.compiler.program import compile_policy
from wharfinger.model import objects
from wharfinger.model.devices.device import AttributeValue, Device, DeviceDemand, Store, Version
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

some = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

ATTRIBUTES = st.dictionaries(
    st.sampled_from(["model", "index", "numa", "ready", "driverVersion", "other.com/model"]),
    st.sampled_from(["A100", "T4", "", 0, 3, 7, True, False, Version("535.104.0"), Version("535.104.0+build"), Version("7.0.0-rc.1")]),
    max_size=5,
)
AMOUNTS = st.sampled_from([0.0, 1.0, 250.0, 1000.0, 40.0 * 2**30, 80.0 * 2**30])


@st.composite
def devices(draw: st.DrawFn, name: str) -> Device:
    capacity = draw(st.dictionaries(st.sampled_from(["memory", "milli", "cores"]), AMOUNTS))
    free = {key: draw(st.sampled_from([0.0, 0.5, 1.0])) * amount for key, amount in capacity.items() if draw(st.booleans())}
    attributes: Mapping[str, AttributeValue] = draw(ATTRIBUTES)
    return Device(
        draw(st.sampled_from(["gpu.example.com", "nic.example.com"])),
        "pool",
        name,
        attributes,
        capacity,
        free,
        draw(st.sampled_from([True, False, None])),
        draw(st.sampled_from([(), ("broken:NoSchedule",)])),
        draw(st.sampled_from([None, 0.0, 1000.0])),
    )


class Given:
    """A source of devices that are given by the name of their node; a pod on it takes one away."""

    def __init__(self, by_node: Mapping[str, Sequence[Device]]) -> None:
        self._by_node = by_node

    def devices_on(self, node: objects.Node, pods: Sequence[PodView], store: Store) -> Sequence[Device]:
        return self._by_node.get(node.metadata.name, ())[len(pods) :]

    def demand(self, pod: PodView, store: Store) -> DeviceDemand | None:
        return DeviceDemand(1, 250.0)

    def token(self, store: Store) -> Hashable:
        return None

    def changed_nodes(self, store: Store, token: Hashable) -> Collection[str] | None:
        return ()


@st.composite
def states(draw: st.DrawFn) -> ClusterState:
    state = ClusterState()
    names = clusters.NODE_NAMES[: draw(st.integers(1, 4))]
    state.read_devices([Given({name: [draw(devices(str(n))) for n in range(draw(st.integers(0, 4)))] for name in names})])
    for name in names:
        state.add_node(draw(clusters.nodes(st.just(name))))
    for name in clusters.POD_NAMES[: draw(st.integers(0, 2))]:
        state.add_pod(draw(clusters.pods(st.just(name), draw(st.sampled_from(names)))))
    return state


CONDITIONS = st.recursive(
    st.sampled_from(
        [
            'it.driver == "gpu.example.com"',
            'it.attributes["model"] == "A100"',
            'it.attributes["gpu.example.com/model"] != "T4"',
            'it.attributes["model"] in ["A100", "T4"]',
            'it.attributes["index"] >= 3',
            'it.attributes["index"] in [3, 7]',
            'it.attributes["ready"]',
            'not it.attributes["ready"]',
            'has(it.attributes["numa"])',
            'it.attributes["driverVersion"] >= semver("535")',
            'it.attributes["model"] == it.attributes["other.com/model"]',
            'it.attributes[pod.labels["app"] ?? "model"] == "A100"',
            'contains(it.attributes["model"] ?? "", "1")',
            '{ "A100": true, "T4": false }[it.attributes["model"]] ?? false',
            "it.taken",
            "not (it.taken ?? true)",
            "it.tainted",
            "it.free_share >= 50%",
            'it.free["memory"] >= 40Gi',
            'it.free["milli"] + it.attributes["index"] > 250',
            'it.capacity["cores"] / it.free["cores"] > 1',
            "pod.priority > 3",
            'it.name == "0" and pod.namespace == "default"',
            'pod.namespace_labels["tier"] == "a" or it.name in ["1", "2"]',
        ]
    ),
    lambda inner: st.one_of(st.builds("({} and {})".format, inner, inner), st.builds("({} or not {})".format, inner, inner)),
    max_leaves=4,
)
VALUES = st.sampled_from(
    [
        'it.free["memory"]',
        'it.capacity["memory"]',
        'it.free["milli"]',
        'it.attributes["index"]',
        'it.attributes["index"] / 7 + pod.priority',
        "it.free_share",
        'if it.taken ?? true then 0 else it.capacity["cores"]',
        'curve(it.free["milli"], 0 -> 3, 1000 -> 0.1)',
    ]
)


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """A number over devices: a node value, which is compared with nothing of another dimension."""
    chosen = draw(st.sampled_from(["devices", "gpus", "devices where {}"])).format(draw(CONDITIONS))
    reduction = draw(st.sampled_from(["count", "sum", "avg", "min", "max"]))
    if reduction == "count":
        return f"count({chosen}, on: node)"
    return f"{reduction}({chosen}, {draw(VALUES)}, on: node)"


@some
@given(states(), pending, st.data())
def test_kernels_agree_on_devices(state: ClusterState, pod: PodView, data: st.DataObject) -> None:
    first, second = data.draw(numbers()), data.draw(numbers())
    condition = data.draw(CONDITIONS)
    text = (
        f'policy "random"\nlet gpus = devices where {condition}\n'
        f"score one = {first} normalize minmax\n"
        f"score two when count(gpus, on: node) > node.pod_count = {second} normalize minmax\n"
        f'filter some {{\n  require count(devices where {data.draw(CONDITIONS)}, on: node) <= 2 else "many"\n}}\n'
    )
    policy = compile_policy(mended(text))
    snapshot = state.snapshot()
    assert not list(differences(policy, BoundPolicy(policy, pod, snapshot), pod, snapshot))


POINTS = st.one_of(
    VALUES,
    CONDITIONS,
    st.sampled_from(
        [
            "-fragmentation_with(it, typical)",
            "fragmentation(typical) - fragmentation_with(it, typical)",
            'if it.taken ?? false then node.pod_count else it.free["milli"]',
            "count(gpus, on: node) * it.free_share",
            "7",
        ]
    ),
)


@some
@given(states(), pending, st.data())
def test_kernels_agree_on_the_order_of_devices(state: ClusterState, pod: PodView, data: st.DataObject) -> None:
    text = (
        'policy "random"\nworkload typical = [{ cpu: 1cpu, gpu: 1, milli: 250, weight: 3 }, { gpu: 2, model: "A100" }, { cpu: 1cpu }]\n'
        f"let gpus = devices where {data.draw(CONDITIONS)}\n"
        f"prefer device one = {data.draw(POINTS)}\n"
        f"prefer device two when {data.draw(st.sampled_from(['node.pod_count > 0', 'pod.priority > 3', 'true']))} = {data.draw(POINTS)}\n"
    )
    policy = compile_policy(mended(text))
    snapshot = state.snapshot()
    interpreter, bound = Interpreter(policy.policy, policy.params, pod, snapshot), BoundPolicy(policy, pod, snapshot)
    for row in range(snapshot.n_nodes):
        found = [key.tolist() for key in bound.device_order(snapshot, row)]
        rules, on_node = policy.policy.device_preferences, snapshot.devices.on(row)
        values = [[interpreter.device_value(rule, row, each) for each in on_node] for rule in rules]
        wanted = [[-math.inf if value is None else value for value in each] for each in values if SKIP not in each]
        if snapshot.devices.on(row):
            assert found == wanted
