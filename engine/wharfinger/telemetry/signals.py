"""Metrics and log lines about signals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.signals.failure import SignalFailed
from wharfinger.signals.mapping import Mapped
from wharfinger.signals.ports import SignalObserver
from wharfinger.signals.query import Query
from wharfinger.signals.suspension import Suspension
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.logs import Log
from wharfinger.telemetry.metrics import Metrics


class TelemetrySignalObserver(SignalObserver):
    """Counts, measures, and logs what changes: the first failure of several, and new oddities of series."""

    def __init__(self, metrics: Metrics, log: Log) -> None:
        self._log = log
        self._seconds = metrics.histogram(Metric.SIGNAL_REFRESH_DURATION)
        self._failures = metrics.counter(Metric.SIGNAL_FAILURES)
        self._suspensions = metrics.counter(Metric.SIGNAL_SUSPENSIONS)
        self._failing: dict[str, str] = {}
        self._odd: dict[str, frozenset[str]] = {}
        self._suspended: set[tuple[str, str]] = set()

    def followed(self, queries: Mapping[str, Query]) -> None:
        """Forgets other signals, and removes the series of their metrics."""
        self._failing = {key: kind for key, kind in self._failing.items() if key in queries}
        self._odd = {key: odd for key, odd in self._odd.items() if key in queries}
        used = {user for query in queries.values() for user in query.users}
        for policy, metric in [each for each in self._suspended if f"{each[0]}.{each[1]}" not in used]:
            self._suspensions.remove(policy, metric)
            self._suspended.discard((policy, metric))

    def refreshed(self, query: Query, found: Mapped, seconds: float) -> None:
        """Measures a refresh, and logs it if the signal failed before or has new kinds of unusable series."""
        self._seconds.labels(query.place).observe(seconds)
        if self._failing.pop(query.key, None) is not None:
            self._log.info("signal answered again", **_named(query))
        odd = dict(found.oddities)
        for said in odd.keys() - self._odd.get(query.key, frozenset()):
            self._log.warning("signal has odd series", **_named(query), what=said, series=odd[said].count, example=odd[said].example)
        self._odd[query.key] = frozenset(odd)

    def refresh_failed(self, query: Query, error: SignalFailed, seconds: float) -> None:
        """Counts and measures a failure, and logs it unless the refresh before failed in the same way."""
        self._seconds.labels(query.place).observe(seconds)
        self._failures.labels(query.place, error.kind.value).inc()
        if self._failing.get(query.key) != error.kind.value:
            self._failing[query.key] = error.kind.value
            self._log.warning("signal not refreshed", **_named(query), kind=error.kind.value, why=str(error))

    def suspended(self, what: Suspension) -> None:
        """Counts and logs a suspension."""
        self._suspensions.labels(what.policy, what.metric.name).inc()
        self._suspended.add((what.policy, what.metric.name))
        self._log.warning("metric suspended", **_told(what))

    def resumed(self, what: Suspension) -> None:
        """Logs that a metric is used again."""
        self._log.info("metric resumed", **_told(what))


def _named(query: Query) -> dict[str, Any]:
    return {"metrics": ", ".join(query.users), "server": query.place, "query": query.text}


def _told(what: Suspension) -> dict[str, Any]:
    return {"policy": what.policy, "metric": what.metric.name, "why": str(what), "coverage": round(what.coverage, 3)}
