"""Requests to the API server, under client-go's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from urllib.parse import urlsplit

from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics

NO_ANSWER = "<error>"
"""The code of a request that nobody answered, as client-go has it (rest/request.go)."""


def requests_seen(metrics: Metrics, server: str) -> Callable[[str, int, float | None], None]:
    """What is to be told of each request to a server: method, status (0 without an answer), seconds (None for a watch)."""
    host = urlsplit(server).netloc.rpartition("@")[2]
    counted = cache(metrics.counter(Metric.REQUESTS).labels)
    timed = cache(metrics.histogram(Metric.REQUEST_DURATION).labels)

    def answered(method: str, status: int, seconds: float | None) -> None:
        counted(str(status) if status else NO_ANSWER, method, host).inc()
        if seconds is not None:
            timed(method, host).observe(seconds)

    return answered
