"""Measured decisions are a sample of the others."""

from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from wharfinger.framework.plugin_calls import NO_TIMER, DecisionTimer, RuleStatistics
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.timing import SAMPLE_EVERY, DecisionStopwatch, StatisticsOfRules


def ticking():
    """A clock that advances by a second whenever it is read."""
    now = [0.0]

    def clock():
        now[0] += 1
        return now[0]

    return clock


def slot(name, statistics=None):
    return SimpleNamespace(plugin=SimpleNamespace(name=name), statistics=statistics)


def stopwatch(chance):
    metrics = Metrics(CollectorRegistry(), of_process=False)
    return metrics, DecisionStopwatch(metrics, StatisticsOfRules(metrics), "p", clock=ticking(), chance=lambda: chance)


@pytest.mark.parametrize(("whole", "chance", "seconds"), [(True, 0.5, 1), (True, 0.0, 1), (False, 0.0, SAMPLE_EVERY), (False, 0.5, 0)])
def test_seconds_of_a_rule_are_added_up_for_all_decisions(whole, chance, seconds):
    _, watch = stopwatch(chance)
    statistics = RuleStatistics()
    call_timer = watch.begin(whole=whole, policies=())
    for _ in call_timer.each("Filter", [slot("p/r", statistics)]):
        pass
    watch.ended(call_timer, "Success")
    assert statistics.seconds == seconds


@pytest.mark.parametrize(("chance", "shown"), [(0.0, 1), (0.5, None)])
def test_histograms_show_a_sample_of_every_kind_of_decision(chance, shown):
    metrics, watch = stopwatch(chance)
    call_timer = watch.begin(whole=True, policies=())
    call_timer.mark("Filter")
    watch.ended(call_timer, "Success")
    labels = {"extension_point": "Filter", "status": "Success", "profile": "p"}
    assert metrics.registry.get_sample_value("scheduler_framework_extension_point_duration_seconds_count", labels) == shown


def test_plugins_have_a_histogram_and_rules_their_seconds():
    metrics, watch = stopwatch(0.0)
    call_timer = watch.begin(whole=True, policies=())
    for _ in call_timer.each("Filter", [slot("NodeName"), slot("p/r", RuleStatistics())]):
        pass
    watch.ended(call_timer, "Success")
    found = {sample.labels["plugin"] for family in metrics.registry.collect() for sample in family.samples if "plugin" in sample.labels}
    assert found == {"NodeName"}


def test_a_decision_that_is_not_measured_reads_no_clock():
    _, watch = stopwatch(0.99)
    assert watch.begin(whole=False, policies=()) is NO_TIMER
    slots = [slot("a")]
    assert NO_TIMER.each("Filter", slots) is slots


def test_a_lap_counts_even_if_the_loop_ends_early():
    call_timer = DecisionTimer(ticking(), whole=True)
    for _ in call_timer.each("PreFilter", [slot("a"), slot("b")]):
        break
    assert [(point, found.plugin.name, seconds) for point, found, seconds in call_timer.calls] == [("PreFilter", "a", 1)]


def test_marks_of_one_point_add_up():
    call_timer = DecisionTimer(ticking(), whole=True)
    for point in ("PreFilter", "Filter", "Score", "Filter"):
        call_timer.mark(point)
    assert call_timer.points == {"PreFilter": 1, "Filter": 2, "Score": 1}
