"""The group of a pod, the terms of the group, and an index that follows pods as they are added and removed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import calls
from wharfinger.errors import InvalidObject
from wharfinger.groups.membership import COSCHEDULING_TIMEOUT, GroupIndex, group_index, narrowed
from wharfinger.groups.terms import DEFAULT_TIMEOUT, Disruption, GroupTerms, Level
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.object_store import ObjectStore
from wharfinger.steps import at_once

LABEL = "scheduling.x-k8s.io/pod-group"
OLDER_LABEL = "pod-group.scheduling.sigs.k8s.io"


def pod(name, group="", *, on="", priority=0, created=None, **labels):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, "creationTimestamp": created}
    spec = {"nodeName": on, "priority": priority, "schedulingGroup": {"podGroupName": group} if group else None}
    return PodView(decode.convert({"metadata": metadata, "spec": spec}, objects.Pod))


def podgroup(name="train", spec=None, kind=objects.PodGroup):
    return decode.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec or {}}, kind)


def store(*found):
    made = ObjectStore()
    for each in found:
        made.put(each)
    return made


def gang(count, **more):
    return {"schedulingPolicy": {"gang": {"minCount": count}}, **more}


OF_PODGROUP = "PodGroup default/train"
OF_PLUGIN = "PodGroup default/train of the coscheduling plugin"
RACK = {"topology": [{"key": "rack"}]}

TERMS = {
    "gang": (podgroup(spec=gang(4)), GroupTerms(min_count=4, source=OF_PODGROUP)),
    "basic": (podgroup(spec={"schedulingPolicy": {"basic": {}}}), GroupTerms(min_count=0, source=OF_PODGROUP)),
    "topology": (
        podgroup(spec=gang(2, schedulingConstraints=RACK)),
        GroupTerms(min_count=2, source=OF_PODGROUP, levels=(Level("rack", required=True),)),
    ),
    "priority": (podgroup(spec=gang(2, priority=7)), GroupTerms(min_count=2, source=OF_PODGROUP, priority=7)),
    "preemption policy": (
        podgroup(spec=gang(2, preemptionPolicy="Never")),
        GroupTerms(min_count=2, source=OF_PODGROUP, preemption_policy="Never"),
    ),
    "pods are disrupted": (podgroup(spec=gang(2, disruptionMode="Pod")), GroupTerms(min_count=2, source=OF_PODGROUP)),
    "the group is disrupted": (
        podgroup(spec=gang(2, disruptionMode="PodGroup")),
        GroupTerms(min_count=2, source=OF_PODGROUP, disruption=Disruption.GROUP),
    ),
    "pods are disrupted, v1beta1": (podgroup(spec=gang(2, disruptionMode={"single": {}})), GroupTerms(min_count=2, source=OF_PODGROUP)),
    "the group is disrupted, v1beta1": (
        podgroup(spec=gang(2, disruptionMode={"all": {}})),
        GroupTerms(min_count=2, source=OF_PODGROUP, disruption=Disruption.GROUP),
    ),
    "coscheduling": (
        podgroup(spec={"minMember": 3, "scheduleTimeoutSeconds": 20, "minResources": {"cpu": 3}}, kind=objects.CoschedulingPodGroup),
        GroupTerms(min_count=3, source=OF_PLUGIN, timeout=20.0),
    ),
    "coscheduling without a timeout": (
        podgroup(spec={"minMember": 3}, kind=objects.CoschedulingPodGroup),
        GroupTerms(min_count=3, source=OF_PLUGIN, timeout=COSCHEDULING_TIMEOUT),
    ),
}


@pytest.mark.parametrize("name", TERMS)
def test_a_podgroup_defines_the_terms(name):
    found, terms = TERMS[name]
    member = pod("a", **{LABEL: "train"}) if isinstance(found, objects.CoschedulingPodGroup) else pod("a", "train")
    index = group_index([member], store(found))
    assert index.terms("default/train") == terms


def by_label(pod):
    if "job" not in pod.labels:
        return None
    return pod.labels["job"], GroupTerms(min_count=2, source="policy gangs", levels=(Level("rack"),), spread=("zone",))


INVALID = {
    "no minCount": ({"gang": {"minCuont": 3}}, None, "spec.schedulingPolicy.gang: object missing required field `minCount`"),
    "a minCount of 0": ({"gang": {"minCount": 0}}, None, "spec.schedulingPolicy.gang.minCount: expected a whole number >= 1"),
    "a minCount that is no number": (
        {"gang": {"minCount": "x"}},
        None,
        "spec.schedulingPolicy.gang.minCount: expected a whole number, got text",
    ),
    "a mode that is none": ({"basic": {}}, [1], "spec.disruptionMode: expected text or an object, got a list"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_ambiguous_podgroup_is_refused(name):
    policy, mode, message = INVALID[name]
    with pytest.raises(InvalidObject) as refusal:
        podgroup(spec={"schedulingPolicy": policy, "disruptionMode": mode})
    assert str(refusal.value).splitlines()[0] == message


MEMBERS = {
    "schedulingGroup": (pod("a", "train"), "default/train"),
    "the label of the plugin": (pod("a", **{LABEL: "train"}), "default/train"),
    "its older label": (pod("a", **{OLDER_LABEL: "train"}), "default/train"),
    "both, and schedulingGroup wins": (pod("a", "train", **{LABEL: "other"}), "default/train"),
    "a policy": (pod("a", job="train"), "default/train"),
    "a name of its own before that of a policy": (pod("a", "train", job="other"), "default/train"),
    "none": (pod("a", tier="web"), None),
    "an empty label": (pod("a", **{LABEL: ""}), None),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_pod_belongs_to_one_group_or_none(name):
    member, key = MEMBERS[name]
    index = GroupIndex(ObjectStore(), by_label)
    assert index.put(member) == key
    assert index.key_of(member.uid) == key
    assert bool(index) == (key is not None)


def test_a_policy_adds_to_a_podgroup_and_takes_nothing_from_it():
    said = GroupTerms(min_count=4, source=OF_PODGROUP, levels=(Level("rack"),), priority=3)
    policy = GroupTerms(
        min_count=2, source="policy gangs", levels=(Level("block"), Level("rack", required=False)), spread=("zone",), timeout=9
    )
    assert narrowed(said, policy) == GroupTerms(
        min_count=4, source=OF_PODGROUP, levels=(Level("block"), Level("rack")), spread=("zone",), priority=3, timeout=DEFAULT_TIMEOUT
    )


NO_PODGROUP = 'waiting for pods\'s pod group "train" to appear in scheduling queue'
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
AWAITED = {
    "no PodGroup": ([pod("a", "train")], [], NO_PODGROUP),
    "a PodGroup of the plugin is no PodGroup of Kubernetes": (
        [pod("a", "train")],
        [podgroup(spec={"minMember": 1}, kind=objects.CoschedulingPodGroup)],
        NO_PODGROUP,
    ),
    "one of two": ([pod("a", "train")], [podgroup(spec=gang(2))], TOO_FEW),
    "two of two": ([pod("a", "train"), pod("b", "train")], [podgroup(spec=gang(2))], None),
    "placed members count": ([pod("a", "train"), pod("b", "train", on="n")], [podgroup(spec=gang(2))], None),
    "no minimum": ([pod("a", "train")], [podgroup(spec={"schedulingPolicy": {"basic": {}}})], None),
    "a label where the plugin has no PodGroups": ([pod("a", **{LABEL: "train"})], [], None),
    "a label, and PodGroups of others": (
        [pod("a", **{LABEL: "train"})],
        [podgroup("other", {"minMember": 1}, objects.CoschedulingPodGroup)],
        NO_PODGROUP,
    ),
    "a label and a policy": ([pod("a", job="train", **{LABEL: "train"})], [], TOO_FEW),
}


@pytest.mark.parametrize("name", AWAITED)
def test_members_wait_for_their_podgroup_and_for_each_other(name):
    pods, found, message = AWAITED[name]
    assert group_index(pods, store(*found), by_label).waiting_reason("default/train") == message


@pytest.mark.parametrize("served", [True, False])
def test_a_label_waits_for_its_podgroup_where_the_api_server_has_such(served):
    index = GroupIndex(ObjectStore(), served=lambda: served)
    index.put(pod("a", **{LABEL: "train"}))
    assert index.waiting_reason("default/train") == (NO_PODGROUP if served else None)
    assert (index.group("default/train") is None) == served


def test_a_group_has_its_members_by_priority_then_age_then_arrival():
    old, young = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    pods = [pod("c", "train", created=young), pod("b", "train", created=old), pod("d", "train", created=young)]
    pods += [pod("a", "train", created=young, priority=5), pod("there", "train", on="n", created=young)]
    group = group_index(pods, store(podgroup(spec=gang(4)))).group("default/train")
    assert [each.name for each in group.waiting] == ["a", "b", "c", "d"]
    assert [each.name for each in group.placed] == ["there"]
    assert group.needed == 3


def test_a_podgroup_that_appears_changes_or_goes_is_read_at_once():
    found = ObjectStore()
    index = group_index([pod("a", "train")], found)
    assert index.group("default/train") is None
    found.put(podgroup(spec=gang(1)))
    assert index.group("default/train").needed == 1
    found.drop("PodGroup", "default/train")
    assert index.group("default/train") is None


def test_finished_pods_are_no_members():
    done = PodView(
        decode.convert(
            {"metadata": {"name": "a"}, "spec": {"schedulingGroup": {"podGroupName": "g"}}, "status": {"phase": "Failed"}}, objects.Pod
        )
    )
    assert not group_index([done], ObjectStore())


def test_other_policies_make_other_groups():
    pods = [pod("a", job="train"), pod("b", "own")]
    index = group_index(pods, ObjectStore())
    assert list(index) == ["default/own"]
    at_once(index.follow_rule(by_label, pods))
    assert sorted(index) == ["default/own", "default/train"]


def test_the_former_groups_hold_until_all_pods_were_asked_and_changes_meanwhile_are_in_the_new_ones():
    pods = [pod("a", job="train"), pod("b", "own"), pod("c", job="train"), pod("d", job="train")]
    sizes = {}
    index = group_index(pods, ObjectStore())
    index.sized = sizes.__setitem__
    steps = index.follow_rule(by_label, pods)
    next(steps)
    index.remove("uid-a")
    index.put(pod("c", job="other"))
    index.put(pod("e", job="train"))
    assert list(index) == ["default/own"]
    at_once(steps)
    members = {key: sorted(member.name for member in index.members(key)) for key in index}
    assert members == {"default/own": ["b"], "default/other": ["c"], "default/train": ["d", "e"]}
    assert sizes == {"default/own": 1, "default/other": 1, "default/train": 2}


@pytest.mark.parametrize(("own", "key"), [("second", "default/second"), ("", "default/train")])
def test_a_pod_that_leaves_its_group_while_another_rule_is_followed_is_in_its_next_one(own, key):
    pods = [pod("a", "first")]
    index = group_index(pods, ObjectStore())
    steps = index.follow_rule(by_label, pods)
    next(steps)
    index.put(pod("a", own, job="train"))
    at_once(steps)
    assert (index.key_of("uid-a"), list(index)) == (key, [key])


steps = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "x", "y", "gone"]), st.sampled_from(["", "n1"])), max_size=30)


@given(steps)
def test_the_index_is_always_that_of_the_pods_as_they_are(changes):
    found = store(podgroup("x", gang(2)), podgroup("y", gang(1)))
    index, known = GroupIndex(found), {}
    for name, group, node in changes:
        if group == "gone":
            known.pop(name, None)
            index.remove(f"uid-{name}")
        else:
            known[name] = pod(name, group, on=node)
            index.put(known[name])
        fresh = group_index(known.values(), found)
        assert set(index) == set(fresh)
        for key in fresh:
            mine, theirs = index.group(key), fresh.group(key)
            assert {each.uid for each in mine.waiting} == {each.uid for each in theirs.waiting}
            assert {each.uid for each in mine.placed} == {each.uid for each in theirs.placed}
        assert all(index.key_of(each.uid) == fresh.key_of(each.uid) for each in known.values())


def test_terms_follow_a_podgroup_that_changes():
    kept = store(podgroup(spec=gang(2)))
    index = GroupIndex(kept)
    index.put(pod("a", "train"))
    assert index.terms("default/train") is index.terms("default/train")
    kept.put(podgroup(spec=gang(3)))
    assert index.terms("default/train").min_count == 3


@pytest.mark.parametrize("rule", [by_label, lambda _pod: None])
def test_the_terms_of_a_group_are_found_without_reading_each_member(rule):
    def work(count):
        labels = {"job": "train", "pod-group.scheduling.sigs.k8s.io": "train"}
        index = group_index([pod(f"p{number}", **labels) for number in range(count)], ObjectStore(), rule)
        return calls(lambda: index.terms("default/train"))

    assert work(200) == work(2)


def test_a_group_of_which_one_member_has_a_scheduling_group_waits_for_its_podgroup_as_long_as_it_is_there():
    index = group_index([pod("a", job="train"), pod("b", "train")], ObjectStore(), by_label)
    assert index.terms("default/train") is None
    index.remove("uid-b")
    assert index.terms("default/train") == by_label(pod("a", job="train"))[1]
    index.put(pod("b", "train"))
    index.put(pod("b", job="train"))
    assert index.terms("default/train") == by_label(pod("a", job="train"))[1]


def test_a_policy_holds_for_a_group_whatever_members_come_after_those_that_it_puts_there():
    found = store(podgroup("train"))
    index = group_index([pod("a", job="train"), pod("b", "train")], found, by_label)
    assert index.terms("default/train") == group_index([pod("b", "train"), pod("a", job="train")], found, by_label).terms("default/train")
    index.remove("uid-a")
    assert index.terms("default/train") == group_index([pod("b", "train")], found, by_label).terms("default/train")
