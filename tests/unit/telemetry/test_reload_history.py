"""The recent changes of policies, for people."""

from tests.observed import subscribed
from tests.unit.telemetry.test_policies import WARNING, status
from wharfinger.framework.policy_status import Result
from wharfinger.policies.store import PolicyChanged, PolicyRemoved, PolicyReviewed, PolicyTried
from wharfinger.telemetry.policies import ReloadHistory


def entries(*events):
    """The entries for some events."""
    history = ReloadHistory(lambda: 7.0)
    for event in events:
        subscribed(history.handlers).emit(event)
    return [(each.at, each.what, each.kept, each.report) for each in history.reloads]


KEPT = status(Result.REFUSED, report="error: oh")


def test_a_refused_text_is_shown_with_the_version_in_force():
    assert entries(PolicyTried(KEPT)) == [(0.0, "refused", True, "error: oh")]


def test_a_removed_policy_has_no_version_in_force():
    assert entries(PolicyRemoved(KEPT)) == [(7.0, "removed", False, "")]


def test_a_policy_that_takes_over_does_so_now():
    assert entries(PolicyChanged(status())) == [(7.0, "accepted", False, "")]


def test_findings_on_the_cluster_are_shown_without_the_report():
    assert entries(PolicyReviewed(status(report="error: old"), (WARNING,))) == [(7.0, "warned", False, "trial: no pod is governed")]
