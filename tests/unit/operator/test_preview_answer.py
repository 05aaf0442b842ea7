"""Previews: the answer is that of a dry run, whatever happens to the cluster while it is worked out."""

from collections import Counter

import pytest

from tests.unit.simulate.clusters import chain_of, pods_of, state_of
from wharfinger.model.state.cluster_state import copied
from wharfinger.operator.preview import answered
from wharfinger.simulate.dry_run import dry_run


def finished(steps, between=lambda: None):
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        between()


def test_the_copy_is_of_the_first_moment_and_decides_like_the_original():
    state = state_of(60, running=120)
    expected = [result.node for result in dry_run(chain_of(), state_of(60, running=120), pods_of(20)).results]

    def change():
        state.remove_node(state.snapshot().names[0])

    copy = finished(copied(state.snapshot()), change)

    assert copy.snapshot().n_nodes == 60
    assert [result.node for result in dry_run(chain_of(), copy, pods_of(20)).results] == expected


@pytest.mark.parametrize("n_pods", [10, 200])
def test_it_is_that_of_a_dry_run(n_pods):
    chain, state = chain_of(), state_of(40, running=40)
    steps = answered(chain, state.snapshot(), pods_of(n_pods))
    answer = finished(steps, lambda: state.remove_pod(pods_of(1)[0]))
    expected = dry_run(chain, state_of(40, running=40), pods_of(n_pods))

    assert answer.nodes == tuple((result.pod, result.node) for result in expected.results)
    status = answer.status()
    counts = Counter(result.node for result in expected.results if result.node is not None)
    assert {each["node"]: each["count"] for each in status["placements"]} == counts
    assert [each["count"] for each in status["placements"]] == sorted(counts.values(), reverse=True)
    assert (status["pods"], status["placed"]) == (n_pods, expected.placed)
    if expected.unplaced:
        assert status["message"] == next(result.message for result in expected.results if result.node is None)
        assert status["rules"][0]["rejected"] <= 40
        assert status["nearestMiss"]["reasons"]
    assert bool(expected.unplaced) == (n_pods == 200), "one of the two cases must leave pods over"


def test_the_live_state_is_left_alone():
    state = state_of(10)
    before = state.revision

    finished(answered(chain_of(), state.snapshot(), pods_of(5)))

    assert state.revision == before
