"""The group that policies put a pod into, and its terms by all of them."""

from __future__ import annotations

import pytest

from tests.unit.compiler.texts import compiled
from wharfinger.errors import UsageError
from wharfinger.groups.membership import group_index, group_of_policies, no_rule, rule_of_policies
from wharfinger.groups.terms import Disruption, GroupTerms, Level
from wharfinger.model import objects
from wharfinger.model.attributes import MAX_ANNOTATION_LENGTH
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import ObjectStore, TimeAndObjects

NOTHING = TimeAndObjects(0.0, ObjectStore())

GANG = """policy "gang"
for pods where pod.namespace != "kube-system"
param wait: duration = 90s
group by pod.labels["job"] {
  min_count quantity(pod.annotations["size"]).number ?? 2
  timeout wait
  within required "block", preferred "rack"
  spread_over "zone"
  disruption group
  reserve
}
"""


def pod(name="w", namespace="default", labels=None, size=None, group=None):
    spec = objects.PodSpec(scheduling_group=objects.PodSchedulingGroup(pod_group_name=group) if group else None)
    annotations = {} if size is None else {"size": size}
    metadata = objects.ObjectMeta(name=name, uid=f"uid-{name}", namespace=namespace, labels=labels or {}, annotations=annotations)
    return PodView(objects.Pod(metadata=metadata, spec=spec))


def test_the_terms_are_what_the_policy_says():
    found = group_of_policies([compiled(GANG)], pod(labels={"job": "llm"}, size="8"), NOTHING)
    terms = GroupTerms(
        min_count=8,
        source="policy gang",
        levels=(Level("block"), Level("rack", required=False)),
        spread=("zone",),
        timeout=90.0,
        disruption=Disruption.GROUP,
        reserve=True,
    )
    assert found == ("llm", terms)


def test_omitted_lines_have_defaults():
    found = group_of_policies([compiled('policy "p"\ngroup by "all" { reserve }')], pod(), NOTHING)
    assert found == ("all", GroupTerms(min_count=0, source="policy p", reserve=True))


def test_a_long_name_is_cut_and_stays_unlike_others():
    policy = compiled('policy "p"\ngroup by pod.annotations["size"] { min_count 2 }')
    found = [
        group_of_policies([policy], pod(size="x" * 253 + more), NOTHING) for more in ("", "1", "2", "2" * (MAX_ANNOTATION_LENGTH - 253))
    ]
    names = [group[0] for group in found if group is not None]
    assert names[0] == "x" * 253
    assert (len(set(names)), {len(name) for name in names}) == (4, {253})
    assert all(name.startswith("x" * 188 + "-") for name in names[1:])


@pytest.mark.parametrize(("size", "needed"), [("2500m", 3), ("-4", 0), ("x", 2), (None, 2)])
def test_the_minimum_is_a_number_of_pods(size, needed):
    found = group_of_policies([compiled(GANG)], pod(labels={"job": "llm"}, size=size), NOTHING)
    assert found is not None
    assert found[1].min_count == needed


def test_pods_without_a_name_or_outside_of_the_policy_are_in_no_group():
    assert group_of_policies([compiled(GANG)], pod(), NOTHING) is None
    assert group_of_policies([compiled(GANG)], pod(namespace="kube-system", labels={"job": "llm"}), NOTHING) is None
    assert group_of_policies([compiled('policy "p"\nquantum 1')], pod(labels={"job": "llm"}), NOTHING) is None


def test_params_are_used():
    found = group_of_policies([compiled(GANG, wait="20s")], pod(labels={"job": "llm"}), NOTHING)
    assert found is not None
    assert found[1].timeout == 20.0
    with pytest.raises(UsageError):
        compiled(GANG, wait="20")


def test_policies_add_up():
    other = 'policy "other"\ngroup by pod.labels["job"] { min_count 5 timeout 10s within required "rack" }'
    apart = 'policy "zz"\ngroup by pod.labels["app"] { min_count 99 }'
    found = group_of_policies([compiled(each) for each in (GANG, other, apart)], pod(labels={"job": "llm", "app": "web"}), NOTHING)
    assert found is not None
    name, terms = found
    assert (name, terms.min_count, terms.timeout, terms.source) == ("llm", 5, 10.0, "policy gang, policy other")
    assert terms.levels == (Level("block"), Level("rack"))
    assert terms.reserve


def test_a_podgroup_names_the_group_and_says_how_many():
    gang = objects.GangSchedulingPolicy(min_count=3)
    store = ObjectStore()
    spec = objects.PodGroupSpec(scheduling_policy=objects.PodGroupSchedulingPolicy(gang=gang))
    store.put(objects.PodGroup(metadata=objects.ObjectMeta(name="training", namespace="default"), spec=spec))
    index = group_index([pod(labels={"job": "llm"}, group="training")], store, rule_of_policies([compiled(GANG)], lambda: NOTHING))
    terms = index.terms("default/training")
    assert terms is not None
    assert (terms.min_count, terms.reserve, terms.levels[0]) == (3, True, Level("block"))


def test_without_groups_no_pod_is_looked_at():
    assert rule_of_policies([compiled('policy "p"\nquantum 1')], lambda: NOTHING) is no_rule


def test_a_policy_with_other_terms_is_another_one():
    def revision(text):
        return compiled(text).revision

    changed = [
        GANG.replace('"rack"', '"row"'),
        GANG.replace("?? 2", "?? 3"),
        GANG.replace("  reserve\n", ""),
        GANG.replace("90s", "91s"),
        GANG + 'permit p { require count(group) > 1 else "wait" }',
        GANG + 'permit p timeout 1s { require count(group) > 1 else "wait" }',
    ]
    assert len({revision(text) for text in (GANG, *changed)}) == 1 + len(changed)
