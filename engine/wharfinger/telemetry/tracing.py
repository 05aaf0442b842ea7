"""Traces: each attempt at placing a pod as spans of OpenTelemetry.

    schedule pod ─┬─ queue     waiting for its turn
                  ├─ decide    filters, scores, preemption
                  ├─ reserve
                  ├─ permit
                  ├─ pre_bind
                  └─ bind      from sending to the answer

The spans of an attempt are made when it has ended, from the seconds that its stages took: nothing is done before that. A pod whose
annotation `traceparent` (W3C Trace Context) names a trace is part of that trace, and is recorded if that trace is. Of all other attempts a
random share is recorded.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from wharfinger.emit import Handlers
from wharfinger.errors import UsageError, WharfingerError, missing_extra
from wharfinger.scheduler.events import AttemptEnded

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

PARENT, STATE = "traceparent", "tracestate"
FROM_THE_BEGINNING = ("decide", "reserve")
FROM_THE_END = ("bind", "pre_bind", "permit")
CLOSE_TIMEOUT = 3.0
"""Seconds that the end of the process waits for a collector."""
_BILLION = 1_000_000_000
_MAX_WAITING = 8192
_TIMEOUT = 5.0


class PodTraces:
    """Traces attempts; `ratio` of those that belong to no trace begin one. `chance` gives numbers in [0, 1)."""

    def __init__(
        self,
        provider: TracerProvider,
        ratio: float,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        chance: Callable[[], float] = random.random,
    ) -> None:
        from opentelemetry import trace  # noqa: PLC0415 — imported only for tracing
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 — as above

        self._trace = trace
        self._tracer = provider.get_tracer("wharfinger")
        self._propagator = TraceContextTextMapPropagator()
        self._provider = provider
        self._ratio = ratio
        self._now = now
        self._monotonic = monotonic
        self._chance = chance
        self.handlers: Handlers = {AttemptEnded: self._attempted}

    def _attempted(self, attempt: AttemptEnded) -> None:
        """Make the spans of an attempt that has ended, if it is traced."""
        annotations = attempt.pod.annotations
        parent = self._parent(annotations) if PARENT in annotations else None
        if parent is None and self._chance() < self._ratio:
            self._record(attempt, None)
        elif parent is not None and self._trace.get_current_span(parent).get_span_context().trace_flags.sampled:
            self._record(attempt, parent)

    def close(self) -> None:
        """Send what waits, within `CLOSE_TIMEOUT`; a collector that does not exist would take half a minute to be given up."""
        sending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        sending.start()
        sending.join(CLOSE_TIMEOUT)

    def _parent(self, annotations: Mapping[str, str]) -> Context | None:
        """The context that a pod's annotations name; None for one that is not valid, which counts as none."""
        carrier = {name: annotations[name] for name in (PARENT, STATE) if name in annotations}
        context = self._propagator.extract(carrier)
        return context if self._trace.get_current_span(context).get_span_context().is_valid else None

    def _record(self, attempt: AttemptEnded, parent: Context | None) -> None:
        epoch = self._now() - self._monotonic()  # monotonic times become times of day
        began = attempt.started - attempt.stages.get("queue", 0.0)

        def at(seconds: float) -> int:
            return round((epoch + seconds) * _BILLION)

        span = self._tracer.start_span("schedule pod", parent, start_time=at(began), attributes=_attributes(attempt))
        inside = self._trace.set_span_in_context(span)
        for stage, start, end in _stages(attempt, began):
            self._tracer.start_span(stage, inside, start_time=at(start)).end(at(end))
        if attempt.result == "error":
            span.set_status(self._trace.StatusCode.ERROR, attempt.message)
        span.end(at(attempt.ended))


def _stages(attempt: AttemptEnded, began: float) -> Iterator[tuple[str, float, float]]:
    """The stages with their beginnings and ends: the first ones follow the start, the last ones come right before the end."""
    seconds = attempt.stages
    if "queue" in seconds:
        yield "queue", began, attempt.started
    moment = attempt.started
    for stage in FROM_THE_BEGINNING:
        if stage in seconds:
            yield stage, moment, moment + seconds[stage]
            moment += seconds[stage]
    moment = attempt.ended
    for stage in FROM_THE_END:
        if stage in seconds:
            yield stage, moment - seconds[stage], moment
            moment -= seconds[stage]


def _attributes(attempt: AttemptEnded) -> dict[str, Any]:
    pod = attempt.pod
    found: dict[str, Any] = {
        "k8s.namespace.name": pod.namespace,
        "k8s.pod.name": pod.name,
        "k8s.pod.uid": pod.uid,
        "wharfinger.profile": attempt.profile,
        "wharfinger.result": attempt.result,
        "wharfinger.attempts": attempt.attempts,
        "wharfinger.feasible": attempt.feasible,
        "wharfinger.nodes": attempt.n_nodes,
        "wharfinger.policy_revision": attempt.policy_revision[:12],
        "wharfinger.snapshot_revision": attempt.snapshot_revision,
    }
    if attempt.node is not None:
        found["k8s.node.name"] = attempt.node
    if attempt.message:
        found["wharfinger.message"] = attempt.message
    return found


class TracesLost(WharfingerError):
    """The collector does not take spans."""


class ReportingExporter:
    """An exporter that calls `failed` when it begins to fail, from its own thread; `failing` is True while it fails."""

    def __init__(self, exporter: SpanExporter, failed: Callable[[BaseException], None]) -> None:
        self._exporter = exporter
        self._failed = failed
        self.failing = False
        self.shutdown = exporter.shutdown
        self.force_flush = exporter.force_flush

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """The result of the exporter. An exception is a failure, reported by its type alone, as its text may have headers."""
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 — imported only for tracing

        why = ""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 — a certificate or header that cannot be used may cause any exception
            result, why = SpanExportResult.FAILURE, f" ({type(error).__name__})"
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self.failing:
            self._failed(
                TracesLost(f"the collector does not accept traces{why}: {len(spans)} spans are lost, and all others until it does")
            )
        self.failing = failing
        return result


def provider_of(exporter: SpanExporter | ReportingExporter, version: str, instance: str) -> TracerProvider:
    """The provider that makes spans and gives them to an exporter in a thread; spans that it cannot take in time are dropped.

    UsageError for variables of OpenTelemetry's own that it cannot use.
    """
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 — imported only for tracing
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 — as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 — as above

    with _variables_read():
        resource = Resource.create({"service.name": "wharfinger", "service.version": version, "service.instance.id": instance})
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(cast("SpanExporter", exporter), max_queue_size=_MAX_WAITING))
    return provider


@contextmanager
def _variables_read() -> Iterator[None]:
    """Turn what OpenTelemetry raises of its variables into a UsageError."""
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        raise UsageError(f"tracing cannot begin; look at the variables of the environment that begin with OTEL_: {error}") from error


def exporter_of(endpoint: str, failed: Callable[[BaseException], None]) -> ReportingExporter:
    """The exporter that sends spans to a collector as OTLP over HTTP. UsageError if packages are missing, or variables cannot be used."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 — as above
    except ImportError as error:
        raise missing_extra(f"tracing needs packages that are not installed ({error})", "tracing") from error
    path = "" if endpoint.rstrip("/").endswith("/v1/traces") else "/v1/traces"
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # it would log every attempt
    logging.getLogger("opentelemetry.util.re").addFilter(_without_values)
    with _variables_read():
        exporter = ReportingExporter(OTLPSpanExporter(endpoint=endpoint.rstrip("/") + path, timeout=_TIMEOUT), failed)
    # While the collector is away, it has been reported already that spans are dropped.
    logging.getLogger("opentelemetry.sdk._shared_internal").addFilter(lambda _: not exporter.failing)
    return exporter


def _without_values(record: logging.LogRecord) -> bool:
    """True; the log record contains no header values, which can be secrets."""
    record.msg, record.args = "a header in OTEL_EXPORTER_OTLP_HEADERS is not NAME=VALUE, and is left out", ()
    return True
