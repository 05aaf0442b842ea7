"""Measured decisions are a sample of the others."""

from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from wharfinger.framework.plugin_calls import NO_LAPS, Effort, TimedLaps
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.timing import ONE_OF, DecisionStopwatch, Efforts


def ticking():
    """A clock that advances by a second whenever it is read."""
    now = [0.0]

    def clock():
        now[0] += 1
        return now[0]

    return clock


def slot(name, effort=None):
    return SimpleNamespace(plugin=SimpleNamespace(name=name), effort=effort)


def stopwatch(chance):
    metrics = Metrics(CollectorRegistry(), of_process=False)
    return metrics, DecisionStopwatch(metrics, Efforts(metrics), "p", clock=ticking(), chance=lambda: chance)


@pytest.mark.parametrize(("whole", "chance", "seconds"), [(True, 0.5, 1), (True, 0.0, 1), (False, 0.0, ONE_OF), (False, 0.5, 0)])
def test_seconds_of_a_rule_are_added_up_for_all_decisions(whole, chance, seconds):
    _, watch = stopwatch(chance)
    effort = Effort()
    laps = watch.begin(whole=whole, policies=())
    for _ in laps.each("Filter", [slot("p/r", effort)]):
        pass
    watch.ended(laps, "Success")
    assert effort.seconds == seconds


@pytest.mark.parametrize(("chance", "shown"), [(0.0, 1), (0.5, None)])
def test_histograms_show_a_sample_of_every_kind_of_decision(chance, shown):
    metrics, watch = stopwatch(chance)
    laps = watch.begin(whole=True, policies=())
    laps.mark("Filter")
    watch.ended(laps, "Success")
    labels = {"extension_point": "Filter", "status": "Success", "profile": "p"}
    assert metrics.registry.get_sample_value("scheduler_framework_extension_point_duration_seconds_count", labels) == shown


def test_plugins_have_a_histogram_and_rules_their_seconds():
    metrics, watch = stopwatch(0.0)
    laps = watch.begin(whole=True, policies=())
    for _ in laps.each("Filter", [slot("NodeName"), slot("p/r", Effort())]):
        pass
    watch.ended(laps, "Success")
    found = {sample.labels["plugin"] for family in metrics.registry.collect() for sample in family.samples if "plugin" in sample.labels}
    assert found == {"NodeName"}


def test_what_is_not_measured_costs_no_look_at_the_clock():
    _, watch = stopwatch(0.99)
    assert watch.begin(whole=False, policies=()) is NO_LAPS
    slots = [slot("a")]
    assert NO_LAPS.each("Filter", slots) is slots


def test_a_lap_counts_even_if_the_loop_ends_early():
    laps = TimedLaps(ticking(), whole=True)
    for _ in laps.each("PreFilter", [slot("a"), slot("b")]):
        break
    assert [(point, found.plugin.name, seconds) for point, found, seconds in laps.laps] == [("PreFilter", "a", 1)]


def test_marks_of_one_point_add_up():
    laps = TimedLaps(ticking(), whole=True)
    for point in ("PreFilter", "Filter", "Score", "Filter"):
        laps.mark(point)
    assert laps.points == {"PreFilter": 1, "Filter": 2, "Score": 1}
