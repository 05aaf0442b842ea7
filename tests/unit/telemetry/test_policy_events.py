"""The leader records changes of policies as events on the objects that contain them."""

import pytest
from msgspec.structs import replace

from tests.observed import subscribed
from wharfinger.framework.policy_status import Finding, Mode, PolicyStatus, Result, SourceStatus
from wharfinger.framework.ports import Reference
from wharfinger.policies.store import (
    PoliciesReloaded,
    PolicyChanged,
    PolicyRemoved,
    PolicyResumed,
    PolicyReviewed,
    PolicySuspended,
    PolicyTried,
    SourceChanged,
)
from wharfinger.telemetry.policies import PolicyEvents

MAP = Reference(kind="ConfigMap", namespace="default", name="policies", uid="u")
RESOURCE = Reference(kind="SchedulingPolicy", name="p.policy", uid="v", api_version="scheduling.wharfinger.dev/v1alpha1")
APP = Reference(kind="PolicyApp", namespace="shop", name="p", uid="w", api_version="scheduling.wharfinger.dev/v1alpha1")
ERROR = Finding(severity="error", code="P100", message="unexpected `)`", file="f", line=2, column=3)
WARNING = Finding(severity="warning", code="trial", message="p rejects all 3 nodes")


class Recorded:
    def __init__(self):
        self.events = []

    def record_about(self, about, event, *, distinct):
        self.events.append((about, event.type, event.reason, event.action, event.note))
        assert distinct == event.note  # another text of the same policy is no repetition


def record(recorder, *events, leads=True):
    for event in events:
        subscribed(PolicyEvents(recorder, lambda: leads).handlers).emit(event)


def status(*findings, revision="0123456789abcdef", mode=Mode.ENFORCE, about=MAP):
    refused = any(finding.severity == "error" for finding in findings)
    return PolicyStatus(
        name="p",
        source="configmap default/policies",
        key="p.policy",
        mode=mode,
        result=Result.REFUSED if refused else Result.ACCEPTED,
        revision=revision,
        version="1",
        since=0.0,
        attempted=0.0,
        generation=0,
        generation_in_force=0,
        findings=findings,
        about=about,
    )


CASES = [
    (status(), "Normal", "PolicyAccepted", "p.policy: revision 0123456789ab is active"),
    (status(mode=Mode.SHADOW), "Normal", "PolicyAccepted", "p.policy: revision 0123456789ab is shadow"),
    (status(WARNING), "Normal", "PolicyAccepted", "p.policy: revision 0123456789ab is active; p rejects all 3 nodes"),
    (status(WARNING, ERROR), "Warning", "PolicyRefused", "p.policy: f:2:3: P100: unexpected `)`; its former version stays in force"),
    (status(ERROR, revision=None), "Warning", "PolicyRefused", "p.policy: f:2:3: P100: unexpected `)`"),
    (status(about=RESOURCE), "Normal", "PolicyAccepted", "revision 0123456789ab is active"),
    (status(about=RESOURCE, mode=Mode.OFF, revision=None), "Normal", "PolicyAccepted", "it is off"),
    (status(ERROR, about=RESOURCE), "Warning", "PolicyRefused", "f:2:3: P100: unexpected `)`; its former version stays in force"),
    (status(ERROR, about=APP, revision=None), "Warning", "PolicyRefused", "f:2:3: P100: unexpected `)`"),
]


def test_findings_on_the_cluster_become_an_event():
    recorder = Recorded()
    record(recorder, PolicyReviewed(status(WARNING), (WARNING,)))
    assert recorder.events == [(MAP, "Warning", "PolicyWarning", "Reload", "p.policy: p rejects all 3 nodes")]


def test_a_policy_that_takes_over_is_accepted_though_its_text_is_not_new():
    recorder = Recorded()
    record(recorder, PolicyChanged(status()))
    assert [event[2:] for event in recorder.events] == [("PolicyAccepted", "Reload", "p.policy: revision 0123456789ab is active")]


@pytest.mark.parametrize(("tried", "type_", "reason", "note"), CASES)
def test_a_text_that_was_tried(tried, type_, reason, note):
    recorder = Recorded()

    record(recorder, PolicyTried(tried))

    assert recorder.events == [(tried.about, type_, reason, "Reload", note)]


@pytest.mark.parametrize(
    ("found", "type_", "reason", "note"),
    [
        (replace(status(), suspended="it took 50 ms"), "Warning", "PolicySuspended", "p.policy: it took 50 ms"),
        (status(about=RESOURCE), "Normal", "PolicyResumed", "it decides again about pods that it governs"),
    ],
)
def test_a_policy_that_is_suspended_or_tried_again(found, type_, reason, note):
    recorder = Recorded()

    record(recorder, PolicySuspended(found) if found.suspended else PolicyResumed(found))

    assert recorder.events == [(found.about, type_, reason, "Reload", note)]


def test_a_key_that_was_removed():
    recorder = Recorded()

    record(recorder, PolicyRemoved(status()))

    assert recorder.events == [(MAP, "Normal", "PolicyRemoved", "Reload", "p.policy: removed")]


def test_a_resource_that_was_removed_has_no_events():
    recorder = Recorded()

    record(recorder, PolicyRemoved(status(about=RESOURCE)))

    assert recorder.events == []


@pytest.mark.parametrize(("about", "leads"), [(MAP, False), (RESOURCE, False), (None, True)])
def test_no_event_is_written_by_a_standby_or_about_files(about, leads):
    recorder = Recorded()
    record(recorder, PolicyTried(status(ERROR, about=about)), PolicyRemoved(status(about=about)), leads=leads)

    assert recorder.events == []


def test_a_reload_and_a_changed_source_write_no_event():
    recorder = Recorded()
    record(
        recorder,
        PoliciesReloaded([status()], 0.1),
        SourceChanged(SourceStatus(name="configmap default/policies", lost="it has been deleted", notes=(), texts=1)),
    )

    assert recorder.events == []
