"""What the reconcilers do, as metrics."""

from __future__ import annotations

from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics


class TelemetryReconcileObserver:
    """A ReconcileObserver that counts and measures; how many wait is read when somebody looks."""

    def __init__(self, metrics: Metrics) -> None:
        self._adds = metrics.counter(Metric.WORKQUEUE_ADDS)
        self._retries = metrics.counter(Metric.WORKQUEUE_RETRIES)
        self._waits = metrics.histogram(Metric.WORKQUEUE_WAIT)
        self._reconciles = metrics.counter(Metric.RECONCILES)
        self._durations = metrics.histogram(Metric.RECONCILE_DURATION)

    def added(self, queue: str, depth: int) -> None:  # noqa: ARG002 — the depth is read when somebody looks
        """None; counted."""
        self._adds.labels(queue).inc()

    def taken(self, queue: str, depth: int, waited: float) -> None:  # noqa: ARG002 — the depth is read when somebody looks
        """None; measured."""
        self._waits.labels(queue).observe(waited)

    def retried(self, queue: str) -> None:
        """None; counted."""
        self._retries.labels(queue).inc()

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        """None; counted and measured."""
        self._reconciles.labels(controller, result).inc()
        self._durations.labels(controller).observe(seconds)
