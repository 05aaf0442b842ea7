"""Reports policies and samples of their metrics: as metrics, log lines, events of Kubernetes, and the history of reloads.

Events are about the objects that hold the policies; only the leader records them. The history is for the live page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.emit import Handlers
from wharfinger.framework.policy_status import PolicyStatus, Result
from wharfinger.framework.ports import NORMAL, WARNING, Event
from wharfinger.kube.events import EventRecorder
from wharfinger.policies.store import (
    PoliciesReloaded,
    PolicyChanged,
    PolicyRemoved,
    PolicyResumed,
    PolicyReviewed,
    PolicyStore,
    PolicySuspended,
    PolicyTried,
    SourceChanged,
)
from wharfinger.signals.query import Query
from wharfinger.signals.refreshing import MetricResumed, MetricSuspended, RefreshFailed, SignalRefreshed, SignalsFollowed, Suspension
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.logs import Log
from wharfinger.telemetry.metrics import Metrics

MAX_RELOADS = 100
MAX_REPORT_LENGTH = 4000
"""Characters."""
RELOAD = "Reload"
MEASURE = "Measure"


class PolicyTelemetry:
    """Counts and logs events of policies."""

    def __init__(self, metrics: Metrics, log: Log) -> None:
        self._log = log
        self._reloads = metrics.counter(Metric.POLICY_RELOADS)
        self._suspensions = metrics.counter(Metric.POLICY_SUSPENSIONS)
        self._once_suspended: set[str] = set()
        for result in ("accepted", "refused", "removed"):
            self._reloads.labels(result)  # an alert on an event that has not happened yet needs a series with 0
        self.handlers: Handlers = {
            PolicyTried: self._tried,
            PolicyChanged: self._changed,
            PolicyReviewed: self._reviewed,
            PolicyRemoved: self._removed,
            PolicySuspended: self._suspended,
            PolicyResumed: lambda event: log.info("policy resumed", **_named(event.status)),
            PoliciesReloaded: self._reloaded,
            SourceChanged: self._source_changed,
        }

    def _tried(self, event: PolicyTried) -> None:
        """Count and log a new text, with its findings as text."""
        status = event.status
        self._reloads.labels(status.result.value).inc()
        if status.result is Result.REFUSED:
            self._log.error("policy refused", **_named(status), kept=status.kept, report=status.report)
        elif status.findings or status.now:
            self._log.warning("policy accepted", **_named(status), report=status.full_report)
        else:
            self._log.info("policy accepted", **_named(status))

    def _changed(self, event: PolicyChanged) -> None:
        status = event.status
        described = {**_named(status), "state": status.state, "report": status.report}
        if status.result is Result.REFUSED:
            self._log.error("policy changed", **described)
        else:
            self._log.info("policy changed", **described)

    def _reviewed(self, event: PolicyReviewed) -> None:
        report = "".join(f"{finding.severity}: {finding}\n" for finding in event.findings)
        self._log.warning("policy warning", **_named(event.status), report=report)

    def _removed(self, event: PolicyRemoved) -> None:
        self._reloads.labels("removed").inc()
        self._log.info("policy removed", **_named(event.status))

    def _suspended(self, event: PolicySuspended) -> None:
        name = event.status.name or ""
        self._suspensions.labels(name).inc()
        self._once_suspended.add(name)
        self._log.warning("policy suspended", **_named(event.status), why=event.status.suspended)

    def _reloaded(self, event: PoliciesReloaded) -> None:
        """Log how many policies there are in each state, and remove the series of policies that do not exist any more."""
        for name in self._once_suspended - {status.name for status in event.statuses}:
            self._suspensions.remove(name)
            self._once_suspended.discard(name)
        states = [status.state for status in event.statuses]
        counts = {state: states.count(state) for state in sorted(set(states))}
        self._log.info("policies adopted", seconds=round(event.seconds, 4), **counts)

    def _source_changed(self, event: SourceChanged) -> None:
        """Log why a source cannot be read, or that it can be again."""
        status = event.status
        if status.lost:
            self._log.error("policy source lost", source=status.name, why=status.lost)
        else:
            self._log.info("policy source read", source=status.name)
        for note in status.notes:
            self._log.warning("policy source", source=status.name, note=note)


def _named(status: PolicyStatus) -> dict[str, Any]:
    revision = None if status.revision is None else status.revision[:12]
    return {"policy": status.name, "source": status.source, "key": status.key, "mode": status.mode.value, "revision": revision}


class Reload(Struct, frozen=True, kw_only=True):
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


class ReloadHistory:
    """The last changes of policies and sources, the newest last."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.reloads: deque[Reload] = deque(maxlen=MAX_RELOADS)
        self.handlers: Handlers = {
            PolicyTried: lambda event: self._add(event.status, event.status.result.value, event.status.attempted),
            PolicyChanged: lambda event: self._add(event.status, event.status.result.value, now()),
            PolicyReviewed: self._reviewed,
            PolicyRemoved: self._removed,
            PolicySuspended: lambda event: self._add(event.status, "suspended", now()),
            PolicyResumed: lambda event: self._add(event.status, "resumed", now()),
            SourceChanged: self._source_changed,
        }

    def _reviewed(self, event: PolicyReviewed) -> None:
        """Remember what was found on the cluster, without the older report."""
        self._add(replace(event.status, report="\n".join(map(str, event.findings))), "warned", self._now())

    def _removed(self, event: PolicyRemoved) -> None:
        """Remember that the policy was taken away; its last report is left out."""
        self._add(replace(event.status, result=Result.ACCEPTED, report=""), "removed", self._now())

    def _source_changed(self, event: SourceChanged) -> None:
        status = event.status
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
                report=status.full_report[:MAX_REPORT_LENGTH],
            )
        )


class SignalTelemetry:
    """Counts, measures, and logs what changes: the first failure of several, and new oddities of series."""

    def __init__(self, metrics: Metrics, log: Log) -> None:
        self._log = log
        self._seconds = metrics.histogram(Metric.SIGNAL_REFRESH_DURATION)
        self._failures = metrics.counter(Metric.SIGNAL_FAILURES)
        self._suspensions = metrics.counter(Metric.SIGNAL_SUSPENSIONS)
        self._failing: dict[str, str] = {}
        self._known_problems: dict[str, frozenset[str]] = {}
        self._suspended: set[tuple[str, str]] = set()
        self.handlers: Handlers = {
            SignalsFollowed: self._followed,
            SignalRefreshed: self._refreshed,
            RefreshFailed: self._refresh_failed,
            MetricSuspended: self._metric_suspended,
            MetricResumed: lambda event: log.info("metric resumed", **_suspension_fields(event.suspension)),
        }

    def _followed(self, event: SignalsFollowed) -> None:
        """Forget other signals, and remove the series of their metrics."""
        queries = event.queries
        self._failing = {key: kind for key, kind in self._failing.items() if key in queries}
        self._known_problems = {key: problems for key, problems in self._known_problems.items() if key in queries}
        used = {user for query in queries.values() for user in query.users}
        for policy, metric in [each for each in self._suspended if f"{each[0]}.{each[1]}" not in used]:
            self._suspensions.remove(policy, metric)
            self._suspended.discard((policy, metric))

    def _refreshed(self, event: SignalRefreshed) -> None:
        """Measure a refresh, and log it if the signal failed before or has new kinds of unusable series."""
        query, found = event.query, event.found
        self._seconds.labels(query.place).observe(event.seconds)
        if self._failing.pop(query.key, None) is not None:
            self._log.info("signal answered again", **_named_signal(query))
        problems = dict(found.problems)
        for problem in problems.keys() - self._known_problems.get(query.key, frozenset()):
            self._log.warning(
                "signal has odd series",
                **_named_signal(query),
                what=problem,
                series=problems[problem].count,
                example=problems[problem].example,
            )
        self._known_problems[query.key] = frozenset(problems)

    def _refresh_failed(self, event: RefreshFailed) -> None:
        """Count and measure a failure, and log it unless the refresh before failed in the same way."""
        query, error = event.query, event.error
        self._seconds.labels(query.place).observe(event.seconds)
        self._failures.labels(query.place, error.kind.value).inc()
        if self._failing.get(query.key) != error.kind.value:
            self._failing[query.key] = error.kind.value
            self._log.warning("signal not refreshed", **_named_signal(query), kind=error.kind.value, why=str(error))

    def _metric_suspended(self, event: MetricSuspended) -> None:
        what = event.suspension
        self._suspensions.labels(what.policy, what.metric.name).inc()
        self._suspended.add((what.policy, what.metric.name))
        self._log.warning("metric suspended", **_suspension_fields(what))


def _named_signal(query: Query) -> dict[str, Any]:
    return {"metrics": ", ".join(query.users), "server": query.place, "query": query.text}


def _suspension_fields(suspension: Suspension) -> dict[str, Any]:
    return {
        "policy": suspension.policy,
        "metric": suspension.metric.name,
        "why": str(suspension),
        "coverage": round(suspension.coverage, 3),
    }


class PolicyEvents:
    """Records events about the objects that hold policies.

    Only the replica that `leads` records.
    """

    def __init__(self, recorder: EventRecorder, leads: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._leads = leads
        self.handlers: Handlers = {
            PolicyTried: self._tried,
            PolicyChanged: self._tried,
            PolicyReviewed: self._reviewed,
            PolicyRemoved: self._removed,
            PolicySuspended: self._suspended,
            PolicyResumed: self._resumed,
        }

    def _tried(self, event: PolicyTried | PolicyChanged) -> None:
        """Record whether a text holds, and if not, why."""
        status = event.status
        if status.result is Result.REFUSED:
            first = next((str(finding) for finding in status.findings if finding.severity == "error"), "")
            goes_on = "; its former version stays in force" if status.kept else ""
            self._record(status, WARNING, "PolicyRefused", f"{first}{goes_on}")
        else:
            subject = "it" if status.revision is None else f"revision {status.revision[:12]}"
            warnings = "".join(f"; {finding.message}" for finding in (*status.findings, *status.now))
            self._record(status, NORMAL, "PolicyAccepted", f"{subject} is {status.state}{warnings}")

    def _reviewed(self, event: PolicyReviewed) -> None:
        self._record(event.status, WARNING, "PolicyWarning", "; ".join(finding.message for finding in event.findings))

    def _removed(self, event: PolicyRemoved) -> None:
        """Record that a key of an object that is still there has been removed."""
        status = event.status
        if status.about is not None and status.about.kind == "ConfigMap":
            self._record(status, NORMAL, "PolicyRemoved", "removed")

    def _suspended(self, event: PolicySuspended) -> None:
        self._record(event.status, WARNING, "PolicySuspended", event.status.suspended)

    def _resumed(self, event: PolicyResumed) -> None:
        self._record(event.status, NORMAL, "PolicyResumed", "it decides again about pods that it governs")

    def _record(self, status: PolicyStatus, type_: str, reason: str, message: str) -> None:
        if status.about is None or not self._leads():
            return
        # a ConfigMap has several policies; other objects have one
        note = f"{status.key}: {message}" if status.about.kind == "ConfigMap" else message
        self._recorder.record_about(status.about, Event(type=type_, reason=reason, action=RELOAD, note=note), distinct=note)


class SignalEvents:
    """Records events about the object that a policy comes from, if it comes from one. Only the replica that `leads` records."""

    def __init__(self, recorder: EventRecorder, policies: PolicyStore, leads: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._policies = policies
        self._leads = leads
        self.handlers: Handlers = {MetricSuspended: self._suspended, MetricResumed: self._resumed}

    def _suspended(self, event: MetricSuspended) -> None:
        self._record(event.suspension, WARNING, "MetricsUnavailable", f"{event.suspension}; the rules that use it are suspended")

    def _resumed(self, event: MetricResumed) -> None:
        self._record(event.suspension, NORMAL, "MetricsAvailable", f"{event.suspension}; the rules that use it decide again")

    def _record(self, suspension: Suspension, type_: str, reason: str, note: str) -> None:
        if not self._leads():
            return
        for status in self._policies.named(suspension.policy):
            is_his = status.authority.namespace == suspension.authority.namespace
            if is_his and status.about is not None:  # another's text of that name has been refused
                event = Event(type=type_, reason=reason, action=MEASURE, note=note)
                self._recorder.record_about(status.about, event, distinct=note)
