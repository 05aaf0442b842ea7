"""The declared metrics, and their exposition."""

import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from wharfinger.telemetry.declarations import Kind, Metric
from wharfinger.telemetry.metrics import Metrics

# pkg/scheduler/metrics/metrics.go and component-base/metrics/prometheus, Kubernetes 1.36: labels; first, last and number of buckets
KUBERNETES = {
    "scheduler_schedule_attempts_total": ({"result", "profile"}, None),
    "scheduler_scheduling_attempt_duration_seconds": ({"result", "profile"}, (0.001, 16.384, 15)),
    "scheduler_scheduling_algorithm_duration_seconds": (set(), (0.001, 16.384, 15)),
    "scheduler_podgroup_schedule_attempts_total": ({"result", "profile"}, None),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": ({"result", "profile"}, (0.001, 16.384, 15)),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": (set(), (0.001, 16.384, 15)),
    "scheduler_preemption_victims": (set(), (1, 64, 7)),
    "scheduler_preemption_attempts_total": (set(), None),
    "scheduler_pending_pods": ({"queue"}, None),
    "scheduler_goroutines": ({"operation"}, None),
    "scheduler_pod_scheduling_sli_duration_seconds": ({"attempts"}, (0.01, 5242.88, 20)),
    "scheduler_pod_scheduling_attempts": (set(), (1, 16, 5)),
    "scheduler_pod_scheduled_after_flush_total": (set(), None),
    "scheduler_framework_extension_point_duration_seconds": ({"extension_point", "status", "profile"}, (0.0001, 0.2048, 12)),
    "scheduler_plugin_execution_duration_seconds": ({"plugin", "extension_point", "status"}, (0.00001, 0.00001 * 1.5**19, 20)),
    "scheduler_queue_incoming_pods_total": ({"queue", "event"}, None),
    "scheduler_permit_wait_duration_seconds": ({"result"}, (0.001, 16.384, 15)),
    "scheduler_cache_size": ({"type"}, None),
    "scheduler_unschedulable_pods": ({"plugin", "profile"}, None),
    "leader_election_master_status": ({"name"}, None),
    "rest_client_requests_total": ({"code", "method", "host"}, None),
    "rest_client_request_duration_seconds": ({"verb", "host"}, (0.005, 60.0, 12)),
    "workqueue_depth": ({"name"}, None),
    "workqueue_adds_total": ({"name"}, None),
    "workqueue_retries_total": ({"name"}, None),
    "workqueue_queue_duration_seconds": ({"name"}, (10e-9, 10, 10)),
}


@pytest.fixture
def metrics():
    return Metrics(CollectorRegistry(), of_process=False)


def declared():
    return {metric.declaration.name: metric.declaration for metric in Metric}


@pytest.mark.parametrize("name", KUBERNETES)
def test_kubernetes_own_metrics_are_as_in_kubernetes(name):
    labels, buckets = KUBERNETES[name]
    found = declared()[name]
    assert set(found.labels) == labels
    if buckets is None:
        assert found.kind is not Kind.HISTOGRAM
    else:
        assert (found.buckets[0], found.buckets[-1], len(found.buckets)) == pytest.approx(buckets)


def test_metrics_that_are_not_kubernetes_own_begin_with_wharfinger():
    assert {name for name in declared() if not name.startswith("wharfinger_")} == set(KUBERNETES)


@pytest.mark.parametrize("metric", Metric)
def test_names_and_labels_follow_the_conventions(metric):
    found = metric.declaration
    assert re.fullmatch(r"[a-z][a-z_]+", found.name)
    assert found.name.endswith("_total") == (found.kind is Kind.COUNTER)
    assert found.help.endswith(".")
    assert not {"pod", "node", "namespace", "uid"} & set(found.labels)
    assert list(found.buckets) == sorted(set(found.buckets))


def moved(metrics):
    """Everything declared with one value, of labels that need quoting."""
    for metric in Metric:
        labels = ['a"b\\c\nd'] * len(metric.declaration.labels)
        if metric.declaration.read:
            metrics.read(metric, lambda labels=labels: {tuple(labels): 2})
        elif metric.declaration.kind is Kind.HISTOGRAM:
            metric_of = metrics.histogram(metric)
            (metric_of.labels(*labels) if labels else metric_of).observe(1)
        else:
            counter = metrics.counter(metric)
            (counter.labels(*labels) if labels else counter).inc()
    return metrics


@pytest.mark.parametrize(
    ("encode", "parse"), [(generate_latest, text_string_to_metric_families), (openmetrics.generate_latest, parse_openmetrics)]
)
def test_exposed_metrics_can_be_parsed(metrics, encode, parse):
    families = {family.name: family for family in parse(encode(moved(metrics).registry).decode())}
    for metric in Metric:
        found = families[metric.declaration.name.removesuffix("_total")]
        assert (found.type, found.documentation) == (metric.declaration.kind.value, metric.declaration.help)
        assert all(value == 'a"b\\c\nd' for sample in found.samples for key, value in sample.labels.items() if key != "le")


def test_no_series_shows_when_another_was_created(metrics):
    assert b"_created" not in generate_latest(moved(metrics).registry)


def test_readings_of_one_metric_are_put_together(metrics):
    metrics.read(Metric.PENDING_PODS, lambda: {("active",): 1})
    metrics.read(Metric.PENDING_PODS, lambda: {("gated",): 2})
    assert metrics.registry.get_sample_value("scheduler_pending_pods", {"queue": "active"}) == 1
    assert metrics.registry.get_sample_value("scheduler_pending_pods", {"queue": "gated"}) == 2


def test_nothing_is_read_before_the_first_request(metrics):
    asked = []
    metrics.read(Metric.PENDING_PODS, lambda: asked.append(1) or {})
    assert not asked
    generate_latest(metrics.registry)
    assert asked


def test_a_reading_that_fails_hides_no_other(metrics):
    metrics.read(Metric.PENDING_PODS, lambda: 1 / 0)
    metrics.read(Metric.CACHE_SIZE, lambda: {("nodes",): 3})
    generate_latest(metrics.registry)
    assert metrics.registry.get_sample_value("scheduler_cache_size", {"type": "nodes"}) == 3
    assert metrics.registry.get_sample_value("wharfinger_errors_total", {"place": "metrics"}) >= 1


def test_the_process_exports_its_cpu_time_memory_and_collections():
    text = generate_latest(Metrics(CollectorRegistry()).registry).decode()
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "python_gc_collections_total"):
        assert re.search(rf"^{name}\b", text, re.MULTILINE)
