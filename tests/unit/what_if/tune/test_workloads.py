"""The workloads of trials: clusters and decision logs, whole and in parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scheduler.decision_log.recording import FIRST, SECOND
from tests.unit.scheduler.decision_log.recording import recorded as record
from tests.unit.simulate.clusters import pods_of, policy, state_of
from wharfinger.errors import UsageError
from wharfinger.what_if.tune import workloads

COUNTS = ("unplaced", "evicted", "moves", "nodes_touched")


@given(share=st.floats(0.05, 0.95), seed=st.integers(0, 99), n_nodes=st.integers(0, 40), n_pods=st.integers(0, 60))
def test_both_parts_are_together_the_whole_and_similar(share, seed, n_nodes, n_pods):
    state = state_of(n_nodes, running=3 * n_nodes)
    whole = workloads.waiting("all", state, pods_of(n_pods, 3), None)
    searched, held_out = whole.split(share, seed)
    for part in (searched, held_out):
        names = {node.metadata.name for node in part.cluster.nodes}
        assert set(part.cluster.names) <= names
        assert len(part.cluster.pods) == len(part.cluster.names) == len(part.cluster.assumed)
    assert sorted(pod.uid for part in (searched, held_out) for pod in part.pods) == sorted(pod.uid for pod in whole.pods)
    assert len(searched.cluster.nodes) + len(held_out.cluster.nodes) == n_nodes
    assert len(searched.cluster.pods) + len(held_out.cluster.pods) == len(whole.cluster.pods)
    assert abs(len(held_out.cluster.nodes) - share * n_nodes) <= 1
    assert abs(len(held_out.pods) - share * n_pods) <= 1
    assert str(whole.split(share, seed)[0]) == str(searched)


def test_running_pods_can_be_placed_again():
    state = state_of(10, running=30)
    whole = workloads.waiting("all", state, (), None)
    before = whole.measured([policy()], COUNTS)
    fresh = workloads.with_running_pods_pending(whole, ["all"])
    assert before == {"unplaced": 0, "evicted": 0, "moves": 0, "nodes_touched": 10}
    assert (len(fresh.pods), len(fresh.cluster.pods)) == (30, 0)
    assert fresh.measured([policy()], COUNTS)["moves"] > 0
    _, part = fresh.split(0.5, 0)
    assert {part.former[pod.uid] for pod in part.pods} <= {node.metadata.name for node in part.cluster.nodes}


def test_more_pods_are_copies_with_names_of_their_own():
    whole = workloads.waiting("all", state_of(4), pods_of(10, 2), None)
    more = whole.loaded(1.5, seed=3)
    assert len({pod.uid for pod in more.pods}) == 15
    assert {pod.template for pod in more.pods} == {pod.template for pod in whole.pods}
    assert [pod.uid for pod in whole.loaded(1.5, seed=3).pods] == [pod.uid for pod in more.pods]
    assert whole.loaded(1.0, seed=3) == whole


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    running = record(path, rounds=25)
    return path, running


def test_the_policies_of_a_log_decide_as_they_did(log):
    path, running = log
    found, notes = workloads.recorded(str(path))
    assert (found.last, notes) == (len(running.decisions), [])
    same, other = (found.measured([policy(text)], COUNTS) for text in (FIRST, SECOND))
    assert other["moves"] > same["moves"]
    assert same == found.measured([policy(FIRST)], COUNTS)


def test_the_later_part_of_a_log_is_held_out(log):
    whole, _ = workloads.recorded(str(log[0]))
    searched, held_out = whole.split(0.75, 0)
    assert (searched.first, searched.last, held_out.last) == (0, held_out.first, whole.last)
    assert held_out.last - held_out.first == int(whole.last * 0.75)
    first = held_out.measured([policy(FIRST)], COUNTS)
    assert first["moves"] < held_out.measured([policy(SECOND)], COUNTS)["moves"]


def test_a_log_is_distinguished_from_a_snapshot(log, tmp_path):
    other = tmp_path / "cluster.json"
    other.write_text('{"kind": "List"}')
    assert workloads.is_log(str(log[0]))
    assert not workloads.is_log(str(other))
    assert not workloads.is_log(str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no such decision log"):
        workloads.recorded(str(tmp_path / "none"))
