"""The conditions of a PlacementPreview: the worst first."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from tests.in_memory import ManualClock
from wharfinger.crd.models import PlacementPreviewSpec
from wharfinger.errors import InvalidObject, UnknownObject, UsageError
from wharfinger.kube.api_errors import Forbidden
from wharfinger.kube.custom_resources import PlacementPreview
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.semantics.authority import CLUSTER
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.operator.preview import (
    FIRST_ANSWER_CREDIT,
    FIRST_ANSWERS_CREDIT,
    PAUSE_RATIO,
    Pauses,
    PreviewReconciler,
    compiled,
    conditions_of,
    unanswered,
)
from wharfinger.operator.preview_answer import Answer, Miss

SHOP, BANK = "shop", "bank"
NONE = Miss(message="0/2 nodes are available: 2 Insufficient cpu.", rules=(), nearest=None)


def invalid(spec):
    with pytest.raises(ValidationError) as caught:
        PlacementPreviewSpec.model_validate(spec)
    return caught.value


def broken(text):
    with pytest.raises(PolicyError) as caught:
        compiled(text, {}, CLUSTER)
    return caught.value


def shown(conditions):
    ready, answered = conditions
    assert (ready.type, answered.type) == ("Ready", "Answered")
    return f"{ready.status} {ready.reason} {ready.message}".strip(), answered.status


@pytest.mark.parametrize(
    ("miss", "note", "reported"),
    [
        (None, "", "True Answered"),
        (None, "the answer is for wharfinger", "True Answered the answer is for wharfinger"),
        (NONE, "the answer is for wharfinger", f"True Unschedulable {NONE.message}"),
    ],
)
def test_an_answer_is_a_condition_with_the_reason_if_pods_have_no_place(miss, note, reported):
    assert shown(conditions_of(Answer(nodes=(), miss=miss, policy_revision="r"), note)) == (reported, "True")


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (UnknownObject("there is no Job none in namespace default"), "UnknownObject there is no Job none in namespace default"),
        (UsageError("more than 1,000 pods"), "InvalidQuestion more than 1,000 pods"),
        (InvalidObject("template: spec.containers: expected an array"), "InvalidQuestion template: spec.containers: expected an array"),
        (Forbidden("jobs are forbidden", status=403, reason="Forbidden"), "Forbidden jobs are forbidden"),
        (invalid({"replicas": 0}), "InvalidQuestion spec.replicas: Input should be greater than or equal to 1"),
        (broken('policy "p"\nscore s = nod.x\n'), "InvalidPolicy policy:2:11: P301: there is no `nod`"),
    ],
)
def test_a_question_that_cannot_be_answered(error, reported):
    assert shown(unanswered(error)) == (f"False {reported}", "False")


def test_answers_are_renewed_after_a_pause():
    rests = Pauses()
    assert rests.left(SHOP, 100.0, is_new=False) <= 0
    rests.add(SHOP, 100.0, 101.0)
    assert rests.left(SHOP, 101.0, is_new=False) == rests.left(BANK, 101.0, is_new=False) == PAUSE_RATIO


def test_many_new_questions_of_one_namespace_wait_and_those_of_another_do_not():
    rests, now = Pauses(), 100.0
    while rests.left(SHOP, now, is_new=True) <= 0:
        rests.add(SHOP, now, now + 0.1)
        now += 0.1
    assert now - 100.0 < FIRST_ANSWER_CREDIT
    assert rests.left(BANK, now, is_new=True) <= 0


def test_new_questions_of_many_namespaces_wait_too():
    rests, now = Pauses(), 100.0
    for number in range(1000):
        if rests.left(f"n{number}", now, is_new=True) > 0:
            break
        rests.add(f"n{number}", now, now + 1.0)
        now += 1.0
    assert now - 100.0 <= FIRST_ANSWERS_CREDIT / (PAUSE_RATIO - 1)


class OnePreview:
    """A preview in memory, which cannot be answered: its cache, the writer of its status, and its questions."""

    def __init__(self, created, ttl):
        metadata = ObjectMeta(name="p", namespace=SHOP, uid="u", generation=1, creation_timestamp=datetime.fromtimestamp(created, UTC))
        self.found = PlacementPreview(metadata=metadata, spec={"ttlSeconds": ttl})

    def get(self, _kind, _key):
        return self.found

    async def delete(self, _preview):
        self.found = None

    async def apply_status(self, _preview, _status):
        pass

    async def of(self, *_):
        raise UsageError("it cannot be answered")


@pytest.mark.parametrize("created", [0.0, 86_400.0], ids=["created now", "created in the future"])
@pytest.mark.parametrize("put_back", [0.0, 86_400.0], ids=["the time of day goes on", "the time of day is put back"])
def test_a_preview_expires_after_its_time(created, put_back):
    clock = ManualClock()
    preview = OnePreview(clock.now() + created, ttl=60)
    previews = PreviewReconciler(preview, preview, SimpleNamespace(revision=1), preview, clock)

    async def story():
        assert await previews.reconcile("shop/p") > 0
        clock.jump(-put_back)
        clock.move(58.0)
        assert await previews.reconcile("shop/p") == pytest.approx(2.0)
        clock.move(2.0)
        assert await previews.reconcile("shop/p") is None
        assert preview.found is None

    asyncio.run(story())
