"""Kubernetes events about policies and their metrics, on the objects that hold the policies. Only the leader records them."""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.emit import Handlers
from wharfinger.framework.policy_status import PolicyStatus, Result
from wharfinger.framework.ports import NORMAL, WARNING, Event
from wharfinger.kube.events import EventRecorder
from wharfinger.policies.store import (
    PolicyChanged,
    PolicyRemoved,
    PolicyResumed,
    PolicyReviewed,
    PolicyStore,
    PolicySuspended,
    PolicyTried,
)
from wharfinger.signals.refreshing import MetricResumed, MetricSuspended, Suspension

RELOAD = "Reload"


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
        """Records whether a text holds, and if not, why."""
        status = event.status
        if status.result is Result.REFUSED:
            first = next((str(finding) for finding in status.findings if finding.severity == "error"), "")
            goes_on = "; its former version goes on" if status.kept else ""
            self._record(status, WARNING, "PolicyRefused", f"{first}{goes_on}")
        else:
            subject = "it" if status.revision is None else f"revision {status.revision[:12]}"
            warnings = "".join(f"; {finding.message}" for finding in (*status.findings, *status.now))
            self._record(status, NORMAL, "PolicyAccepted", f"{subject} is {status.state}{warnings}")

    def _reviewed(self, event: PolicyReviewed) -> None:
        self._record(event.status, WARNING, "PolicyWarning", "; ".join(finding.message for finding in event.findings))

    def _removed(self, event: PolicyRemoved) -> None:
        """Records that a key of an object that is still there has been removed."""
        status = event.status
        if status.about is not None and status.about.kind == "ConfigMap":
            self._record(status, NORMAL, "PolicyRemoved", "removed")

    def _suspended(self, event: PolicySuspended) -> None:
        self._record(event.status, WARNING, "PolicySuspended", event.status.suspended)

    def _resumed(self, event: PolicyResumed) -> None:
        self._record(event.status, NORMAL, "PolicyResumed", "it decides again about pods that it governs")

    def _record(self, status: PolicyStatus, type_: str, reason: str, said: str) -> None:
        if status.about is None or not self._leads():
            return
        note = f"{status.key}: {said}" if status.about.kind == "ConfigMap" else said  # it has several policies; other objects have one
        self._recorder.record_about(status.about, Event(type=type_, reason=reason, action=RELOAD, note=note), distinct=note)


MEASURE = "Measure"


class SignalEvents:
    """Records events about the object that a policy comes from, if it comes from one. Only the replica that `leads` records."""

    def __init__(self, recorder: EventRecorder, policies: PolicyStore, leads: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._policies = policies
        self._leads = leads
        self.handlers: Handlers = {MetricSuspended: self._suspended, MetricResumed: self._resumed}

    def _suspended(self, event: MetricSuspended) -> None:
        self._record(event.suspension, WARNING, "MetricsUnavailable", f"{event.suspension}; the rules that use it have no say")

    def _resumed(self, event: MetricResumed) -> None:
        self._record(event.suspension, NORMAL, "MetricsAvailable", f"{event.suspension}; the rules that use it decide again")

    def _record(self, what: Suspension, type_: str, reason: str, note: str) -> None:
        if not self._leads():
            return
        for status in self._policies.statuses:
            is_his = (status.name, status.authority.namespace) == (what.policy, what.authority.namespace)
            if is_his and status.about is not None:  # another's text of that name has been refused
                event = Event(type=type_, reason=reason, action=MEASURE, note=note)
                self._recorder.record_about(status.about, event, distinct=note)
