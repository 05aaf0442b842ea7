"""Shares of single GPUs: columns, filter, choice and annotation agree with the plain definition."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.kube.writes import binding
from wharfinger.model import objects
from wharfinger.model.devices.shared_gpus import MAX_GPUS, NO_GPUS, WHOLE, GpuDemand, GpuNames, free_gpus
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import copied

GPU, MILLI, INDEX = "nvidia.com/gpu", "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-index"
NAMES = GpuNames()
ANNOTATED = GpuNames(annotated=True)


def node(name: str, gpus: int, *, shared: bool = True, cpu: int = 64) -> objects.Node:
    amounts = {"cpu": str(cpu), "memory": "256Gi", "pods": "110", GPU: str(gpus)} | ({MILLI: str(WHOLE * gpus)} if shared else {})
    return msgspec.convert(
        {"metadata": {"name": name}, "status": {"allocatable": amounts, "capacity": amounts}, "kind": "Node", "apiVersion": "v1"},
        objects.Node,
    )


def pod(name: str, count: int = 0, milli: int = 0, *, annotations: dict[str, str] | None = None, on: str = "") -> PodView:
    requests = ({GPU: str(count)} if count else {}) | ({MILLI: str(milli)} if milli else {})
    container = {"name": "main", "image": "train", "resources": {"requests": requests, "limits": requests}}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations or {}}
    manifest: dict[str, Any] = {"metadata": metadata, "spec": {"containers": [container]}, "kind": "Pod", "apiVersion": "v1"}
    if on:
        manifest["spec"]["nodeName"] = on
    return PodView(msgspec.convert(manifest, objects.Pod))


def cluster(*nodes: objects.Node) -> ClusterState:
    state = ClusterState(0.0)
    for each in nodes:
        state.add_node(each)
    return state


def finished(steps: Generator[None, None, ClusterState]) -> ClusterState:
    """The return value of the steps."""
    with pytest.raises(StopIteration) as done:  # noqa: PT012 — the last step raises
        while True:
            next(steps)
    found: ClusterState = done.value.value
    return found


def placed(chain: Chain, state: ClusterState, *pods: PodView) -> list[tuple[str | None, str]]:
    """(node, index annotation) of pods that are decided and assumed in sequence."""
    found = []
    for each in pods:
        decision = decide(chain, state.snapshot(), each)
        assigned = decision.assigned
        if decision.node is not None:
            state.assume(assigned, decision.node)
        found.append((decision.node, assigned.annotations.get(INDEX, "")))
    return found


# ── what pods and nodes say ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("names", "given", "wanted"),
    [
        (NAMES, pod("p"), None),
        (NAMES, pod("p", count=2), GpuDemand(2, 1000)),
        (NAMES, pod("p", count=2, milli=2000), GpuDemand(2, 1000)),
        (NAMES, pod("p", milli=300), GpuDemand(1, 300)),
        (NAMES, pod("p", count=2, milli=1001), GpuDemand(2, 501)),
        (NAMES, pod("p", milli=1300), GpuDemand(1, 1300)),
        (NAMES, pod("p", annotations={MILLI: "300"}), None),
        (ANNOTATED, pod("p", annotations={MILLI: "300"}), GpuDemand(1, 300)),
        (ANNOTATED, pod("p", count=2, annotations={MILLI: "300"}), GpuDemand(2, 300)),
        (ANNOTATED, pod("p", count=2, annotations={MILLI: "0"}), GpuDemand(2, 1000)),
        (ANNOTATED, pod("p", annotations={MILLI: "0"}), None),
        (ANNOTATED, pod("p", annotations={MILLI: "much"}), GpuDemand(1, 1001)),
    ],
)
def test_gpus_that_a_pod_requests(names: GpuNames, given: PodView, wanted: GpuDemand | None) -> None:
    assert names.wanted(given) == wanted


@pytest.mark.parametrize(
    ("names", "given", "count"),
    [
        (NAMES, node("n", 8), 8),
        (NAMES, node("n", 8, shared=False), NO_GPUS),
        (ANNOTATED, node("n", 8, shared=False), 8),
        (NAMES, node("n", 0), 0),
        (NAMES, node("n", MAX_GPUS), MAX_GPUS),
        (NAMES, node("n", MAX_GPUS + 1), NO_GPUS),
        (GpuNames(count="amd.com/gpu"), node("n", 3), 3),
    ],
)
def test_number_of_gpus_of_a_node(names: GpuNames, given: objects.Node, count: int) -> None:
    assert names.offered(given) == count


@pytest.mark.parametrize("text", ["", "a", "0-", "-1", "99999", "0--1", "0 1", "0-" * 200 + "0"])
def test_an_index_that_cannot_be_read_is_none(text: str) -> None:
    assert NAMES.indexes(pod("p", annotations={INDEX: text})) is None


@pytest.mark.parametrize(("text", "gpus"), [("0", (0,)), ("2-3", (2, 3)), ("7,1", (7, 1))])
def test_an_index_names_gpus(text: str, gpus: tuple[int, ...]) -> None:
    assert NAMES.indexes(pod("p", annotations={INDEX: text})) == gpus


def test_annotated_gpus_count_first_and_other_pods_leave_the_least_free() -> None:
    there = [
        pod("small", milli=300),
        pod("large", milli=700),
        pod("written", milli=400, annotations={INDEX: "1"}),
        pod("elsewhere", milli=100, annotations={INDEX: "9"}),
    ]
    assert free_gpus(2, there, NAMES) == [0, 500]
    assert free_gpus(2, reversed(there), NAMES) == [0, 500]


def test_more_than_there_is_shows_as_less_than_nothing() -> None:
    assert free_gpus(1, [pod("a", milli=800), pod("b", milli=800)], NAMES) == [-600]


# ── the filter and the choice ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["NaN", "1e", "٣٤", "0x10", "9" * 20_000, "half", "\x9b"])
def test_a_share_that_cannot_be_read_is_named_and_changes_no_other_pod(text: str) -> None:
    chain = assemble((), ChainConfig(arguments={"GpuShares": {"sharesAreAnnotations": True}}))
    odd = pod("odd", annotations={MILLI: text})
    decision = decide(chain, cluster(node("n", 2)).snapshot(), odd)
    assert decision.node is None
    assert f"1 node(s) had no GPU: the annotation {MILLI} of the pod cannot be read: " in decision.message
    assert "is not a quantity" in decision.message
    assert len(decision.message) < 1_000
    assert decision.message.isprintable()
    assert placed(chain, cluster(node("n", 1)), pod("other", annotations={MILLI: "600"})) == [("n", "0")]


def test_a_share_needs_one_gpu_that_can_hold_it() -> None:
    state = cluster(node("n", 2))
    halves = [pod("a", milli=600), pod("b", milli=600)]
    assert placed(assemble(), state, *halves) == [("n", "0"), ("n", "1")]
    decision = decide(assemble(), state.snapshot(), pod("c", milli=800))
    assert decision.node is None
    assert "1 node(s) had no single GPU with 800 thousandths free" in decision.message


def test_a_whole_gpu_has_no_shares() -> None:
    state = cluster(node("n", 3))
    assert placed(assemble(), state, pod("a", milli=500), pod("b", count=2, milli=2000)) == [("n", "0"), ("n", "1-2")]
    assert decide(assemble(), state.snapshot(), pod("c", count=1, milli=1000)).node is None


def test_the_first_gpu_with_room_is_taken() -> None:
    state = cluster(node("n", 2))
    wanted = [pod("a", milli=700), pod("b", milli=400), pod("c", milli=300), pod("d", milli=300)]
    assert [index for _, index in placed(assemble(), state, *wanted)] == ["0", "1", "0", "1"]


def test_a_share_above_a_whole_gpu_fits_on_no_node_and_no_eviction_helps() -> None:
    state = cluster(node("n", 8))
    decision = decide(assemble(), state.snapshot(), pod("a", milli=1300))
    assert decision.node is None
    assert decision.diagnosis.unresolvable.all()


def test_a_forgotten_pod_gives_its_gpu_back_and_a_copy_agrees() -> None:
    state = cluster(node("n", 2))
    first = pod("a", milli=600)
    placed(assemble(), state, first, pod("b", milli=900))
    state.forget(first)
    assert state.snapshot().gpus(NAMES).free_on(0) == [1000, 100]
    copy = finished(copied(state.snapshot()))
    assert copy.snapshot().gpus(NAMES).free_on(0) == [1000, 100]


def test_nodes_that_advertise_no_shares_are_left_to_kubernetes() -> None:
    state = cluster(node("n", 2, shared=False))
    assert placed(assemble(), state, pod("a", count=2)) == [("n", "")]


def test_shares_as_annotations_by_other_names() -> None:
    arguments = {"share": "example.com/share", "indexAnnotation": "example.com/index", "sharesAreAnnotations": True}
    chain = assemble((), ChainConfig(arguments={"GpuShares": arguments}))
    state = cluster(node("n", 2, shared=False))
    for number in range(3):
        decision = decide(chain, state.snapshot(), pod(f"p{number}", annotations={"example.com/share": "600"}))
        if decision.node is not None:
            state.assume(decision.assigned, decision.node)
    assert decision.node is None
    assert [each.annotations.get("example.com/index") for each in state.snapshot().pods_on(0)] == ["0", "1"]


def test_preemption_sees_the_gpu_that_a_victim_leaves() -> None:
    state = cluster(node("n", 2))
    placed(assemble(), state, pod("a", milli=600), pod("b", milli=600))
    important = pod("c", milli=800)
    important = PodView(msgspec.structs.replace(important.object, spec=msgspec.structs.replace(important.object.spec, priority=10)))
    decision = decide(assemble(), state.snapshot(), important)
    assert decision.nominated == "n"
    assert len(decision.victims) == 1


def test_the_index_is_written_with_the_binding() -> None:
    state = cluster(node("n", 4))
    assigned = decide(assemble(), state.snapshot(), pod("a", count=2, milli=2000)).assigned
    assert json.loads(binding(assigned, "n"))["metadata"]["annotations"] == {INDEX: "0-1"}
    assert "annotations" not in json.loads(binding(pod("a"), "n"))["metadata"]


def test_a_confirmed_pod_is_where_it_was_assumed() -> None:
    state = cluster(node("n", 2))
    placed(assemble(), state, pod("a", milli=600), pod("b", milli=600))
    state.add_pod(pod("b", milli=600, annotations={INDEX: "1"}, on="n"))
    assert not state.is_assumed("b")
    assert state.snapshot().gpus(NAMES).free_on(0) == [400, 400]
    state.remove_pod(pod("a"))
    assert state.snapshot().gpus(NAMES).free_on(0) == [1000, 400]


def test_devices_show_what_is_left_of_each_gpu() -> None:
    state = cluster(node("n", 2))
    placed(assemble(), state, pod("a", milli=600))
    shown = state.snapshot().devices.on(0)
    assert [(each.name, each.thousandths, each.taken) for each in shown] == [("0", 400.0, True), ("1", 1000.0, False)]


def test_a_share_beyond_all_reason_takes_its_gpu_and_no_other() -> None:
    state = cluster(node("n", 2))
    state.snapshot().gpus(NAMES)
    for number in range(1030):  # together more than an int64 holds, by what each asks for
        state.add_pod(pod(f"p{number}", milli=2**60, annotations={INDEX: "0"}, on="n"))
    first, second = state.snapshot().gpus(NAMES).free_on(0)
    assert first < 0
    assert second == WHOLE
    assert placed(assemble(), cluster(node("m", 2)), pod("a", milli=2**60)) == [(None, "")]


def test_the_assumed_gpu_of_a_pod_depends_on_annotations_of_others() -> None:
    state = cluster(node("n", 2))
    written = pod("b", milli=500, annotations={INDEX: "1"}, on="n")
    state.add_pod(pod("a", milli=300, on="n"))
    assert state.snapshot().gpus(NAMES).free_on(0) == [700, 1000]
    state.add_pod(written)
    assert state.snapshot().gpus(NAMES).free_on(0) == [1000, 200]
    state.remove_pod(written)
    assert state.snapshot().gpus(NAMES).free_on(0) == [700, 1000]


KINDS = ["share", "whole", "running", "written", "gone", "node", "node gone"]
STEP = st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(1, 10))


@settings(max_examples=30, deadline=None)
@given(st.lists(STEP, max_size=30))
def test_no_gpu_ever_holds_more_than_it_has(steps: list[tuple[str, int, int]]) -> None:
    state = cluster(node("n0", 2), node("n1", 4))
    chain = assemble()
    decider = Decider(chain)
    for number, (kind, which, amount) in enumerate(steps):
        if kind == "gone":
            state.remove_pod(pod(f"p{which}"))
        elif kind == "node":
            state.add_node(node(f"n{which % 3}", 1 + amount % 4, cpu=64 + number))
        elif kind == "node gone":
            state.remove_node(f"n{which % 3}")
        elif kind in {"running", "written"}:
            index = {INDEX: f"{amount % 4}"} if kind == "written" else None
            state.add_pod(pod(f"p{which}", milli=100 * amount, annotations=index, on=f"n{which % 3}"))
        elif not state.is_placed(f"p{which}"):
            wanted = pod(f"p{which}", milli=100 * amount) if kind == "share" else pod(f"p{which}", count=1 + amount % 3)
            before = [min(state.snapshot().gpus(NAMES).free_on(row), default=0) for row in range(state.snapshot().n_nodes)]
            decision = decider.decide(state.snapshot(), wanted)
            assert decision.node == decide(chain, state.snapshot(), wanted).node
            if decision.node is not None:
                row = state.snapshot().known_row(decision.node)
                state.assume(decision.assigned, decision.node)
                assert min(state.snapshot().gpus(NAMES).free_on(row), default=0) >= min(before[row], 0)
        snapshot = state.snapshot()
        for row in range(snapshot.n_nodes):
            count = NAMES.offered(snapshot.node(row).object)
            assert snapshot.gpus(NAMES).free_on(row) == free_gpus(count, snapshot.pods_on(row), NAMES)
