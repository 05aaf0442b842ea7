"""Metrics of requests to the API server, of admission reviews and of reconciles, under the names of client-go where it has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from urllib.parse import urlsplit

from wharfinger.operator.controller import ReconcileObserver
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics

NO_ANSWER = "<error>"
"""The code of a request without an answer, as client-go has it (rest/request.go)."""


def requests_seen(metrics: Metrics, server: str) -> Callable[[str, int, float | None], None]:
    """The function to call for each request to a server: method, status (0 without an answer), seconds (None for a watch)."""
    host = urlsplit(server).netloc.rpartition("@")[2]
    counted = cache(metrics.counter(Metric.REQUESTS).labels)
    timed = cache(metrics.histogram(Metric.REQUEST_DURATION).labels)

    def answered(method: str, status: int, seconds: float | None) -> None:
        counted(str(status) if status else NO_ANSWER, method, host).inc()
        if seconds is not None:
            timed(method, host).observe(seconds)

    return answered


RESULTS = ("allowed", "refused", "unreadable", "forbidden", "busy", "late", "failed")


def reviews_seen(metrics: Metrics) -> Callable[[str], None]:
    """The function to call with the result of each review."""
    counter = metrics.counter(Metric.ADMISSION_REVIEWS)
    for result in RESULTS:
        counter.labels(result)  # an alert on what has never happened needs its 0
    return lambda result: counter.labels(result).inc()


class TelemetryReconcileObserver(ReconcileObserver):
    """Counts and measures reconciles; queue depths are read at scrape time."""

    def __init__(self, metrics: Metrics) -> None:
        self._adds = metrics.counter(Metric.WORKQUEUE_ADDS)
        self._retries = metrics.counter(Metric.WORKQUEUE_RETRIES)
        self._waits = metrics.histogram(Metric.WORKQUEUE_WAIT)
        self._reconciles = metrics.counter(Metric.RECONCILES)
        self._durations = metrics.histogram(Metric.RECONCILE_DURATION)

    def added(self, queue: str, depth: int) -> None:  # noqa: ARG002 — the depth is read at scrape time
        """Counts."""
        self._adds.labels(queue).inc()

    def taken(self, queue: str, depth: int, waited: float) -> None:  # noqa: ARG002 — the depth is read at scrape time
        """Measures."""
        self._waits.labels(queue).observe(waited)

    def retried(self, queue: str) -> None:
        """Counts."""
        self._retries.labels(queue).inc()

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        """Counts and measures."""
        self._reconciles.labels(controller, result).inc()
        self._durations.labels(controller).observe(seconds)
