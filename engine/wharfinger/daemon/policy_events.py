"""What becomes of policies, as Kubernetes events on the objects that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wharfinger.framework.policy_status import Finding, PolicyStatus, Result, SourceStatus
from wharfinger.framework.ports import NORMAL, WARNING, Event
from wharfinger.kube.events import EventRecorder

ACTION = "Reload"


class PolicyEvents:
    """A PolicyObserver that records events about the objects that hold policies.

    Of several replicas the one that `leads` tells.
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
        """Records how a text that is not new fares now."""
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

    def policies_hold(self, statuses: Sequence[PolicyStatus], seconds: float) -> None:
        """None; nobody wants an event of every reload."""

    def source_changed(self, status: SourceStatus) -> None:
        """None; a ConfigMap that is gone has no events."""

    def _record(self, status: PolicyStatus, type_: str, reason: str, said: str) -> None:
        if status.about is None or not self._leads():
            return
        note = f"{status.key}: {said}" if status.about.kind == "ConfigMap" else said  # it has several policies; other objects have one
        self._recorder.record_about(status.about, Event(type=type_, reason=reason, action=ACTION, note=note), distinct=note)
