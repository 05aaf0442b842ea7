"""Candidates made from texts: parse, check, compile, test."""

import pytest
from msgspec import structs

from tests.unit.scheduler.running import node, pod
from wharfinger.framework.policy_status import PolicyText
from wharfinger.language.load import TextSet
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.policies import candidate, policy_tests
from wharfinger.policies.candidate import MAX_PROBES, build, sample_of

TESTED = """policy "tested"
param pool: string = "a"
filter pool { require node.labels["pool"] == pool else "not it" on missing reject }
test "goes to a" { node n { labels: {"pool": "a"} } pod p {} place p expect p on n }
test "and again" { node n { labels: {"pool": "a"} } pod p {} place p expect p on n }
test "goes to b" { param pool = "b" node n { labels: {"pool": "b"} } pod p {} place p expect p on n }
"""


@pytest.fixture
def compiled(monkeypatch):
    """The params that policies were compiled with, as they are."""
    real, seen = policy_tests.compile_policy, []

    def counting(policy, given):
        seen.append(given)
        return real(policy, given)

    monkeypatch.setattr(policy_tests, "compile_policy", counting)
    return seen


@pytest.mark.parametrize(
    ("params", "expected"),
    [({}, [{}, {"pool": "b"}]), ({"pool": "b"}, [{}, {"pool": "b"}]), ({"pool": "c"}, [{}, {"pool": "b"}, {"pool": "c"}])],
)
def test_a_policy_is_compiled_once_for_all_tests_and_uses_that_set_the_same_params(compiled, params, expected):
    text = PolicyText(name="t.policy", content=TESTED.encode(), params=params)

    outcome = build(text, TextSet(texts={text.name: text.content}), {}, None)

    assert outcome.report == ""
    assert outcome.version.policy.params == {"pool": params.get("pool", "a")}
    assert compiled == expected


FUSSY = 'policy "fussy"\nfilter f { reject pod.labels["tir"] == "x" on missing reject }\n'


def shop_pod(name, namespace, **labels):
    made = pod(name, labels=labels)
    return PodView(structs.replace(made, metadata=structs.replace(made.metadata, namespace=namespace)))


@pytest.mark.parametrize("n_templates", [1, MAX_PROBES + 10])
def test_a_policy_of_a_namespace_is_tried_with_its_pods_however_many_templates_others_have(n_templates):
    state = ClusterState()
    state.add_node(node("n"))
    others = [shop_pod(f"p{number}", "bank", secret=str(number % n_templates)) for number in range(2 * MAX_PROBES)]
    mine = [shop_pod("mine", "shop", tier="a"), shop_pod("other", "shop", tier="b")]
    text = PolicyText(name="f.policy", content=FUSSY.encode(), authority=Authority("shop"))

    outcome = build(text, TextSet(texts={text.name: text.content}), {}, sample_of(state.snapshot(), [*others, *mine]))

    assert [finding.message for finding in outcome.now] == [
        "fussy rejects the only node for every pod it was tried with, such as shop/mine",
        "fussy: label `tir` is on 0 of 2 pods; did you mean `tier` (2)?",
    ]


@pytest.mark.parametrize(("authority", "details"), [(CLUSTER, ": pod bank/vault has no such key"), (Authority("shop"), "")])
def test_the_error_of_a_trial_is_quoted_to_those_who_may_see_all_objects(monkeypatch, authority, details):
    def failing(*_):
        raise KeyError("pod bank/vault has no such key")

    state = ClusterState()
    state.add_node(node("n"))
    text = PolicyText(name="f.policy", content=FUSSY.encode(), authority=authority)
    monkeypatch.setattr(candidate, "BoundPolicy", failing)
    outcome = build(text, TextSet(texts={text.name: text.content}), {}, sample_of(state.snapshot(), [shop_pod("mine", "shop")]))
    [finding] = [*outcome.findings, *outcome.now]
    assert finding.message.replace("'", "") == f"it cannot be evaluated on this cluster: KeyError{details}"
