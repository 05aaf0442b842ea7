"""The phases of a PolicyApp, and its status."""

import pytest

from wharfinger.crd.models import AppPhase, DriftedPod, PolicyAppSpec
from wharfinger.operator.app_status import Governance, Observed, conditions_of, message_of, phase_of, status_of
from wharfinger.operator.controller import with_transition_times

SPEC = PolicyAppSpec(image="web:1", replicas=3)


def deployment(replicas=3, ready=3, updated=3, seen=1, **more):
    return {"observedGeneration": seen, "replicas": replicas, "readyReplicas": ready, "updatedReplicas": updated, **more}


STUCK = [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
CASES = [
    # (what stood before, is the spec new, what there is, what comes)
    (None, True, None, "Pending"),
    (None, True, deployment(0, 0, 0, seen=0), "Pending"),
    ("Pending", False, deployment(3, 0, 3), "Progressing"),
    ("Progressing", False, deployment(3, 2, 3), "Progressing"),
    ("Progressing", False, deployment(), "Running"),
    ("Running", True, deployment(5, 3, 2), "Progressing"),
    ("Running", False, deployment(seen=0), "Progressing"),
    ("Running", False, deployment(3, 2, 3), "Degraded"),
    ("Running", False, deployment(4, 3, 1), "Progressing"),
    ("Degraded", False, deployment(3, 2, 3), "Degraded"),
    ("Degraded", False, deployment(), "Running"),
    ("Degraded", True, deployment(3, 2, 3), "Progressing"),
    ("Progressing", False, deployment(3, 0, 3, conditions=STUCK), "Degraded"),
    ("Failed", False, deployment(), "Running"),
    ("Failed", False, deployment(3, 1, 3), "Progressing"),
]


@pytest.mark.parametrize(("before", "new", "there", "comes"), CASES)
def test_phases_follow_what_there_is(before, new, there, comes):
    observed = Observed(generation=1, deployment=there)

    assert phase_of(SPEC, observed, before=before, spec_is_new=new).value == comes


@pytest.mark.parametrize("before", [None, *(phase.value for phase in AppPhase)])
def test_an_app_that_cannot_be_made_has_failed_in_every_former_phase(before):
    observed = Observed(problem=("Invalid", "no"), generation=1, deployment=deployment())

    assert phase_of(SPEC, observed, before=before, spec_is_new=False) is AppPhase.FAILED
    assert message_of(SPEC, observed, AppPhase.FAILED) == "no"


def test_no_replicas_run():
    none = PolicyAppSpec(image="web:1", replicas=0)

    assert phase_of(none, Observed(generation=1, deployment=deployment(0, 0, 0)), before=None, spec_is_new=True) is AppPhase.RUNNING


def test_the_status_says_what_is_waited_for():
    waiting = Observed(generation=1, deployment=deployment(3, 1, 3), waiting="0/2 nodes are available: 2 Insufficient cpu.")
    lacking = Observed(governance=Governance(policy="gold", governs=False, reason="UnknownPolicy", message="there is none"))

    assert (
        status_of(SPEC, waiting, AppPhase.PROGRESSING)["message"] == "1 of 3 pods are ready; 0/2 nodes are available: 2 Insufficient cpu."
    )
    assert message_of(SPEC, lacking, AppPhase.PENDING) == "waits for its policy: there is none"


def test_drift_is_counted_in_full_and_listed_in_part():
    drift = tuple(DriftedPod(pod=f"web-{i}", node="a", reasons=("no",)) for i in range(80))
    observed = Observed(generation=1, deployment=deployment(), drift=drift)
    status = status_of(SPEC, observed, AppPhase.RUNNING)
    reported = {each.type: each.status for each in conditions_of(SPEC, observed, AppPhase.RUNNING)}

    assert (status["drifted"], len(status["drift"])) == (80, 50)
    assert reported == {"Ready": "True", "Applied": "True", "Governed": "Unknown", "Drifted": "True"}


NOWHERE = Governance(policy="gold", governs=False, reason="OutOfScope", message="it is for others")
DRIFTED = (DriftedPod(pod="web-0", node="a", reasons=("no",)),)
WORST = [
    (Observed(generation=1, deployment=deployment()), AppPhase.RUNNING, "True Running"),
    (Observed(generation=1, deployment=deployment(), governance=NOWHERE), AppPhase.RUNNING, "True OutOfScope it is for others"),
    (Observed(generation=1, deployment=deployment(), drift=DRIFTED, drift_note="gone"), AppPhase.RUNNING, "True Drifted gone"),
    (Observed(generation=1, deployment=deployment(3, 1), drift=DRIFTED), AppPhase.DEGRADED, "False Degraded 1 of 3 pods are ready"),
    (Observed(governance=NOWHERE), AppPhase.PENDING, "False Pending waits for its policy: it is for others"),
    (Observed(problem=("Forbidden", "no such right\nand more")), AppPhase.FAILED, "False Failed no such right"),
    (Observed(problem=("Invalid", "x" * 500)), AppPhase.FAILED, "False Failed " + "x" * 159 + "…"),
]


@pytest.mark.parametrize(("observed", "phase", "reported"), WORST)
def test_the_worst_news_comes_first(observed, phase, reported):
    ready = conditions_of(SPEC, observed, phase)[0]

    assert ready.type == "Ready"
    assert f"{ready.status} {ready.reason} {ready.message}".strip() == reported


NOT_CONDITIONS = [5, "x", {"type": "Ready"}, [None, 3, "Ready", [], {}, {"type": {}}, {"type": "Ready", "status": []}]]
"""What a status may have in place of conditions, if it is that of another version of the definition."""


@pytest.mark.parametrize("found", [*NOT_CONDITIONS, [{"type": "Ready", "status": "True", "lastTransitionTime": {"x": 1}}]])
def test_what_is_no_condition_is_left_out(found):
    running = Observed(generation=1, deployment=deployment())
    (ready, *_) = with_transition_times(conditions_of(SPEC, running, AppPhase.RUNNING), {"conditions": found}, 1, 1000.0)
    assert (ready["status"], ready["lastTransitionTime"]) == ("True", "1970-01-01T00:16:40Z")


@pytest.mark.parametrize("number", ["three", "3", {}, [], None, 3.5])
def test_counts_that_are_no_whole_numbers_count_as_none(number):
    odd = Observed(generation=1, deployment=deployment(number, number, number, seen=number, conditions=5))
    phase = phase_of(SPEC, odd, before="Running", spec_is_new=False)
    assert phase is not AppPhase.RUNNING
    assert status_of(SPEC, odd, phase)["readyReplicas"] == 0


def test_conditions_keep_the_time_of_their_last_transition():
    running = Observed(generation=1, deployment=deployment())
    first = with_transition_times(conditions_of(SPEC, running, AppPhase.RUNNING), {}, 1, 1000.0)
    again = with_transition_times(conditions_of(SPEC, running, AppPhase.RUNNING), {"conditions": first}, 1, 2000.0)
    broken = with_transition_times(conditions_of(SPEC, running, AppPhase.DEGRADED), {"conditions": first}, 1, 2000.0)

    assert again == first
    assert [each["lastTransitionTime"] for each in broken] == ["1970-01-01T00:33:20Z", *(each["lastTransitionTime"] for each in first[1:])]
