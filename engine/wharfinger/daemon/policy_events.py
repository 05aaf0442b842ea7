"""What becomes of policies, as Kubernetes events on the objects that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wharfinger.framework.policy_status import PolicyStatus, Result, SourceStatus
from wharfinger.framework.ports import NORMAL, WARNING, Event
from wharfinger.kube.events import EventRecorder

ACTION = "Reload"


class PolicyEvents:
    """A PolicyObserver that records events about ConfigMaps; what concerns a custom resource is told by its reconciler.

    Of several replicas the one that `leads` tells.
    """

    def __init__(self, recorder: EventRecorder, leads: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._leads = leads

    def policy_tried(self, status: PolicyStatus) -> None:
        """None; an event says whether the new text holds, and if not, why."""
        if status.result is Result.REFUSED:
            first = next((str(finding) for finding in status.findings if finding.severity == "error"), "")
            goes_on = "; its former version goes on" if status.kept else ""
            self._record(status, WARNING, "PolicyRefused", f"{status.key}: {first}{goes_on}")
        else:
            revision = (status.revision or "")[:12]
            warnings = "".join(f"; {finding.message}" for finding in status.findings)
            self._record(status, NORMAL, "PolicyAccepted", f"{status.key}: revision {revision} is {status.state}{warnings}")

    def policy_removed(self, status: PolicyStatus) -> None:
        """None; an event says so."""
        self._record(status, NORMAL, "PolicyRemoved", f"{status.key}: removed")

    def policies_hold(self, statuses: Sequence[PolicyStatus], seconds: float) -> None:
        """None; nobody wants an event of every reload."""

    def source_changed(self, status: SourceStatus) -> None:
        """None; a ConfigMap that is gone has no events."""

    def _record(self, status: PolicyStatus, type_: str, reason: str, note: str) -> None:
        if status.about is not None and status.about.kind == "ConfigMap" and self._leads():
            event = Event(type=type_, reason=reason, action=ACTION, note=note)
            self._recorder.record_about(status.about, event, distinct=note)
