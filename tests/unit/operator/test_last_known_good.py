"""The version in force is stored in the status of its resource, and read from there after a start without state."""

from datetime import UTC, datetime

import pytest

from wharfinger.crd.models import MAX_REPEATED_LENGTH
from wharfinger.framework.policy_status import FormerText, Mode, PolicyStatus, Result
from wharfinger.kube.custom_resources import SchedulingPolicy
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.operator.scheduling_policy import last_known_good, remembered, text_of

SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GOOD = {"source": 'policy "p"\n', "generation": 3, "since": "2026-01-02T03:04:05Z", "params": {"keep": "10%"}}
FORMER = FormerText(content=b'policy "p"\n', params={"keep": "10%"}, generation=3, since=SINCE.timestamp())


def found(text, revision="r"):
    return PolicyStatus(
        name="p",
        source="schedulingpolicies",
        key="p",
        mode=Mode.ENFORCE,
        result=Result.REFUSED,
        revision=revision,
        version=None,
        since=0.0,
        attempted=0.0,
        generation=4,
        generation_in_force=3,
        text_in_force=text,
    )


def test_the_written_version_is_read_back():
    written = last_known_good(found(FORMER), {})

    assert written == GOOD
    assert remembered({"lastKnownGood": written}) == FORMER


def test_without_params_none_are_written():
    assert "params" not in last_known_good(found(FormerText(content=b"x")), {})


def test_while_nothing_holds_what_was_written_before_stays():
    assert last_known_good(found(None, revision=None), {"lastKnownGood": GOOD}) == GOOD
    assert last_known_good(found(None, revision=None), {}) is None


@pytest.mark.parametrize(("more", "kept"), [(0, True), (1, False)])
def test_a_text_that_is_too_long_is_not_repeated(more, kept):
    long = FormerText(content=b"#" * (MAX_REPEATED_LENGTH + more))

    assert (last_known_good(found(long), {"lastKnownGood": GOOD}) is not None) is kept


@pytest.mark.parametrize(
    "status",
    [{}, {"lastKnownGood": None}, {"lastKnownGood": "x"}, {"lastKnownGood": {"source": "x"}}, {"lastKnownGood": {**GOOD, "since": "?"}}],
)
def test_an_unreadable_version_is_none(status):
    assert remembered(status) is None


@pytest.mark.parametrize("spec", [{"source": "broken"}, {"sauce": "no text at all"}])
def test_the_source_of_policies_offers_it_with_the_text(spec):
    policy = SchedulingPolicy(metadata=ObjectMeta(name="p", generation=4), spec=spec, status={"lastKnownGood": GOOD})

    assert text_of(policy, TenantRights()).former == FORMER
