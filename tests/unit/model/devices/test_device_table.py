"""The columns of devices agree with the devices of each node after any changes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.model import objects
from wharfinger.model.devices import device_table
from wharfinger.model.devices.counted_devices import CountedDevices
from wharfinger.model.devices.device import MILLI, WHOLE, Device, DeviceDemand, Store, own_name
from wharfinger.model.devices.device_table import DeviceTable, ReadColumn
from wharfinger.model.devices.shared_gpus import GpuNames
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state import tables
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import checkpoint_of, copied, restored

GPU = "example.com/gpu"


class Noted:
    """A source of devices that are shared: a pod names its device and share in annotations, a namespace adds a taint to all devices."""

    def devices_on(self, node: objects.Node, pods: Sequence[PodView], store: Store) -> Sequence[Device]:
        taints = tuple(each.metadata.name for each in store.all(objects.Namespace))
        left = dict.fromkeys(range(int(node.metadata.labels.get("gpus", "0"))), WHOLE)
        for pod in pods:
            if int(pod.annotations["gpu"]) in left:
                left[int(pod.annotations["gpu"])] -= 100.0
        model = {"model": node.metadata.labels["model"]} if "model" in node.metadata.labels else {}
        return [
            Device("noted", node.metadata.name, str(number), model, {MILLI: WHOLE}, {MILLI: free}, free < WHOLE, taints)
            for number, free in left.items()
        ]

    def asked(self, pod: PodView, store: Store) -> DeviceDemand | None:
        return DeviceDemand(1, 100.0) if "gpu" in pod.annotations else None

    def token(self, store: Store) -> Hashable:
        return store.revision_of(objects.Namespace)

    def changed_nodes(self, store: Store, token: Hashable) -> Collection[str] | None:
        return None


def node(name: str, gpus: int, model: str | None = None, **allocatable: str) -> objects.Node:
    labels = {"gpus": str(gpus)} | ({} if model is None else {"model": model})
    return objects.Node(metadata=objects.ObjectMeta(name=name, labels=labels), status=objects.NodeStatus(allocatable=allocatable))


def pod(name: str, node_name: str, gpu: int) -> objects.Pod:
    meta = objects.ObjectMeta(name=name, namespace="default", uid=name, annotations={"gpu": str(gpu)})
    return objects.Pod(metadata=meta, spec=objects.PodSpec(node_name=node_name))


def free(device: Device) -> float | None:
    return device.free_of(MILLI)


def model(device: Device) -> Any:
    return device.attribute("model")


def shown(table: DeviceTable, state: ClusterState) -> list[Any]:
    snapshot = state.snapshot()
    numbers, codes = table.numbers("free", free), table.codes("model", model)
    of = table.of(slice(None))
    texts = [snapshot.strings.text(code) for code in codes.tolist()]
    return sorted(zip([snapshot.names[row] for row in of.owners.tolist()], numbers.tolist(), map(str, texts), strict=True))


def plain(state: ClusterState) -> list[Any]:
    snapshot = state.snapshot()
    return sorted(
        (snapshot.names[row], free(device), str(model(device))) for row in range(snapshot.n_nodes) for device in snapshot.devices.on(row)
    )


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from("abc"), st.integers(0, 3), st.sampled_from([None, "A100", "T4"])),
        st.tuples(st.just("gone"), st.sampled_from("abc"), st.just(0), st.none()),
        st.tuples(st.just("pod"), st.sampled_from("xyz"), st.integers(0, 2), st.sampled_from(["a", "b", "c"])),
        st.tuples(st.just("left"), st.sampled_from("xyz"), st.just(0), st.none()),
        st.tuples(st.just("space"), st.sampled_from("mn"), st.integers(0, 1), st.none()),
    ),
    max_size=12,
)


def change(state: ClusterState, kind: str, name: str, number: int, other: str | None) -> None:
    if kind == "node":
        state.add_node(node(name, number, other))
    elif kind == "gone":
        state.remove_node(name)
    elif kind == "pod":
        state.add_pod(pod(name, other or "a", number))
    elif kind == "left":
        state.remove_pod(pod(name, "a", 0))
    elif number:
        state.put(objects.Namespace(metadata=objects.ObjectMeta(name=name)))
    else:
        state.drop("Namespace", name)


@settings(max_examples=120)
@given(STEPS)
def test_columns_follow_every_change(steps: list[tuple[str, str, int, str | None]]) -> None:
    state = ClusterState()
    state.read_devices([Noted()])
    for kind, name, number, other in steps:
        before = state.revision
        old = {row: state.snapshot().devices.on(row) for row in range(state.snapshot().n_nodes)}
        change(state, kind, name, number, other)
        snapshot = state.snapshot()
        fresh = ClusterState()
        fresh.read_devices([Noted()])
        for row in range(snapshot.n_nodes):
            fresh.add_node(snapshot.node(row).object)
            for each in snapshot.pods_on(row):
                fresh.add_pod(each)
        for each in snapshot.objects:
            fresh.put(each)
        assert shown(snapshot.devices, state) == plain(state) == plain(fresh)
        changes = snapshot.usage_changes(before)
        nodes_told = snapshot.node_changes(before)
        if changes is not None and nodes_told is not None:
            others = {row for row in range(snapshot.n_nodes) if snapshot.devices.on(row) != old[row]}
            assert others <= {*changes.tolist(), *nodes_told.tolist()}


@settings(max_examples=120)
@given(STEPS, STEPS, st.booleans())
def test_devices_that_are_read_in_steps_follow_every_change(
    first: list[tuple[str, str, int, str | None]], steps: list[tuple[str, str, int, str | None]], known: bool
) -> None:
    state, changes = ClusterState(), iter(steps)
    state.read_devices([Noted()])
    for name in "abc":
        state.add_node(node(name, 2, "A100"))
    if known:  # what follows is to be read again
        assert shown(state.snapshot().devices, state) == plain(state)
    for each in first:
        change(state, *each)
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("READ_PER_STEP", "COLUMN_PER_STEP"):
            patch.setattr(device_table, limit, 1)
        for reader in (
            lambda table: table,
            lambda table: ReadColumn(table, "free", free),
            lambda table: ReadColumn(table, "model", model, text=True),
        ):
            for _ in reader(state.snapshot().devices).read_in_steps():
                for each in itertools.islice(changes, 1):
                    change(state, *each)
    assert shown(state.snapshot().devices, state) == plain(state)


def test_a_column_is_not_read_again_where_nodes_have_more_devices_or_come_and_go() -> None:
    state, read = ClusterState(), list[str]()

    def noted(device: Device) -> float | None:
        read.append(device.pool)
        return free(device)

    state.read_devices([Noted()])
    for name in "abcdef":
        state.add_node(node(name, 2))
    assert len(state.snapshot().devices.numbers("free", noted)) == 12
    read.clear()
    state.remove_node("a")
    state.add_node(node("g", 3))
    state.add_node(node("b", 1))
    assert shown(state.snapshot().devices, state) == plain(state)
    assert state.snapshot().devices.numbers("free", noted).tolist() == [1000.0] * 12
    assert sorted(read) == ["b", "g", "g", "g"]


def test_steps_are_given_up_without_a_trace() -> None:
    state, names = ClusterState(), GpuNames()
    for name in "abcdef":
        state.add_node(node(name, 2, **{names.count: "2", names.share: "2000"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "READ_PER_STEP", 1)
        n_columns = len(state.snapshot()._tables.nodes.rows.columns)
        steps = state.snapshot().reading_gpus(names).read_in_steps()
        next(steps)
        steps.close()
        assert len(state.snapshot()._tables.nodes.rows.columns) == n_columns


@settings(max_examples=60)
@given(STEPS)
def test_gpus_that_are_counted_in_steps_follow_every_change(steps: list[tuple[str, str, int, str | None]]) -> None:
    names = GpuNames()

    def cluster(changes: Iterable[tuple[str, str, int, str | None]]) -> Iterator[ClusterState]:
        state = ClusterState()
        for name in "abcd":
            state.add_node(node(name, 2, **{names.count: "2", names.share: "2000"}))
        for kind, name, number, other in changes:
            yield state
            if kind in {"node", "gone"}:
                offered = {names.count: str(number), names.share: str(1000 * number)}
                state.add_node(node(name, number, **offered)) if kind == "node" else state.remove_node(name)
            elif kind == "pod":
                container = objects.Container(
                    name="c", resources=objects.ContainerResources(requests={names.share: str(300 + 100 * number)})
                )
                meta = objects.ObjectMeta(name=name, namespace="default", uid=name, annotations={names.index: str(number)})
                state.add_pod(objects.Pod(metadata=meta, spec=objects.PodSpec(node_name=other or "a", containers=(container,))))
            elif kind == "left":
                state.remove_pod(pod(name, "a", 0))
        yield state

    *_, fresh = cluster(steps)
    states = cluster(steps)
    state = next(states)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "READ_PER_STEP", 1)
        for _ in state.snapshot().reading_gpus(names).read_in_steps():
            next(states, None)
    for _ in states:
        pass
    found, expected = ([each.snapshot().gpus(names).free_on(row) for row in range(each.snapshot().n_nodes)] for each in (state, fresh))
    assert found == expected


def test_the_devices_of_some_rows() -> None:
    state = ClusterState()
    state.read_devices([Noted()])
    for name, gpus in (("a", 2), ("b", 0), ("c", 3)):
        state.add_node(node(name, gpus))
    state.add_pod(pod("x", "c", 1))
    of = state.snapshot().devices.of(np.array([2, 1, 0]))

    assert of.owners.tolist() == [0, 0, 0, 2, 2]
    assert state.snapshot().devices.numbers("free", free)[of.entries].tolist() == [1000.0, 900.0, 1000.0, 1000.0, 1000.0]


def test_copies_of_a_cluster_have_its_devices() -> None:
    state = ClusterState()
    state.read_devices([Noted()])
    state.add_node(node("a", 2))
    state.add_pod(pod("x", "a", 1))
    copy = copied(state.snapshot())
    try:
        while True:
            next(copy)
    except StopIteration as end:
        of_steps = end.value
    for other in (of_steps.snapshot(), state.snapshot().detach(), restored(checkpoint_of(state), 0.0).snapshot()):
        assert other.devices.on(0) == state.snapshot().devices.on(0)


def test_counted_devices_are_devices_of_which_is_not_known_if_they_are_taken() -> None:
    state = ClusterState()
    labelled = node("a", 0, **{GPU: "3", "example.com/amount": "5000", "cpu": "8"})
    labelled.metadata.labels[f"{GPU}.product"] = "T4"
    state.add_node(labelled)
    container = objects.Container(name="c", resources=objects.ContainerResources(requests={GPU: "2"}))
    asking = objects.Pod(metadata=objects.ObjectMeta(name="p", uid="p"), spec=objects.PodSpec(node_name="a", containers=(container,)))
    state.add_pod(asking)
    devices = state.snapshot().devices.on(0)

    assert [(d.driver, d.name, d.taken, d.attribute("product"), d.thousandths) for d in devices] == [
        (GPU, "0", None, "T4", 0.0),
        (GPU, "1", None, "T4", 0.0),
        (GPU, "2", None, "T4", WHOLE),
    ]
    assert state.snapshot().devices.demand(PodView(asking)) == DeviceDemand(2)


def test_an_added_or_removed_node_causes_no_read_of_the_devices_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    state, read = ClusterState(), list[str]()
    state.read_devices([Noted()])
    for name in "abcdef":
        state.add_node(node(name, 2))
    assert len(state.snapshot().devices.of(slice(None)).owners) == 12
    devices_on = Noted.devices_on
    monkeypatch.setattr(Noted, "devices_on", lambda self, of, *more: read.append(of.metadata.name) or devices_on(self, of, *more))
    state.remove_node("a")  # the last node gets its row
    state.add_node(node("g", 3))
    state.add_pod(pod("x", "c", 1))
    assert len(state.snapshot().devices.of(slice(None)).owners) == 13
    assert sorted(read) == ["c", "g"]


def test_an_object_that_concerns_all_nodes_has_their_devices_read_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    state, read = ClusterState(), list[str]()
    state.read_devices([Noted()])
    for name in "abcdef":
        state.add_node(node(name, 2))
    assert len(state.snapshot().devices.of(slice(None)).owners) == 12
    revision = state.snapshot().revision
    devices_on = Noted.devices_on
    monkeypatch.setattr(Noted, "devices_on", lambda self, of, *more: read.append(of.metadata.name) or devices_on(self, of, *more))
    monkeypatch.setattr(device_table, "READ_PER_STEP", 1)
    for name in "abc":
        state.add_node(node(name, 3))  # it has more devices now
    state.put(objects.Namespace(metadata=objects.ObjectMeta(name="taint")))
    assert not read
    assert len(state.snapshot().usage_changes(revision)) == 6
    for number, _ in enumerate(state.snapshot().devices.read_in_steps(), start=1):
        assert len(read) == number
    assert shown(state.snapshot().devices, state) == plain(state)
    assert sorted(read) == list("abcdef")


def test_a_resource_of_another_source_is_no_whole_count() -> None:
    assert not CountedDevices([GPU]).devices_on(node("a", 0, **{GPU: "3"}), [], ClusterState().objects)


def test_no_table_is_made_for_a_cluster_whose_devices_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a table of devices was made")

    monkeypatch.setattr(DeviceTable, "__init__", refuse)
    state = ClusterState()
    state.add_node(node("a", 2))
    state.add_pod(pod("x", "a", 1))
    state.put(objects.Namespace(metadata=objects.ObjectMeta(name="n")))
    state.remove_node("a")


@pytest.mark.parametrize(
    ("written", "own"), [("model", "model"), ("gpu.example.com/model", "model"), ("other.com/model", "other.com/model"), ("/x", "/x")]
)
def test_the_domain_of_the_driver_may_be_left_out(written: str, own: str) -> None:
    assert own_name("gpu.example.com", written) == own


def test_the_free_part_of_a_device() -> None:
    exclusive = Device("d", "p", "n", capacity={"memory": 40.0})
    assert (exclusive.free_of("memory"), exclusive.free_of("other"), exclusive.thousandths) == (40.0, None, WHOLE)
    taken = Device("d", "p", "n", capacity={"memory": 40.0}, taken=True)
    assert (taken.free_of("d/memory"), taken.thousandths) == (0.0, 0.0)
    unknown = Device("d", "p", "n", capacity={"memory": 40.0}, taken=None, share=0.0)
    assert (unknown.free_of("memory"), unknown.thousandths) == (None, 0.0)
