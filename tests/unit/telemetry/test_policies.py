"""Changes of policies are counted and logged."""

import pytest
from msgspec.structs import replace

from tests.observed import subscribed
from wharfinger.framework.policy_status import Finding, Mode, PolicyStatus, Result, SourceStatus
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
from wharfinger.telemetry import logs
from wharfinger.telemetry.policies import PolicyTelemetry

RELOADS = "wharfinger_policy_reload_total"
WARNING = Finding(severity="warning", code="trial", message="no pod is governed")
NAMES = {"policy": "p", "source": "folder", "key": "p.policy", "mode": "Enforce", "revision": "0123456789ab"}


def status(result=Result.ACCEPTED, mode=Mode.ENFORCE, revision="0123456789abcdef", findings=(), report=""):
    return PolicyStatus(
        name="p",
        source="folder",
        key="p.policy",
        mode=mode,
        result=result,
        revision=revision,
        version="1",
        since=0.0,
        attempted=0.0,
        generation=0,
        generation_in_force=0,
        findings=findings,
        report=report,
    )


@pytest.fixture
def emit(scene):
    return subscribed(PolicyTelemetry(scene.metrics, logs.log()).handlers).emit


def written(scene, event):
    """The lines of an event: (level, everything else but the time)."""
    lines = scene.lines(event)
    return [(line["level"], {key: value for key, value in line.items() if key not in {"event", "level", "time"}}) for line in lines]


def test_a_suspension_is_counted_and_written(scene, emit):
    emit(PolicySuspended(replace(status(), suspended="it took 50 ms")))
    emit(PolicyResumed(status()))
    assert scene.samples("wharfinger_policy_suspensions_total") == {(("policy", "p"),): 1.0}
    assert written(scene, "policy suspended") == [("warning", {**NAMES, "why": "it took 50 ms"})]
    assert written(scene, "policy resumed") == [("info", NAMES)]


def test_a_policy_that_does_not_exist_any_more_leaves_no_series_of_suspensions(scene, emit):
    for name in ("p", "other"):
        emit(PolicySuspended(replace(status(), name=name, suspended="it took 50 ms")))
    emit(PoliciesReloaded([status()], 0.1))
    assert scene.samples("wharfinger_policy_suspensions_total") == {(("policy", "p"),): 1.0}
    emit(PoliciesReloaded([], 0.1))
    assert scene.samples("wharfinger_policy_suspensions_total") == {}


def test_the_counter_of_every_result_starts_at_zero(scene, emit):
    assert scene.samples(RELOADS) == {(("result", result),): 0.0 for result in ("accepted", "refused", "removed")}


@pytest.mark.parametrize(
    ("tried", "result", "level", "more"),
    [
        (status(), "accepted", "info", {}),
        (status(findings=(WARNING,), report="warning: hm"), "accepted", "warning", {"report": "warning: hm"}),
        (status(Result.REFUSED, report="error: oh"), "refused", "error", {"kept": True, "report": "error: oh"}),
        (
            status(Result.REFUSED, revision=None, report="error: oh"),
            "refused",
            "error",
            {"kept": False, "report": "error: oh", "revision": None},
        ),
    ],
)
def test_a_text_that_was_tried(scene, emit, tried, result, level, more):  # noqa: PLR0917 — the fixtures and the case
    emit(PolicyTried(tried))

    assert scene.value(RELOADS, result=result) == 1
    assert sum(scene.samples(RELOADS).values()) == 1
    assert written(scene, f"policy {result}") == [(level, NAMES | more)]


@pytest.mark.parametrize(
    ("changed", "level", "more"),
    [
        (status(), "info", {"state": "active", "report": ""}),
        (status(mode=Mode.SHADOW), "info", {"mode": "Shadow", "state": "shadow", "report": ""}),
        (status(Result.REFUSED, report="error: oh"), "error", {"state": "kept", "report": "error: oh"}),
    ],
)
def test_a_text_whose_outcome_changes_is_logged_and_is_no_new_text(scene, emit, changed, level, more):
    emit(PolicyChanged(changed))

    assert written(scene, "policy changed") == [(level, NAMES | more)]
    assert sum(scene.samples(RELOADS).values()) == 0


def test_findings_on_the_cluster_are_logged_without_the_report(scene, emit):
    emit(PolicyReviewed(status(findings=(WARNING,), report="all of it"), (WARNING,)))

    assert written(scene, "policy warning") == [("warning", NAMES | {"report": "warning: trial: no pod is governed\n"})]
    assert sum(scene.samples(RELOADS).values()) == 0


def test_a_policy_that_was_removed(scene, emit):
    emit(PolicyRemoved(status()))

    assert scene.value(RELOADS, result="removed") == 1
    assert written(scene, "policy removed") == [("info", NAMES)]


def test_a_reload_says_how_many_policies_are_in_which_state(scene, emit):
    emit(PoliciesReloaded([status(), status(), status(Result.REFUSED), status(mode=Mode.SHADOW)], 0.123456))

    assert written(scene, "policies adopted") == [("info", {"seconds": 0.1235, "active": 2, "kept": 1, "shadow": 1})]


def test_a_source_that_is_lost_and_back(scene, emit):
    emit(SourceChanged(SourceStatus(name="folder", lost="no such folder", notes=(), texts=2)))
    emit(SourceChanged(SourceStatus(name="folder", lost="", notes=("one is mounted by itself",), texts=2)))

    lines = [(line["event"], line["level"], line.get("why"), line.get("note")) for line in scene.lines()]
    assert lines == [
        ("policy source lost", "error", "no such folder", None),
        ("policy source read", "info", None, None),
        ("policy source", "warning", None, "one is mounted by itself"),
    ]
