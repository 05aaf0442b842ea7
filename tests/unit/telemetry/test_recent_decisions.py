"""The recent decisions that are kept for the live page, within a limit of memory."""

import gc
import tracemalloc

import pytest

from tests.unit.scheduler.running import view
from tests.unit.simulate.clusters import chain_of, pods_of, state_of
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.scheduler.events import AttemptEnded, Decided
from wharfinger.telemetry.recent_decisions import MAX_SAVED_SECONDS, RecentDecisions


class Timer:
    def __init__(self):
        self.at = 0.0
        self.step = 0.0

    def __call__(self):
        self.at += self.step
        return self.at


def attempt(pod, result="scheduled", node="n1", message="", **more):
    stages = {"queue": 0.001, "decide": 0.002}
    times = {"first_seen": 1.0, "started": 2.0, "ended": 3.0}
    return AttemptEnded(
        pod=pod, profile="wharfinger", result=result, attempts=1, node=node, message=message, stages=stages, **times, **more
    )


@pytest.fixture
def recent():
    return RecentDecisions(lambda: 1_700_000_000.0, Timer())


def observe(recent, event):
    recent.handlers[type(event)](event)


def names(records):
    return [record.pod for record in records]


def test_the_newest_come_first_and_can_be_chosen(recent):
    observe(recent, attempt(view("a")))
    observe(recent, attempt(view("b"), result="unschedulable", node=None, message="0/3 nodes"))
    observe(recent, attempt(view("a"), result="error", message="lost", policies=("pools",)))

    assert names(recent.latest()) == ["default/a", "default/b", "default/a"]
    assert [record.result for record in recent.latest(pod="default/a")] == ["error", "scheduled"]
    assert names(recent.latest(result="unschedulable")) == ["default/b"]
    assert names(recent.latest(namespace="defa")) == []
    assert names(recent.latest(namespace="default", result="error")) == ["default/a"]
    assert [record.result for record in recent.latest(policy="pools")] == ["error"]


def test_a_decision_with_time_left_keeps_its_best_nodes(recent):
    decider, state = Decider(chain_of()), state_of(20, running=30)
    [pod] = pods_of(1)
    decision = decider.decide(state.snapshot(), pod)
    observe(recent, Decided("wharfinger", decision))
    observe(recent, attempt(pod, node=decision.node))

    [record] = recent.latest()
    assert record.best[0].node == decision.node
    assert record.best[0].totals == decision.totals
    assert record.best[0].scores == decision.scores_at(decision.node)
    assert [ranked.node for ranked in record.best] == [ranked.node for ranked in decision.ranking(3)]


def test_without_time_left_no_nodes_are_read_until_there_is_time_again():
    timer = Timer()
    recent = RecentDecisions(lambda: 0.0, timer)
    decider, state, pods = Decider(chain_of()), state_of(5), pods_of(3)
    timer.step = MAX_SAVED_SECONDS + 0.001
    for pod in pods[:2]:
        observe(recent, Decided("wharfinger", decider.decide(state.snapshot(), pod)))
        observe(recent, attempt(pod))
    timer.at += 1000.0
    observe(recent, Decided("wharfinger", decider.decide(state.snapshot(), pods[2])))
    observe(recent, attempt(pods[2]))

    assert [record.best is None for record in recent.latest()] == [False, True, False]


def test_an_unknown_node_and_pods_without_a_feasible_node_are_kept_without_scores(recent):
    observe(recent, Decided("wharfinger", Decider(chain_of()).decide(state_of(0).snapshot(), view("a"))))
    observe(recent, attempt(view("a"), result="unschedulable", node=None, message="no nodes"))
    assert next(recent.latest()).best is None


def test_the_counted_bytes_are_the_real_ones_and_bounded():
    decider, state = Decider(chain_of()), state_of(20, running=30)
    recent = RecentDecisions(lambda: 0.0, Timer(), max_bytes=400_000)
    message = "0/5000 nodes are available: " + "x" * 300
    [pod] = pods_of(1)
    decision = decider.decide(state.snapshot(), pod)

    def fill():
        for number in range(2000):
            if number % 5 == 0:
                observe(recent, Decided("wharfinger", decision))
            observe(recent, attempt(pod, message=f"{number} {message}"))

    fill()  # what is made once is made before measuring
    records, recent._records = list(recent._records), type(recent._records)()
    recent.n_bytes = 0
    tracemalloc.start()
    try:
        fill()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert records
    assert recent.n_bytes <= 400_000
    assert len(recent) < recent.n_seen == 4000
    assert 0.3 * recent.n_bytes < used < recent.n_bytes


def test_a_message_larger_than_the_limit_is_dropped_alone():
    recent = RecentDecisions(lambda: 0.0, Timer(), max_bytes=10_000)
    observe(recent, attempt(view("a"), message="x" * 20_000))
    assert len(recent) == recent.n_bytes == 0
    observe(recent, attempt(view("b")))
    assert names(recent.latest()) == ["default/b"]
