"""Metrics and log lines about policies and their metrics' samples, and the history of reloads that the live page shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wharfinger.framework.policy_status import Finding, PolicyObserver, PolicyStatus, Result, SourceStatus
from wharfinger.signals.mapping import Mapped
from wharfinger.signals.ports import SignalFailed, SignalObserver
from wharfinger.signals.query import Query
from wharfinger.signals.refreshing import Suspension
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.logs import Log
from wharfinger.telemetry.metrics import Metrics

MOST = 100
LONGEST_REPORT = 4000
"""Characters."""


class TelemetryPolicyObserver(PolicyObserver):
    """Counts and logs what happens to policies."""

    def __init__(self, metrics: Metrics, log: Log) -> None:
        self._log = log
        self._reloads = metrics.counter(Metric.POLICY_RELOADS)
        self._suspensions = metrics.counter(Metric.POLICY_SUSPENSIONS)
        for result in ("accepted", "refused", "removed"):
            self._reloads.labels(result)  # an alert on an event that has not happened yet needs a series with 0

    def policy_tried(self, status: PolicyStatus) -> None:
        """Counts and logs a new text, with its findings as text for people."""
        self._reloads.labels(status.result.value).inc()
        if status.result is Result.REFUSED:
            self._log.error("policy refused", **_named(status), kept=status.kept, report=status.report)
        elif status.findings or status.now:
            self._log.warning("policy accepted", **_named(status), report=status.told)
        else:
            self._log.info("policy accepted", **_named(status))

    def policy_changed(self, status: PolicyStatus) -> None:
        """Logs that the state of an old text has changed."""
        fares = {**_named(status), "state": status.state, "report": status.report}
        if status.result is Result.REFUSED:
            self._log.error("policy changed", **fares)
        else:
            self._log.info("policy changed", **fares)

    def policy_reviewed(self, status: PolicyStatus, findings: Sequence[Finding]) -> None:
        """Logs what was found on the cluster."""
        self._log.warning("policy warning", **_named(status), report="".join(f"{each.severity}: {each}\n" for each in findings))

    def policy_removed(self, status: PolicyStatus) -> None:
        """Counts and logs the removal."""
        self._reloads.labels("removed").inc()
        self._log.info("policy removed", **_named(status))

    def policy_suspended(self, status: PolicyStatus) -> None:
        """Counts and logs a suspension; logs its end."""
        if status.suspended:
            self._suspensions.labels(status.name or "").inc()
            self._log.warning("policy suspended", **_named(status), why=status.suspended)
        else:
            self._log.info("policy resumed", **_named(status))

    def policies_hold(self, statuses: Sequence[PolicyStatus], seconds: float) -> None:
        """Logs how many policies there are in each state."""
        states = [status.state for status in statuses]
        counts = {state: states.count(state) for state in sorted(set(states))}
        self._log.info("policies hold", seconds=round(seconds, 4), **counts)

    def source_changed(self, status: SourceStatus) -> None:
        """Logs why a source cannot be read, or that it can be again."""
        if status.lost:
            self._log.error("policy source lost", source=status.name, why=status.lost)
        else:
            self._log.info("policy source read", source=status.name)
        for note in status.notes:
            self._log.warning("policy source", source=status.name, note=note)


def _named(status: PolicyStatus) -> dict[str, Any]:
    revision = None if status.revision is None else status.revision[:12]
    return {"policy": status.name, "source": status.source, "key": status.key, "mode": status.mode.value, "revision": revision}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """A change of a policy or of a source.

    `what`: accepted, refused, warned, removed, suspended, resumed; of a source: lost, read again.
    """

    at: float
    what: str
    source: str
    policy: str = ""
    key: str = ""
    mode: str = ""
    revision: str = ""
    kept: bool = False
    report: str = ""


class ReloadHistory(PolicyObserver):
    """The last changes of policies and sources, the newest last."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.reloads: deque[Reload] = deque(maxlen=MOST)

    def policy_tried(self, status: PolicyStatus) -> None:
        """Remembers that a text was accepted or refused."""
        self._add(status, status.result.value, status.attempted)

    def policy_changed(self, status: PolicyStatus) -> None:
        """Remembers that the state of an old text has changed."""
        self._add(status, status.result.value, self._now())

    def policy_reviewed(self, status: PolicyStatus, findings: Sequence[Finding]) -> None:
        """Remembers what was found on the cluster."""
        self._add(replace(status, report="\n".join(map(str, findings))), "warned", self._now())

    def policy_removed(self, status: PolicyStatus) -> None:
        """Remembers that the policy was taken away; its last report is left out."""
        self._add(replace(status, result=Result.ACCEPTED, report=""), "removed", self._now())

    def policy_suspended(self, status: PolicyStatus) -> None:
        """Remembers that the policy was suspended, or is tried again."""
        self._add(status, "suspended" if status.suspended else "resumed", self._now())

    def source_changed(self, status: SourceStatus) -> None:
        """Remembers that a source was lost, or can be read again."""
        what = "lost" if status.lost else "read again"
        self.reloads.append(Reload(at=self._now(), what=what, source=status.name, report=status.lost or "\n".join(status.notes)))

    def _add(self, status: PolicyStatus, what: str, at: float) -> None:
        self.reloads.append(
            Reload(
                at=at,
                what=what,
                source=status.source,
                policy=status.name or "",
                key=status.key,
                mode=status.mode.value,
                revision=status.revision or "",
                kept=status.kept,
                report=status.told[:LONGEST_REPORT],
            )
        )


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
            self._log.info("signal answered again", **_named_signal(query))
        odd = dict(found.oddities)
        for said in odd.keys() - self._odd.get(query.key, frozenset()):
            self._log.warning("signal has odd series", **_named_signal(query), what=said, series=odd[said].count, example=odd[said].example)
        self._odd[query.key] = frozenset(odd)

    def refresh_failed(self, query: Query, error: SignalFailed, seconds: float) -> None:
        """Counts and measures a failure, and logs it unless the refresh before failed in the same way."""
        self._seconds.labels(query.place).observe(seconds)
        self._failures.labels(query.place, error.kind.value).inc()
        if self._failing.get(query.key) != error.kind.value:
            self._failing[query.key] = error.kind.value
            self._log.warning("signal not refreshed", **_named_signal(query), kind=error.kind.value, why=str(error))

    def suspended(self, what: Suspension) -> None:
        """Counts and logs a suspension."""
        self._suspensions.labels(what.policy, what.metric.name).inc()
        self._suspended.add((what.policy, what.metric.name))
        self._log.warning("metric suspended", **_told(what))

    def resumed(self, what: Suspension) -> None:
        """Logs that a metric is used again."""
        self._log.info("metric resumed", **_told(what))


def _named_signal(query: Query) -> dict[str, Any]:
    return {"metrics": ", ".join(query.users), "server": query.place, "query": query.text}


def _told(what: Suspension) -> dict[str, Any]:
    return {"policy": what.policy, "metric": what.metric.name, "why": str(what), "coverage": round(what.coverage, 3)}
