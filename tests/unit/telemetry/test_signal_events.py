"""The reports about signals: log lines, metrics, events."""

import math
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from tests.observed import subscribed
from tests.unit.signals.test_refreshing import policy
from wharfinger.framework.ports import Reference
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.signals.mapping import NodeNames, Series, mapped
from wharfinger.signals.query import queries_of
from wharfinger.signals.refreshing import (
    Kind,
    MetricResumed,
    MetricSuspended,
    RefreshFailed,
    SignalFailed,
    SignalRefreshed,
    SignalsFollowed,
    Suspension,
)
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.policies import SignalEvents, SignalTelemetry

POLICY = policy()
(METRIC,) = POLICY.metrics
QUERY = queries_of([POLICY])[METRIC.signal]


def suspension(coverage, authority=CLUSTER):
    return Suspension(policy="p", metric=METRIC, coverage=coverage, n_nodes=10, age=math.inf, authority=authority)


class Log:
    def __init__(self):
        self.lines = []

    def bind(self):
        return self

    def __getattr__(self, level):
        return lambda event, **fields: self.lines.append((level, event, fields))


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def telemetry(log, registry):
    return SignalTelemetry(Metrics(registry, of_process=False), log)


@pytest.fixture
def emit(telemetry):
    return subscribed(telemetry.handlers).emit


def found(*texts):
    return mapped([Series({"instance": text}, 0.5, 1.0) for text in texts], QUERY, NodeNames(1, [], []))


def test_a_failure_is_reported_once_and_counted_each_time(emit, log, registry):
    for _ in range(3):
        emit(RefreshFailed(QUERY, SignalFailed(Kind.TIMEOUT, "late"), 1.0))
    emit(RefreshFailed(QUERY, SignalFailed(Kind.TLS, "who is that"), 1.0))
    emit(SignalRefreshed(QUERY, found(), 0.1))
    assert [(level, event) for level, event, _ in log.lines] == [
        ("warning", "signal not refreshed"),
        ("warning", "signal not refreshed"),
        ("info", "signal answered again"),
    ]
    assert log.lines[0][2]["metrics"] == "p.load"
    name = "wharfinger_signal_refresh_failures_total"
    assert registry.get_sample_value(name, {"server": "default", "kind": "timeout"}) == 3.0
    assert registry.get_sample_value("wharfinger_signal_refresh_duration_seconds_count", {"server": "default"}) == 5.0


def test_unusable_series_are_reported_when_they_first_occur(emit, log):
    for texts in (["x"], ["x", "y"], [], ["x"]):
        emit(SignalRefreshed(QUERY, found(*texts), 0.1))
    assert [(event, fields["series"]) for _, event, fields in log.lines] == [("signal has odd series", 1), ("signal has odd series", 1)]


def test_suspensions_are_counted_by_metric(emit, log, registry):
    emit(MetricSuspended(suspension(0.1)))
    emit(MetricResumed(suspension(0.9)))
    assert [(level, event) for level, event, _ in log.lines] == [("warning", "metric suspended"), ("info", "metric resumed")]
    assert registry.get_sample_value("wharfinger_signal_suspensions_total", {"policy": "p", "metric": "load"}) == 1.0


def test_a_metric_that_is_not_read_any_more_leaves_no_series_and_nothing_in_memory(emit, telemetry, registry):
    series = ("wharfinger_signal_suspensions_total", {"policy": "p", "metric": "load"})
    emit(SignalsFollowed({QUERY.key: QUERY}))
    emit(MetricSuspended(suspension(0.1)))
    emit(RefreshFailed(QUERY, SignalFailed(Kind.TIMEOUT, "late"), 1.0))
    emit(SignalRefreshed(QUERY, found("x"), 0.1))
    emit(RefreshFailed(QUERY, SignalFailed(Kind.TIMEOUT, "late"), 1.0))
    emit(SignalsFollowed({QUERY.key: QUERY}))
    assert registry.get_sample_value(*series) == 1.0

    emit(SignalsFollowed({}))
    assert registry.get_sample_value(*series) is None
    assert (telemetry._failing, telemetry._known_problems, telemetry._suspended) == ({}, {}, set())


def status(name, about, authority=CLUSTER):
    return SimpleNamespace(name=name, about=about, authority=authority)


def named(statuses):
    return SimpleNamespace(named=lambda name: [found for found in statuses if found.name == name])


def test_events_of_a_policy_are_not_about_the_object_of_another_with_its_name():
    recorded = []
    recorder = SimpleNamespace(record_about=lambda what, *_, **__: recorded.append(what.name))
    whose = {"cluster": CLUSTER, "team-a": Authority("team-a"), "team-b": Authority("team-b")}
    statuses = [status("p", Reference(kind="PolicyApp", name=name), authority) for name, authority in whose.items()]
    emit = subscribed(SignalEvents(recorder, named(statuses), lambda: True).handlers).emit
    for authority in whose.values():
        emit(MetricSuspended(suspension(0.1, authority)))
    assert recorded == list(whose)


def test_events_are_about_the_object_that_has_the_policy_and_written_by_the_leader():
    recorded, about = [], Reference(kind="SchedulingPolicy", name="p")
    recorder = SimpleNamespace(record_about=lambda what, event, **_: recorded.append((what, event.type, event.reason, event.note)))
    statuses = [status("p", about), status("other", about), status("p", None)]
    leads = [True]
    emit = subscribed(SignalEvents(recorder, named(statuses), lambda: leads[0]).handlers).emit
    emit(MetricSuspended(suspension(0.1)))
    emit(MetricResumed(suspension(0.9)))
    leads[0] = False
    emit(MetricSuspended(suspension(0.1)))
    assert recorded == [
        (
            about,
            "Warning",
            "MetricsUnavailable",
            "metric `load` of policy p is fresh on 1 of 10 nodes (fewer than 50 %); the rules that use it are suspended",
        ),
        (
            about,
            "Normal",
            "MetricsAvailable",
            "metric `load` of policy p is fresh on 9 of 10 nodes (at least 50 %); the rules that use it decide again",
        ),
    ]
