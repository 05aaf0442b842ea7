"""Traces of scheduling attempts: spans, sampling, and failures of the exporter."""

import logging
import subprocess
import sys
import time

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.unit.scheduler.running import pod
from wharfinger.errors import UsageError
from wharfinger.model.objects.pod_view import PodView
from wharfinger.scheduler.events import AttemptEnded
from wharfinger.telemetry import tracing

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
STAGES = {"queue": 2.0, "decide": 0.5, "reserve": 0.25, "permit": 1.0, "pre_bind": 0.5, "bind": 0.75}


def attempt(annotations=None, result="scheduled", stages=STAGES, **more):
    found = pod("web")
    found = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=annotations or {}))
    times = {"first_seen": 90.0, "started": 100.0, "ended": 104.0}
    return AttemptEnded(pod=PodView(found), profile="wharfinger", result=result, attempts=2, stages=stages, node="n1", **times, **more)


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def traces(spans):
    def make(ratio=1.0, chance=0.5):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        return tracing.PodTraces(provider, ratio, now=lambda: 1_000_105.0, monotonic=lambda: 105.0, chance=lambda: chance)

    return make


def seconds(span):
    return span.start_time / 1e9 - 1_000_000, span.end_time / 1e9 - 1_000_000


def test_the_stages_of_an_attempt_are_spans_at_their_times(traces, spans):
    traces().handlers[AttemptEnded](attempt(feasible=3, n_nodes=5, policy_revision="f" * 64))
    found = {span.name: span for span in spans.get_finished_spans()}
    root = found.pop("schedule pod")

    assert seconds(root) == (98.0, 104.0)
    assert {name: seconds(span) for name, span in found.items()} == {
        "queue": (98.0, 100.0),
        "decide": (100.0, 100.5),
        "reserve": (100.5, 100.75),
        "permit": (101.75, 102.75),
        "pre_bind": (102.75, 103.25),
        "bind": (103.25, 104.0),
    }
    assert {span.parent.span_id for span in found.values()} == {root.context.span_id}
    assert root.parent is None
    assert root.attributes["k8s.pod.name"] == "web"
    assert root.attributes["k8s.node.name"] == "n1"
    assert root.attributes["wharfinger.policy_revision"] == "f" * 12
    assert root.status.status_code is StatusCode.UNSET


def test_an_error_is_one(traces, spans):
    traces().handlers[AttemptEnded](attempt(result="error", message="no answer", stages={"decide": 0.5}))
    [_, root] = spans.get_finished_spans()
    assert root.status.status_code is StatusCode.ERROR
    assert root.status.description == "no answer"


@pytest.mark.parametrize(("chance", "recorded"), [(0.24, True), (0.25, False), (0.99, False)])
def test_only_a_share_begins_a_trace(traces, spans, chance, recorded):
    traces(ratio=0.25, chance=chance).handlers[AttemptEnded](attempt())
    assert bool(spans.get_finished_spans()) is recorded


def test_a_pod_is_part_of_the_trace_that_its_annotation_names(traces, spans):
    traces(ratio=0.0).handlers[AttemptEnded](attempt({"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}))
    root = next(span for span in spans.get_finished_spans() if span.name == "schedule pod")
    assert format(root.context.trace_id, "032x") == TRACE
    assert format(root.parent.span_id, "016x") == PARENT
    assert root.context.trace_state["vendor"] == "1"


def test_a_trace_that_is_not_recorded_is_not_recorded_here_either(traces, spans):
    traces(ratio=1.0).handlers[AttemptEnded](attempt({"traceparent": f"00-{TRACE}-{PARENT}-00"}))
    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize("nonsense", ["", "00-zz-1-01", f"00-{'0' * 32}-{PARENT}-01", "x" * 100_000])
def test_an_annotation_that_names_no_trace_counts_as_none(traces, spans, nonsense):
    traces(ratio=0.0).handlers[AttemptEnded](attempt({"traceparent": nonsense}))
    assert spans.get_finished_spans() == ()
    traces(ratio=1.0).handlers[AttemptEnded](attempt({"traceparent": nonsense}))
    assert spans.get_finished_spans()


def test_spans_go_to_an_exporter_in_batches_and_at_the_end(spans):
    provider = tracing.provider_of(spans, "1.2.3", "me")
    traces = tracing.PodTraces(provider, 1.0, now=lambda: 0.0, monotonic=lambda: 0.0)
    traces.handlers[AttemptEnded](attempt())
    traces.close()
    found = spans.get_finished_spans()
    assert len(found) == len(STAGES) + 1
    assert found[0].resource.attributes["service.name"] == "wharfinger"
    assert found[0].resource.attributes["service.version"] == "1.2.3"


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:4318", "http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"])
def test_an_endpoint_is_that_of_the_collector_or_of_its_traces(endpoint):
    exporter = tracing.exporter_of(endpoint, pytest.fail)
    assert exporter._exporter._endpoint == "http://127.0.0.1:4318/v1/traces"
    exporter.shutdown()


def test_an_absent_collector_is_reported_once_and_not_waited_for(monkeypatch, caplog):
    monkeypatch.setattr(tracing, "CLOSE_TIMEOUT", 0.2)
    monkeypatch.setattr(tracing, "_TIMEOUT", 0.1)
    reported = []
    exporter = tracing.exporter_of("http://127.0.0.1:1", reported.append)
    traces = tracing.PodTraces(tracing.provider_of(exporter, "1", "me"), 1.0, now=lambda: 0.0, monotonic=lambda: 0.0)
    for _ in range(3):
        traces.handlers[AttemptEnded](attempt())
        traces._provider.force_flush()
    began = time.monotonic()
    traces.close()
    assert time.monotonic() - began < 2.0
    assert [str(error) for error in reported] == ["the collector does not accept traces: 7 spans are lost, and all others until it does"]
    assert caplog.records == []


def test_an_exception_of_an_exporter_is_reported_without_its_text(caplog):
    class Raising(InMemorySpanExporter):
        def export(self, spans):
            raise ValueError("bad header: Bearer s3cret")

    reported = []
    provider = tracing.provider_of(tracing.ReportingExporter(Raising(), reported.append), "1", "me")
    traces = tracing.PodTraces(provider, 1.0, lambda: 0.0, lambda: 0.0)
    traces.handlers[AttemptEnded](attempt())
    traces.close()
    assert [str(error) for error in reported] == [
        "the collector does not accept traces (ValueError): 7 spans are lost, and all others until it does"
    ]
    assert caplog.records == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many"),
        ("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "nobody"),
    ],
)
def test_variables_that_cannot_be_used_are_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="tracing cannot begin; look at the variables of the environment that begin with OTEL_: "):
        tracing.provider_of(tracing.exporter_of("http://127.0.0.1:1", pytest.fail), "1", "me")


def test_a_header_that_cannot_be_read_is_not_shown(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key s3cret")
    tracing.exporter_of("http://127.0.0.1:1", pytest.fail).shutdown()
    assert [record.getMessage() for record in caplog.records] == [
        "a header in OTEL_EXPORTER_OTLP_HEADERS is not NAME=VALUE, and is left out"
    ]


def test_dropped_spans_are_not_reported_while_the_collector_is_away(monkeypatch, caplog):
    dropping = logging.getLogger("opentelemetry.sdk._shared_internal")
    monkeypatch.setattr(dropping, "filters", [])  # of other tests, and the SDK's own against repetition
    exporter = tracing.exporter_of("http://127.0.0.1:1", pytest.fail)
    exporter.failing = True
    dropping.warning("Queue full, dropping %s.", "Span")
    assert caplog.records == []
    exporter.failing = False
    dropping.warning("Queue full, dropping %s.", "more")
    assert [record.getMessage() for record in caplog.records] == ["Queue full, dropping more."]
    exporter.shutdown()


def test_packages_that_are_missing_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(UsageError, match=r"pip install 'wharfinger\[tracing\]'"):
        tracing.exporter_of("http://127.0.0.1:4318", pytest.fail)


def test_without_traces_opentelemetry_is_not_imported():
    code = "import sys, wharfinger.daemon.serve; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
