"""The metrics of the process in a separate registry, and the counters of requests, reviews and reconciles.

    metrics = Metrics(CollectorRegistry())
    metrics.counter(Metric.PREEMPTION_ATTEMPTS).inc()
    metrics.read(Metric.PENDING_PODS, lambda: {("active",): 3})

Values that exist already (queue lengths, sizes, revisions) are computed at scrape time. Requests and work queues have the metric names of
client-go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from urllib.parse import urlsplit

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from wharfinger.emit import Handlers
from wharfinger.kube.connection import RequestAnswered
from wharfinger.operator.compose import KindsLost, KindsRestored
from wharfinger.operator.controller import KeyAdded, KeyRetried, KeyTaken, Reconciled
from wharfinger.telemetry.declarations import Declaration, Kind, Metric
from wharfinger.telemetry.logs import Log

Reading = Callable[[], Mapping[tuple[str, ...], float]]
"""Values of a metric by its labels' values, in the order in which the labels are declared."""

Family = CounterMetricFamily | GaugeMetricFamily

NO_ANSWER = "<error>"
"""The code of a request without an answer, as client-go has it (rest/request.go)."""

ANSWERS = ("answered", "refused", "cancelled", "failed")
RESULTS = ("allowed", "refused", "unreadable", "forbidden", "busy", "late", "failed")


class Metrics:
    """The declared metrics as objects of prometheus-client in `registry`."""

    def __init__(self, registry: CollectorRegistry, *, of_process: bool = True) -> None:
        self.registry = registry
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no annotation here
        self._moved = {metric: _collector(metric.declaration, registry) for metric in Metric if not metric.declaration.read}
        self._readings = Readings(lambda: self.counter(Metric.ERRORS).labels("metrics").inc())
        registry.register(self._readings)
        if of_process:
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
            GCCollector(registry=registry)

    def counter(self, metric: Metric) -> Counter:
        """The counter of that declaration."""
        found = self._moved[metric]
        assert isinstance(found, Counter)  # noqa: S101 — anything else is a mistake of the caller
        return found

    def histogram(self, metric: Metric) -> Histogram:
        """The histogram of that declaration."""
        found = self._moved[metric]
        assert isinstance(found, Histogram)  # noqa: S101 — as above
        return found

    def read(self, metric: Metric, reading: Reading) -> None:
        """Call `reading` for the values of a metric at scrape time; the values of several readings are joined."""
        self._readings.add(metric, reading)


class Readings(Collector):
    """The gauges that are read when the registry is scraped. A reading that fails leaves its values out and calls `failed`."""

    def __init__(self, failed: Callable[[], None]) -> None:
        self._failed = failed
        self._readings: dict[Metric, list[Reading]] = {metric: [] for metric in Metric if metric.declaration.read}

    def add(self, metric: Metric, reading: Reading) -> None:
        """Add a reading of a metric."""
        self._readings[metric].append(reading)

    def describe(self) -> Iterator[Family]:
        """The metrics without values: reading them now would be too early."""
        return (_family(metric.declaration) for metric in self._readings)

    def collect(self) -> Iterator[Family]:
        """The metrics with their values."""
        for metric, readings in self._readings.items():
            family = _family(metric.declaration)
            for reading in readings:
                self._fill(family, reading)
            yield family

    def _fill(self, family: Family, reading: Reading) -> None:
        try:
            for labels, value in reading().items():
                family.add_metric(labels, value)
        except Exception:  # noqa: BLE001 — one value that is not available must not hide all the others
            self._failed()


def _collector(declared: Declaration, registry: CollectorRegistry) -> Counter | Histogram:
    if declared.kind is Kind.HISTOGRAM:
        return Histogram(declared.name, declared.help, declared.labels, registry=registry, buckets=declared.buckets)
    return Counter(declared.name, declared.help, declared.labels, registry=registry)


def _family(declared: Declaration) -> Family:
    make = CounterMetricFamily if declared.kind is Kind.COUNTER else GaugeMetricFamily
    return make(declared.name, declared.help, labels=declared.labels)


def request_handlers(metrics: Metrics, server: str) -> Handlers:
    """The handlers that count and measure requests to a server."""
    host = urlsplit(server).netloc.rpartition("@")[2]
    counted = cache(metrics.counter(Metric.REQUESTS).labels)
    timed = cache(metrics.histogram(Metric.REQUEST_DURATION).labels)

    def answered(event: RequestAnswered) -> None:
        counted(str(event.status) if event.status else NO_ANSWER, event.method, host).inc()
        if event.seconds is not None:
            timed(event.method, host).observe(event.seconds)

    return {RequestAnswered: answered}


def review_counter(metrics: Metrics) -> Callable[[str], None]:
    """The function to call with the result of each review."""
    counter = metrics.counter(Metric.ADMISSION_REVIEWS)
    for result in RESULTS:
        counter.labels(result)  # an alert on an event that has not happened yet needs a series with 0
    return lambda result: counter.labels(result).inc()


def answer_timer(metrics: Metrics) -> Callable[[str, float], None]:
    """The function to call with the result of each answer of the expander, and the seconds that it took."""
    histogram = metrics.histogram(Metric.EXPANDER_DURATION)
    for result in ANSWERS:
        histogram.labels(result)  # as above
    return lambda result, seconds: histogram.labels(result).observe(seconds)


def reconcile_handlers(metrics: Metrics, log: Log) -> Handlers:
    """The handlers that count and measure reconciles, and log missing kinds; queue depths are read at scrape time."""
    added = cache(metrics.counter(Metric.WORKQUEUE_ADDS).labels)
    retried = cache(metrics.counter(Metric.WORKQUEUE_RETRIES).labels)
    waited = cache(metrics.histogram(Metric.WORKQUEUE_WAIT).labels)
    reconciled = cache(metrics.counter(Metric.RECONCILES).labels)
    timed = cache(metrics.histogram(Metric.RECONCILE_DURATION).labels)

    def ended(event: Reconciled) -> None:
        reconciled(event.controller, event.result).inc()
        timed(event.controller).observe(event.seconds)

    def lost(event: KindsLost) -> None:
        if event.absent:
            fix = "wharf install --print | kubectl apply -f -"
            log.warning("custom resources are not defined; continuing without them", kinds=event.absent, fix=fix)
        if event.refused:
            why = "; ".join(f"{kind}: {reason}" for kind, reason in event.refused.items())
            log.warning("objects may not be read; continuing without them", kinds=[*event.refused], why=why)

    return {
        KeyAdded: lambda event: added(event.queue).inc(),
        KeyTaken: lambda event: waited(event.queue).observe(event.waited),
        KeyRetried: lambda event: retried(event.queue).inc(),
        Reconciled: ended,
        KindsLost: lost,
        KindsRestored: lambda event: log.info("objects can be read now", kinds=event.kinds),
    }
