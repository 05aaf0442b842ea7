"""The conditions of a PlacementPreview: the worst first."""

import pytest
from pydantic import ValidationError

from wharfinger.crd.models import PlacementPreviewSpec
from wharfinger.errors import InvalidObject, UnknownObject, UsageError
from wharfinger.kube.refusals import Forbidden
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.semantics.authority import CLUSTER
from wharfinger.operator.preview import compiled, conditions_of, unanswered
from wharfinger.operator.preview_answer import Answer, Miss

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
def test_an_answer(miss, note, reported):
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
