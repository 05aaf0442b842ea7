"""The pods of a preview: limited so that they can be decided between other decisions, for any number of replicas."""

import asyncio
import threading
import tracemalloc

import pytest

from tests.in_memory import ManualClock
from tests.unit.simulate.clusters import chain_of, policy, state_of
from wharfinger.crd.models import MAX_PODS, PlacementPreviewSpec
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework.chain import assemble
from wharfinger.language.semantics.authority import Authority, TenantPolicies, TenantRights
from wharfinger.model import objects
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.reading import workloads
from wharfinger.model.reading.workloads import MADE_PER_POD
from wharfinger.operator.preview import conditions_of
from wharfinger.operator.preview_answer import Answer, WhatIf
from wharfinger.operator.preview_question import Questions
from wharfinger.what_if.supposed_changes import NodesLike

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}


class Checks:
    """Checks on a cluster with one node, a priority class, and the policies of a chain."""

    rights = TenantRights()
    clock = ManualClock()

    def __init__(self, chain=None):
        self.chain = chain_of() if chain is None else chain

    def snapshot(self):
        state = state_of(1)
        state.put(objects.PriorityClass(metadata=objects.ObjectMeta(name="gold"), value=1000))
        return state.snapshot()

    def chain_of(self, _name):
        return self.chain

    def chains(self):
        return [self.chain]

    def held_back(self, chain):
        return chain


class Writer:
    """A writer of an API server with one workload."""

    def __init__(self, **spec):
        self._spec = spec

    async def get(self, _path):
        return {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": TEMPLATE, **self._spec}}


def asked(kind, workload, **question):
    meta = ObjectMeta(name="preview", namespace="shop")
    spec = PlacementPreviewSpec.model_validate({"workloadRef": {"kind": kind, "name": "web"}, **question})
    return asyncio.run(Questions(Checks(), Writer(**workload)).of(meta, spec)).pods


@pytest.mark.parametrize(
    ("kind", "vast"),
    [
        ("Deployment", {"replicas": 2_000_000}),
        ("StatefulSet", {"replicas": MAX_PODS + 1}),
        ("Job", {"parallelism": 2_000_000, "completions": 2_000_000}),
    ],
)
def test_a_preview_of_a_workload_with_very_many_pods_must_name_their_number(kind, vast):
    assert len(asked(kind, vast, replicas=MAX_PODS)) == MAX_PODS
    with pytest.raises(UsageError, match=r"(more than 1,000|has 2,000,000) pods.*; set spec\.replicas to the number to place"):
        asked(kind, vast)


def test_claims_of_a_workload_are_limited_too():
    """A StatefulSet of 1 MB has 15,000 templates of claims, and each of its pods has a claim of each."""
    templates = [{"metadata": {"name": f"c{number}"}} for number in range(MADE_PER_POD + 1)]
    assert len(asked("StatefulSet", {"volumeClaimTemplates": templates[:-1]}, replicas=MAX_PODS - 1)) == MAX_PODS - 1
    with pytest.raises(UsageError, match=r"more than 10,000 other objects; PersistentVolumeClaim .*; set spec\.replicas to the number"):
        asked("StatefulSet", {"volumeClaimTemplates": templates}, replicas=MAX_PODS)


def test_pods_are_made_while_the_scheduler_goes_on(monkeypatch):
    """Pods of a StatefulSet have specs of their own; a thousand of two thousand containers take seconds."""
    threads = []
    original = workloads.expand
    monkeypatch.setattr(workloads, "expand", lambda *given, **more: threads.append(threading.current_thread()) or original(*given, **more))
    asked("StatefulSet", {}, replicas=2)
    assert threads
    assert threading.main_thread() not in threads


TERM = {"labelSelector": {"matchLabels": {"app": "bank"}}, "topologyKey": "kubernetes.io/hostname"}
REACHING = {"namespaces": ["bank"]}, {"namespaceSelector": {}}, {"namespaces": ["shop", "bank"]}


def with_affinity(how, kind, term, rights):
    terms = [term] if how == "required" else [{"weight": 1, "podAffinityTerm": term}]
    affinity = {kind: {f"{how}DuringSchedulingIgnoredDuringExecution": terms}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "affinity": affinity}}
    checks = Checks()
    checks.rights = rights
    spec = PlacementPreviewSpec.model_validate({"template": template})
    return asyncio.run(Questions(checks, Writer()).of(ObjectMeta(name="preview", namespace="shop"), spec)).pods


@pytest.mark.parametrize("reach", REACHING, ids=str)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("how", ["required", "preferred"])
def test_affinity_to_pods_of_other_namespaces_is_not_previewed(how, kind, reach):
    with pytest.raises(UsageError, match="reaches other namespaces"):
        with_affinity(how, kind, {**TERM, **reach}, TenantRights())
    assert with_affinity(how, kind, {**TERM, **reach}, TenantRights(TenantPolicies.TRUSTED))
    assert with_affinity(how, kind, {**TERM, "namespaces": ["shop"]}, TenantRights())
    assert with_affinity(how, kind, TERM, TenantRights())


def test_a_template_that_is_very_large_is_not_previewed():
    """Each of up to 1,000 decisions costs what its pods have, and no other pod is placed meanwhile."""
    tolerations = [{"key": f"key-{i}", "operator": "Exists"} for i in range(2000)]
    assert len(question(pod_spec={"tolerations": tolerations[:1000]}).pods) == 1
    with pytest.raises(UsageError, match=r"the template of the pods has [67]\d,\d{3} bytes; at most 65,536 are previewed"):
        question(pod_spec={"tolerations": tolerations})
    with pytest.raises(UsageError, match="at most 65,536 are previewed"):
        asked("Deployment", {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "tolerations": tolerations}}})


def test_a_template_that_is_nested_very_deeply_is_not_previewed():
    """It can be read from the API server, but not written any more where more functions are being called."""
    field = {}
    for _ in range(2000):
        field = {"a": field}
    spec = PlacementPreviewSpec.model_construct(template={**TEMPLATE, "spec": {"x": field}})
    with pytest.raises(UsageError, match="nested too deeply"):
        asyncio.run(Questions(Checks(), Writer()).of(ObjectMeta(name="preview", namespace="shop"), spec))


def test_unknown_fields_of_a_template_are_reported_with_the_answer():
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelectr": {"disk": "ssd"}, "tolerations": [{"keyy": "a"}]}}
    meta, spec = ObjectMeta(name="preview", namespace="shop"), PlacementPreviewSpec.model_validate({"template": template})
    asked = asyncio.run(Questions(Checks(), Writer()).of(meta, spec))
    assert asked.note.splitlines() == [
        "spec.template.spec.nodeSelectr: unknown field; did you mean nodeSelector?",
        "spec.template.spec.tolerations[0].keyy: unknown field; did you mean key?",
    ]
    ready, answered = conditions_of(Answer(nodes=(), miss=None, policy_revision="r"), asked.note)
    assert (ready.message, answered.message) == (asked.note.splitlines()[0], asked.note)


def question(checks=None, pod_spec=None, **spec):
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], **(pod_spec or {})}}
    meta = ObjectMeta(name="preview", namespace="shop")
    asked = Questions(checks or Checks(), Writer()).of(meta, PlacementPreviewSpec.model_validate({"template": template, **spec}))
    return asyncio.run(asked)


@pytest.mark.parametrize(("pod_spec", "priority"), [({}, 0), ({"priorityClassName": "gold"}, 1000), ({"priority": 0}, 0)], ids=str)
def test_pods_have_the_priority_of_their_class(pod_spec, priority):
    assert question(pod_spec=pod_spec).pods[0].priority == priority
    assert question(pod_spec={**pod_spec, "priority": priority}).pods[0].priority == priority


@pytest.mark.parametrize("pod_spec", [{"priority": 17}, {"priorityClassName": "gold", "priority": 17}, {"priority": -1}], ids=str)
def test_no_preview_is_for_a_priority_that_no_class_gives(pod_spec):
    with pytest.raises(UsageError, match=r"the pods' priority is -?\d+, where their class gives \d+; leave out `priority`"):
        question(pod_spec=pod_spec)


def named(name, namespace=None, score=1):
    return policy(f'policy "{name}"\nscore s = {score}\n', Authority(namespace))


def test_the_revision_shows_nothing_of_policies_of_other_namespaces():
    ours = [named("cluster"), named("shop.web", "shop")]
    chains = [assemble(ours), *(assemble([*ours, named("bank.vault", "bank", score)]) for score in (1, 2))]
    assert {question(Checks(chain)).chain.policy_revision for chain in chains} == {chains[0].policy_revision}
    assert chains[1].policy_revision != chains[2].policy_revision
    assert question(Checks(chains[0])).chain is chains[0]


def test_two_policies_of_one_name_tell_nothing_of_where_the_scheduler_has_its_own_from():
    both = [{"name": "cluster"}, {"source": 'policy "cluster"\nscore s = 1\n'}]
    with pytest.raises(UsageError) as caught:
        question(Checks(assemble([named("cluster")])), policies=both)
    assert str(caught.value) == 'two of the policies to try are called "cluster"; rename one of them'


def test_a_policy_of_another_namespace_is_answered_like_one_that_does_not_exist():
    checks = Checks(assemble([named("cluster"), named("shop.web", "shop"), named("bank.vault", "bank")]))
    assert [policy.name for policy in question(checks, policies=[{"name": "shop.web"}]).chain.policies] == ["shop.web"]
    for name in ("bank.vault", "bank.none"):
        with pytest.raises(UnknownObject) as caught:
            question(checks, policies=[{"name": name}])
        assert str(caught.value) == f'there is no active policy "{name}"'


def test_pods_of_a_template_are_those_of_a_deployment_which_kubernetes_spreads():
    found = question(replicas=2)
    [owner] = found.made
    assert isinstance(owner, objects.ReplicaSet)
    for pod in found.pods:
        assert (pod.controller.kind, pod.controller.name) == ("ReplicaSet", owner.metadata.name)
        assert owner.spec.selector.match_labels.items() <= pod.labels.items()
        assert "pod-template-hash" in owner.spec.selector.match_labels


def test_params_are_refused_for_a_policy_that_is_named():
    with pytest.raises(UsageError, match="`params` are for the policy of `source`"):
        question(policies=[{"name": "team-a", "params": {"spare": "10%"}}])


def test_supposed_changes_are_part_of_the_question():
    supposed = question(nodes=[{"like": "node-a", "count": 3}], capacity=True).what_if
    assert supposed == WhatIf(nodes=(NodesLike(model="node-a", count=3),), capacity=True)


def test_a_drain_is_previewed_for_those_alone_who_may_see_all_namespaces():
    with pytest.raises(UsageError, match="a drain moves pods of other namespaces"):
        question(drain=["node-a"])
    checks = Checks()
    checks.rights = TenantRights(TenantPolicies.TRUSTED)
    assert question(checks, drain=["node-a"]).what_if.drain == ("node-a",)


def of_labels(kind, workload, n_labels):
    labels = {f"k{number}": "" for number in range(n_labels)}
    return asked(kind, {**workload, "template": {**TEMPLATE, "metadata": {"labels": labels}}}, replicas=MAX_PODS)


@pytest.mark.parametrize(("kind", "workload"), [("StatefulSet", {}), ("Job", {"completionMode": "Indexed"})], ids=["StatefulSet", "Job"])
def test_labels_are_limited_where_each_pod_has_its_own(kind, workload):
    """Such pods are templates of their own, and decisions keep the labels of each several times."""
    assert len(of_labels(kind, workload, 150)) == MAX_PODS
    with pytest.raises(
        UsageError, match=r"each pod of a .* has labels of its own.* at most 32 such pods are previewed; set spec\.replicas"
    ):
        of_labels(kind, workload, 5000)


@pytest.mark.parametrize("kind", ["Job", "Deployment", "ReplicaSet"])
def test_large_labels_of_pods_of_one_template_are_kept_once(kind):
    tracemalloc.start()
    try:
        assert len(of_labels(kind, {}, 5000)) == MAX_PODS
        assert tracemalloc.get_traced_memory()[1] < 15_000_000
    finally:
        tracemalloc.stop()
