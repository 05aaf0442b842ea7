"""No policy of a namespace displaces one of the cluster, or learns more of others than that they exist."""

import itertools

import pytest

from tests.unit.simulate.clusters import policy
from wharfinger.framework.policy_status import Mode
from wharfinger.framework.rules import pod_rules
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import ObjectStore, TimeAndObjects
from wharfinger.policies.active import ActivationRequest, choose

A, B = Authority("team-a"), Authority("team-b")
FIT = 'policy "{}"{}\nbase kubernetes {{ NodeResourcesFit weight {} }}\n'
SCOPE = " for pods where pod.priority > 3"


def made(name, weight, authority, scope=""):
    return policy(FIT.format(name, scope, weight), authority=authority)


def claim(key, candidate, since):
    return ActivationRequest(
        place=(0, key), mode=Mode.ENFORCE, profiles=frozenset({"wharfinger"}), candidate=candidate, in_force=candidate, since=since
    )


@pytest.mark.parametrize(
    ("second", "message"), [("fit", 'there is another policy called "fit"'), ("other", "a policy of the cluster sets")]
)
def test_a_policy_of_the_cluster_goes_first_however_late_it_comes(second, message):
    older, newer = made("fit", 1, A), made(second, 2, CLUSTER)
    first, last = choose([claim("a", older, 5.0), claim("b", newer, 0.0)])

    assert (first.policy, last.policy) == (None, newer)
    assert first.conflict.startswith(message)
    assert f'"{second}"' not in first.conflict.replace('"fit"', "")


@pytest.mark.parametrize(
    ("left", "right", "meet"),
    [
        (made("x", 1, A), made("y", 2, B), False),
        (made("x", 1, A, SCOPE), made("y", 2, B, SCOPE), False),
        (made("x", 1, A), made("y", 2, CLUSTER), True),
        (made("x", 1, A), made("y", 2, CLUSTER, SCOPE), False),
        (made("x", 1, A, SCOPE), made("y", 2, A, SCOPE), True),
        (made("x", 1, CLUSTER), made("y", 2, CLUSTER, SCOPE), True),
    ],
)
def test_policies_contradict_each_other_only_if_they_share_pods(left, right, meet):
    assert (pod_rules.contradiction(left, right) is not None) is meet
    assert (pod_rules.contradiction(right, left) is not None) is meet


def test_what_holds_is_free_of_contradictions_and_nothing_is_kept_out_without_one():
    found = [
        made("c", 1, CLUSTER, SCOPE),
        made("d", 2, CLUSTER, SCOPE),
        made("a1", 3, A, SCOPE),
        made("a2", 4, A, SCOPE),
        made("b1", 5, B),
        made("b2", 6, B, SCOPE),
    ]
    for order in itertools.permutations(found):
        claims = [claim(str(place), each, 0.0) for place, each in enumerate(order)]
        choices = choose(claims)
        in_force = [choice.policy for choice in choices if choice.policy is not None]
        assert not any(pod_rules.contradiction(one, other) for one, other in itertools.combinations(in_force, 2))
        for each, choice in zip(claims, choices, strict=True):
            others = [other for other in in_force if other is not each.candidate]
            assert bool(choice.conflict) is any(pod_rules.contradiction(other, each.candidate) for other in others)


def test_policies_of_many_namespaces_are_not_compared_with_each_other(monkeypatch):
    compared = []
    really = pod_rules.contradiction
    monkeypatch.setattr(pod_rules, "contradiction", lambda *two: compared.append(two) or really(*two))
    plain = [policy(f'policy "p{number}"\nscore s = 1\n', authority=CLUSTER) for number in range(20)]
    own = [made(f"w{number}", number + 2, Authority(f"team-{number}")) for number in range(20)]
    choices = choose([claim(each.name, each, 0.0) for each in (*plain, *own, made("c", 1, CLUSTER, SCOPE))])
    assert not any(choice.conflict for choice in choices)
    assert len(compared) == 20


def test_the_cluster_s_weights_win_over_those_of_a_namespace():
    settled = pod_rules.base_overrides([made("a", 1, A), made("z", 7, CLUSTER, SCOPE)])

    assert settled.weights == {"NodeResourcesFit": 7.0}


GROUPING = 'policy "p"\ngroup by pod.labels["app"] ?? "all" { min_count 2 }\nscore s = 1\n'


@pytest.mark.parametrize(
    ("authority", "theirs"),
    [(CLUSTER, True), (Authority("default"), False), (Authority("default", TenantPolicies.TRUSTED), False)],
    ids=str,
)
def test_a_policy_of_a_namespace_governs_and_groups_its_pods_only(authority, theirs):
    found, at = policy(GROUPING, authority), TimeAndObjects(0.0, ObjectStore())
    pods = [
        PodView(objects.Pod(metadata=objects.ObjectMeta(name="web", namespace=namespace), spec=objects.PodSpec()))
        for namespace in ("default", "defaults")
    ]
    assert [found.governs(each, at) for each in pods] == [True, theirs]
    assert [found.group.of(each, at) is not None for each in pods] == [True, theirs]
