"""What the webhook is asked, as a metric."""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics

RESULTS = ("allowed", "refused", "unreadable", "forbidden", "busy", "late", "failed")


def reviews_seen(metrics: Metrics) -> Callable[[str], None]:
    """What is to be told the result of each review."""
    counter = metrics.counter(Metric.ADMISSION_REVIEWS)
    for result in RESULTS:
        counter.labels(result)  # an alert on what has never happened needs its 0
    return lambda result: counter.labels(result).inc()
