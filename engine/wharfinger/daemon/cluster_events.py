"""Kubernetes events about policies and their metrics, on the objects that hold the policies. Only the leader records them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wharfinger.framework.policy_status import Finding, PolicyObserver, PolicyStatus, Result
from wharfinger.framework.ports import NORMAL, WARNING, Event
from wharfinger.kube.events import EventRecorder
from wharfinger.policies.store import PolicyStore
from wharfinger.signals.mapping import Mapped
from wharfinger.signals.ports import SignalFailed, SignalObserver
from wharfinger.signals.query import Query
from wharfinger.signals.refreshing import Suspension

RELOAD = "Reload"


class PolicyEvents(PolicyObserver):
    """Records events about the objects that hold policies.

    Only the replica that `leads` records.
    """

    def __init__(self, recorder: EventRecorder, leads: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._leads = leads

    def policy_tried(self, status: PolicyStatus) -> None:
        """Records whether the new text holds, and if not, why."""
        if status.result is Result.REFUSED:
            first = next((str(finding) for finding in status.findings if finding.severity == "error"), "")
            goes_on = "; its former version goes on" if status.kept else ""
            self._record(status, WARNING, "PolicyRefused", f"{first}{goes_on}")
        else:
            subject = "it" if status.revision is None else f"revision {status.revision[:12]}"
            warnings = "".join(f"; {finding.message}" for finding in (*status.findings, *status.now))
            self._record(status, NORMAL, "PolicyAccepted", f"{subject} is {status.state}{warnings}")

    def policy_changed(self, status: PolicyStatus) -> None:
        """Records that the state of an old text has changed."""
        self.policy_tried(status)

    def policy_reviewed(self, status: PolicyStatus, findings: Sequence[Finding]) -> None:
        """Records what was found on the cluster."""
        self._record(status, WARNING, "PolicyWarning", "; ".join(finding.message for finding in findings))

    def policy_removed(self, status: PolicyStatus) -> None:
        """Records that a key of an object that is still there has been removed."""
        if status.about is not None and status.about.kind == "ConfigMap":
            self._record(status, NORMAL, "PolicyRemoved", "removed")

    def policy_suspended(self, status: PolicyStatus) -> None:
        """Records that pods which the policy governs wait, or are tried again."""
        if status.suspended:
            self._record(status, WARNING, "PolicySuspended", status.suspended)
        else:
            self._record(status, NORMAL, "PolicyResumed", "it decides again about pods that it governs")

    def _record(self, status: PolicyStatus, type_: str, reason: str, said: str) -> None:
        if status.about is None or not self._leads():
            return
        note = f"{status.key}: {said}" if status.about.kind == "ConfigMap" else said  # it has several policies; other objects have one
        self._recorder.record_about(status.about, Event(type=type_, reason=reason, action=RELOAD, note=note), distinct=note)


MEASURE = "Measure"


class SignalObservers(SignalObserver):
    """Several observers as one."""

    def __init__(self, observers: Sequence[SignalObserver]) -> None:
        self._observers = observers

    def followed(self, queries: Mapping[str, Query]) -> None:
        """Forwards the event."""
        for observer in self._observers:
            observer.followed(queries)

    def refreshed(self, query: Query, found: Mapped, seconds: float) -> None:
        """Forwards the event."""
        for observer in self._observers:
            observer.refreshed(query, found, seconds)

    def refresh_failed(self, query: Query, error: SignalFailed, seconds: float) -> None:
        """Forwards the event."""
        for observer in self._observers:
            observer.refresh_failed(query, error, seconds)

    def suspended(self, what: Suspension) -> None:
        """Forwards the event."""
        for observer in self._observers:
            observer.suspended(what)

    def resumed(self, what: Suspension) -> None:
        """Forwards the event."""
        for observer in self._observers:
            observer.resumed(what)


class SignalEvents(SignalObserver):
    """Records events about the object that a policy comes from, if it comes from one. Only the replica that `leads` records."""

    def __init__(self, recorder: EventRecorder, policies: PolicyStore, leads: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._policies = policies
        self._leads = leads

    def suspended(self, what: Suspension) -> None:
        """Records the event."""
        self._record(what, WARNING, "MetricsUnavailable", f"{what}; the rules that use it have no say")

    def resumed(self, what: Suspension) -> None:
        """Records the event."""
        self._record(what, NORMAL, "MetricsAvailable", f"{what}; the rules that use it decide again")

    def _record(self, what: Suspension, type_: str, reason: str, note: str) -> None:
        if not self._leads():
            return
        for status in self._policies.statuses:
            is_his = (status.name, status.authority.namespace) == (what.policy, what.authority.namespace)
            if is_his and status.about is not None:  # another's text of that name has been refused
                event = Event(type=type_, reason=reason, action=MEASURE, note=note)
                self._recorder.record_about(status.about, event, distinct=note)
