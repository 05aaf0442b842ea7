"""What a preview asks about: no more pods than can be looked up between the decisions of others, whatever a workload asks for."""

import asyncio

import pytest

from tests.unit.runtime.clusters import chain_of, state_of
from wharfinger.crd.preview import MOST_PODS, PlacementPreviewSpec
from wharfinger.errors import UsageError
from wharfinger.language.authority import TenantPolicies, TenantRights
from wharfinger.model.objects_meta import ObjectMeta
from wharfinger.reconcile.preview import conditions_of
from wharfinger.reconcile.preview_answer import Answer
from wharfinger.reconcile.preview_question import Questions

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}


class Judge:
    """Of a cluster with one node."""

    rights = TenantRights()

    def snapshot(self):
        return state_of(1).snapshot()

    def chain_of(self, _name):
        return chain_of()


class Writer:
    """Of an API server with one workload."""

    def __init__(self, **spec):
        self._spec = spec

    async def get(self, _path):
        return {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": TEMPLATE, **self._spec}}


def asked(kind, workload, **question):
    meta = ObjectMeta(name="preview", namespace="shop")
    spec = PlacementPreviewSpec.model_validate({"workloadRef": {"kind": kind, "name": "web"}, **question})
    return asyncio.run(Questions(Judge(), Writer(**workload)).of(meta, spec)).pods


@pytest.mark.parametrize(
    ("kind", "vast"),
    [
        ("Deployment", {"replicas": 2_000_000}),
        ("StatefulSet", {"replicas": MOST_PODS + 1}),
        ("Job", {"parallelism": 2_000_000, "completions": 2_000_000}),
    ],
)
def test_of_a_workload_of_very_many_pods_a_preview_has_to_say_how_many(kind, vast):
    assert len(asked(kind, vast, replicas=MOST_PODS)) == MOST_PODS
    with pytest.raises(UsageError, match=r"more than 1,000 pods.*; say in spec\.replicas how many to place"):
        asked(kind, vast)


TERM = {"labelSelector": {"matchLabels": {"app": "bank"}}, "topologyKey": "kubernetes.io/hostname"}
REACHING = {"namespaces": ["bank"]}, {"namespaceSelector": {}}, {"namespaces": ["shop", "bank"]}


def with_affinity(how, kind, term, rights):
    terms = [term] if how == "required" else [{"weight": 1, "podAffinityTerm": term}]
    affinity = {kind: {f"{how}DuringSchedulingIgnoredDuringExecution": terms}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "affinity": affinity}}
    judge = Judge()
    judge.rights = rights
    spec = PlacementPreviewSpec.model_validate({"template": template})
    return asyncio.run(Questions(judge, Writer()).of(ObjectMeta(name="preview", namespace="shop"), spec)).pods


@pytest.mark.parametrize("reach", REACHING, ids=str)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("how", ["required", "preferred"])
def test_affinity_to_pods_of_other_namespaces_is_not_previewed(how, kind, reach):
    with pytest.raises(UsageError, match="reaches other namespaces"):
        with_affinity(how, kind, {**TERM, **reach}, TenantRights())
    assert with_affinity(how, kind, {**TERM, **reach}, TenantRights(TenantPolicies.TRUSTED))
    assert with_affinity(how, kind, {**TERM, "namespaces": ["shop"]}, TenantRights())
    assert with_affinity(how, kind, TERM, TenantRights())


def test_fields_of_a_template_that_kubernetes_does_not_know_are_told_with_the_answer():
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelectr": {"disk": "ssd"}, "tolerations": [{"keyy": "a"}]}}
    meta, spec = ObjectMeta(name="preview", namespace="shop"), PlacementPreviewSpec.model_validate({"template": template})
    question = asyncio.run(Questions(Judge(), Writer()).of(meta, spec))
    assert question.note.splitlines() == [
        "spec.template.spec.nodeSelectr: unknown field; did you mean nodeSelector?",
        "spec.template.spec.tolerations[0].keyy: unknown field; did you mean key?",
    ]
    ready, answered = conditions_of(Answer(nodes=(), miss=None, policy_revision="r"), question.note)
    assert (ready.message, answered.message) == (question.note.splitlines()[0], question.note)
