"""The fragmentation of devices: figures by hand, the kernel against the plain definition, and what a workload may say."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.model.clusters import pod as pod_of
from wharfinger.builtins import fragmentation
from wharfinger.builtins.fragmentation import FRAGMENTATION, State
from wharfinger.builtins.signature import AtNode, AtRows
from wharfinger.language.semantics import typed
from wharfinger.model import objects
from wharfinger.model.devices import device_table
from wharfinger.model.devices.device import MILLI, WHOLE, Device, DeviceDemand, Store
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

NOW, AFTER, _ = FRAGMENTATION
MODELS = ("A", "B", None)


class Written:
    """A source whose devices are written in an annotation: `A:500 :1000`, and what a pod asks in `ask: 2x500`."""

    def devices_on(self, node: objects.Node, pods: Sequence[PodView], store: Store) -> Sequence[Device]:
        parts = [part.split(":") for part in node.metadata.annotations["devices"].split()]
        return [
            Device("d", node.metadata.name, str(number), {"model": model} if model else {}, {MILLI: WHOLE}, {MILLI: float(free)})
            for number, (model, free) in enumerate(parts)
        ]

    def demand(self, pod: PodView, store: Store) -> DeviceDemand | None:
        count, _, milli = pod.annotations.get("ask", "").partition("x")
        return DeviceDemand(int(count), float(milli)) if count else None

    def token(self, store: Store) -> Hashable:
        return None

    def changed_nodes(self, store: Store, token: Hashable) -> Collection[str] | None:
        return ()


def cluster(nodes: Sequence[tuple[int, int, str]]) -> ClusterState:
    state = ClusterState()
    state.read_devices([Written()])
    for number, (cpu, gigabytes, devices) in enumerate(nodes):
        amounts = {"cpu": f"{cpu}m", "memory": f"{gigabytes}Gi"}
        meta = objects.ObjectMeta(name=f"n{number}", annotations={"devices": devices})
        state.add_node(objects.Node(metadata=meta, status=objects.NodeStatus(allocatable=amounts)))
    return state


def asking(cpu: int, gigabytes: int, ask: str) -> PodView:
    view = pod_of("p", cpu=f"{cpu}m", memory=f"{gigabytes}Gi")
    view.metadata.annotations.update({"ask": ask} if ask else {})
    return PodView(view)


def mix(*requests: dict[str, Any]) -> typed.Workload:
    return typed.Workload("typical", tuple(typed.Request(**each) for each in requests))


@pytest.mark.parametrize(
    ("request_", "useless"),
    [
        ({"cpu": 1000.0, "devices": 1, "milli": 400.0}, 300.0),  # 300 of the second device is too little
        ({"cpu": 1000.0, "devices": 1, "milli": 1000.0}, 800.0),  # only the third is whole
        ({"cpu": 1000.0, "devices": 2, "milli": 1000.0}, 1800.0),  # not two of them are
        ({"cpu": 9000.0, "devices": 1, "milli": 400.0}, 1800.0),  # too little CPU
        ({"memory": 2.0**40, "devices": 1, "milli": 400.0}, 1800.0),  # too little memory
        ({"cpu": 1000.0}, 1800.0),  # requests no device
        ({"devices": 1, "milli": 400.0, "models": frozenset("A")}, 1300.0),  # only the first is an A with room
        ({"devices": 1, "milli": 400.0, "models": frozenset("C")}, 1800.0),
    ],
)
def test_thousandths_that_a_request_cannot_use(request_: dict[str, Any], useless: float) -> None:
    state = State(8000.0, 2.0**30, (500.0, 300.0, 1000.0), ("A", "A", "B"))
    assert state.useless_to(typed.Request(**request_)) == useless


def test_the_mean_is_weighted_by_how_common_requests_are() -> None:
    state = State(8000.0, 0.0, (500.0,), (None,))
    workload = mix({"devices": 1, "milli": 400.0, "weight": 0.75}, {"devices": 1, "weight": 0.25})
    assert state.fragmentation(workload) == 125.0


@pytest.mark.parametrize(
    ("ask", "devices", "after"),
    [
        ("1x200", ":700 :500 :1000", 0.0),  # of the first, which keeps 500
        ("1x100", ":550 :150", 50.0),  # of the second: of the first, 450 and 150 would be left
        ("1x1000", ":700 :1000 :1000", 0.0),  # the first free one
        ("1x1000", ":700", None),
        ("2x1000", ":1000 :1000 :500", 0.0),
        ("", ":700 :300", 300.0),
    ],
)
def test_the_pod_takes_what_leaves_the_least(ask: str, devices: str, after: float | None) -> None:
    state = cluster([(8000, 1, devices)])
    workload = mix({"devices": 1, "milli": 500.0})
    context = AtNode(state.snapshot(), asking(0, 0, ask), 0)
    assert AFTER.scalar(context, workload) == after


REQUESTS = st.builds(
    typed.Request,
    cpu=st.sampled_from([0.0, 1000.0, 5000.0]),
    memory=st.sampled_from([0.0, 0.0, 2.0 * 2**30]),
    devices=st.integers(0, 3),
    milli=st.sampled_from([100.0, 250.0, 500.0, 1000.0]),
    models=st.sampled_from([frozenset(), frozenset("A"), frozenset("AB"), frozenset("Z")]),
    weight=st.floats(0, 1),
)
DEVICES = st.lists(
    st.builds("{}:{}".format, st.sampled_from(["A", "B", ""]), st.sampled_from([0, 100, 250, 400, 500, 750, 1000])), max_size=5
).map(" ".join)
NODES = st.lists(st.tuples(st.sampled_from([0, 2000, 8000]), st.sampled_from([0, 1, 4]), DEVICES), min_size=1, max_size=6)
ASKS = st.sampled_from(["", "1x100", "1x500", "1x250", "1x1000", "2x1000", "3x1000", "2x500"])


@settings(max_examples=150)
@given(NODES, st.lists(REQUESTS, min_size=1, max_size=6), ASKS, st.sampled_from([0, 1000, 4000]), st.data())
def test_the_kernel_computes_the_definition(
    nodes: list[tuple[int, int, str]], requests: list[typed.Request], ask: str, cpu: int, data: st.DataObject
) -> None:
    state, workload, view = cluster(nodes), typed.Workload("typical", tuple(requests)), asking(cpu, 1, ask)
    snapshot = state.snapshot()
    chosen = data.draw(st.lists(st.sampled_from(range(len(nodes))), unique=True))
    for rows in (slice(None), np.array(sorted(chosen), dtype=np.intp)):
        context = AtRows(snapshot, view, rows)
        numbers = range(len(nodes)) if isinstance(rows, slice) else rows.tolist()
        contexts = [AtNode(snapshot, view, row) for row in numbers]
        plain = [AFTER.scalar(each, workload) for each in contexts]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fragmentation, "FEW_DEVICES", data.draw(st.sampled_from([1, fragmentation.FEW_DEVICES])))
            patch.setattr(fragmentation, "FEW_CELLS", data.draw(st.sampled_from([-1, fragmentation.FEW_CELLS])))
            found, there = AFTER.vector(context, workload)
            assert [value if present else None for value, present in zip(found.tolist(), there.tolist(), strict=True)] == plain
            assert NOW.vector(context, workload).tolist() == [NOW.scalar(each, workload) for each in contexts]
            assert [AFTER.row(each, workload) for each in contexts] == plain


@settings(max_examples=40)
@given(NODES, st.lists(REQUESTS, min_size=1, max_size=3), st.data())
def test_kept_values_of_nodes_follow_every_change(
    nodes: list[tuple[int, int, str]], requests: list[typed.Request], data: st.DataObject
) -> None:
    state, workload, view = cluster(nodes), typed.Workload("typical", tuple(requests)), asking(0, 0, "")
    for step in range(4):
        snapshot = state.snapshot()
        found = NOW.vector(AtRows(snapshot, view, slice(None)), workload).tolist()
        assert found == [NOW.scalar(AtNode(snapshot, view, row), workload) for row in range(snapshot.n_nodes)]
        name = f"n{data.draw(st.integers(0, len(nodes)))}"
        if data.draw(st.booleans()) and snapshot.row(name) is not None:
            state.add_pod(pod_of(f"x{step}", name, uid=f"x{step}", cpu="1500m"))
        else:
            meta = objects.ObjectMeta(name=name, annotations={"devices": data.draw(DEVICES)})
            state.add_node(objects.Node(metadata=meta, status=objects.NodeStatus(allocatable={"cpu": "8", "memory": "2Gi"})))


@settings(max_examples=60)
@given(NODES, st.lists(REQUESTS, min_size=1, max_size=3), ASKS, st.booleans(), st.data())
def test_values_that_are_computed_in_steps_follow_every_change(
    nodes: list[tuple[int, int, str]], requests: list[typed.Request], ask: str, known: bool, data: st.DataObject
) -> None:
    state, workload, view = cluster(nodes), typed.Workload("typical", tuple(requests)), asking(0, 0, ask)

    def change() -> None:
        name = f"n{data.draw(st.integers(0, len(nodes)))}"
        if data.draw(st.booleans()) and state.snapshot().row(name) is not None:
            uid = f"x{state.revision}"
            state.add_pod(pod_of(uid, name, uid=uid, cpu="1500m"))
        else:
            meta = objects.ObjectMeta(name=name, annotations={"devices": data.draw(DEVICES)})
            state.add_node(objects.Node(metadata=meta, status=objects.NodeStatus(allocatable={"cpu": "8", "memory": "2Gi"})))

    for function in (NOW, AFTER):
        if known:
            function.vector(AtRows(state.snapshot(), view, slice(None)), workload)
            change()
        with pytest.MonkeyPatch.context() as patch:
            for limit in ("READ_PER_STEP", "COLUMN_PER_STEP", "CELLS_PER_STEP"):
                patch.setattr(device_table, limit, 1)
            for reader in function.slow_reads(state.snapshot, view, workload):
                for _ in reader.read_in_steps():
                    if data.draw(st.booleans()):
                        change()
        snapshot = state.snapshot()
        for rows in (slice(None), np.arange(snapshot.n_nodes)):
            found, there = (
                (function.vector(AtRows(snapshot, view, rows), workload), np.ones(snapshot.n_nodes, np.bool_))
                if function is NOW
                else function.vector(AtRows(snapshot, view, rows), workload)
            )
            shown = [value if present else None for value, present in zip(found.tolist(), there.tolist(), strict=True)]
            assert shown == [function.scalar(AtNode(snapshot, view, row), workload) for row in range(snapshot.n_nodes)]


def test_nothing_is_computed_again_after_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = mix({"devices": 1, "milli": 400.0, "models": frozenset("A")}, {"devices": 1, "weight": 0.25})
    state, view, calculated = cluster([(4, 4, ":1000 :700 A:700 B:300")] * 400), asking(100, 1, "1x500"), list[int]()
    usual = fragmentation._Nodes.states
    monkeypatch.setattr(fragmentation._Nodes, "states", lambda nodes, *more: calculated.append(nodes.n_rows) or usual(nodes, *more))
    monkeypatch.setattr(device_table, "CELLS_PER_STEP", 1000)
    for reader in AFTER.slow_reads(state.snapshot, view, workload):
        for _ in reader.read_in_steps():
            pass
    assert sum(calculated) == 400
    assert max(calculated) <= 1000 // (4 * 3)
    calculated.clear()
    AFTER.vector(AtRows(state.snapshot(), view, slice(None)), workload)
    state.add_pod(pod_of("x", "n7", uid="x", cpu="1500m"))
    AFTER.row(AtNode(state.snapshot(), view, 7), workload)
    AFTER.vector(AtRows(state.snapshot(), view, np.array([3, 7])), workload)
    assert calculated == [1]


def test_equal_devices_of_a_node_are_calculated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state = cluster([(4, 4, ":1000 :1000 :700 A:700 A:700 B:700 :1000 :100")] * 20)
    workload = mix({"devices": 1, "milli": 400.0, "models": frozenset("A")}, {"devices": 1, "weight": 0.25})
    calculated: list[int] = []
    usual = fragmentation._Nodes._states_with

    def counted(*arguments: Any) -> Any:
        calculated.append(len(arguments[-1]))
        return usual(*arguments)

    monkeypatch.setattr(fragmentation._Nodes, "_states_with", counted)
    AFTER.vector(AtRows(state.snapshot(), asking(100, 1, "1x500"), slice(None)), workload)
    assert sum(calculated) == 20 * len({":1000", ":700", "A:700"})  # no request names B


@pytest.mark.parametrize("ask", ["2x1000", "1x500"])
def test_devices_are_counted_once_for_all_requests(ask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, state = np.bincount, cluster([(4, 4, ":1000 :700 A:700 B:300")] * 200)

    def counted_devices(n_requests: int) -> int:
        lengths: list[int] = []

        def counted(places: Any, *arguments: Any, **named: Any) -> Any:
            lengths.append(len(places))
            return usual(places, *arguments, **named)

        monkeypatch.setattr(np, "bincount", counted)
        requests = tuple(typed.Request(devices=1, milli=float(1 + number), weight=1 / n_requests) for number in range(n_requests))
        AFTER.vector(AtRows(state.snapshot(), asking(100, 1, ask), slice(None)), typed.Workload(f"w{n_requests}", requests))
        return sum(lengths)

    assert counted_devices(200) == counted_devices(2) < 6 * 800


def test_memory_does_not_grow_with_the_product_of_requests_and_nodes() -> None:
    requests = tuple(typed.Request(devices=1, milli=float(number + 1), weight=0.01) for number in range(100))
    workload, state = typed.Workload("w", requests), cluster([(4, 4, ":1000 " * 8)] * 4000)
    context = AtRows(state.snapshot(), asking(100, 1, "1x500"), slice(None))
    context.snapshot.devices.of(slice(None))  # made once
    for function in (NOW, AFTER):
        tracemalloc.start()
        function.vector(context, workload)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 40 * 2**20  # at once, 32,000 devices times 100 requests would be 26 MB for each of a dozen columns
