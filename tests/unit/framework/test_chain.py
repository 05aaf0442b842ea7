"""A chain is a value: it prints, it has a revision, and it refuses settings that do not fit."""

from __future__ import annotations

import pytest

from tests.property.test_cached_decision import compiled
from tests.unit.framework import fleet
from tests.unit.simulate.clusters import policy
from tests.work import calls
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework import chain
from wharfinger.framework.chain import assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.extension import QueueSortPlugin
from wharfinger.language.semantics.authority import Authority
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.object_store import ObjectStore, TimeAndObjects

A, B = fleet.stub("A"), fleet.stub("B")


class Sorted(QueueSortPlugin):
    name = "Sorted"

    def sort_key(self, pod):
        return pod.name


def test_prints_as_a_table():
    printed = str(fleet.chain_of(A, Sorted, weights={"A": 3}, A={"reject": {"n": ["full"]}, "skip": True}))
    assert printed.splitlines() == [
        "plugin  points        weight  arguments",
        'A       Filter Score  3       refuseForGood=false reject={"n":["full"]} scores={} skip=true unresolvable=[]',
        "Sorted  QueueSort",
    ]


def test_points_of_the_chain():
    found = fleet.chain_of(B, A, Sorted)
    assert [plugin.name for plugin in found.filters] == ["A", "B"]
    assert [plugin.name for plugin in found.at("QueueSort")] == ["Sorted"]
    assert found.queue_sort is found.plugin("Sorted")
    assert found.plugin("C") is None
    assert found.post_filters == found.pre_enqueues == ()


def test_the_revision_changes_with_whatever_could_change_a_decision():
    revisions = [
        fleet.chain_of(A).revision,
        fleet.chain_of(A, B).revision,
        fleet.chain_of(A, weights={"A": 2}).revision,
        fleet.chain_of(A, A={"skip": True}).revision,
    ]
    assert len(set(revisions)) == len(revisions)
    assert fleet.chain_of(A).revision == revisions[0]
    assert all(len(revision) == 64 for revision in revisions)


DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def test_default_weights_are_those_of_kubernetes():
    weights = {entry.name: entry.weight for entry in assemble().entries if entry.weight is not None}
    assert DEFAULT_WEIGHTS.items() <= weights.items()


REFUSED = {
    "there is no plugin NodeNome; did you mean NodeName?": {"arguments": {"NodeNome": {}}},
    "there is no plugin Spread; did you mean PodTopologySpread?|there is no plugin Spread; there are": {"disabled_scores": {"Spread"}},
    "plugin NodeName does not score nodes": {"weights": {"NodeName": 3}},
    "plugin NodePorts does not score nodes": {"disabled_scores": {"NodePorts"}},
    "plugin NodeResourcesFit cannot be disabled: it is a hard constraint": {"disabled": {"NodeResourcesFit"}},
    "arguments of plugin NodeName: speed: there is no such field; nothing can be set here": {"arguments": {"NodeName": {"speed": 3}}},
    r"arguments of plugin NodeResourcesFit: scoringStrategy\.type: Input should be": {
        "arguments": {"NodeResourcesFit": {"scoringStrategy": {"type": "Best"}}}
    },
}


@pytest.mark.parametrize(("message", "settings"), REFUSED.items(), ids=REFUSED)
def test_settings_that_do_not_fit(message, settings):
    with pytest.raises((UnknownObject, UsageError), match=message):
        assemble(config=ChainConfig(**settings))


@pytest.mark.parametrize("weight", [-1, 1.5, "heavy", 10**12])
def test_weights_are_whole_and_not_negative(weight):
    with pytest.raises(ValueError, match=r"weights\.A"):
        ChainConfig(weights={"A": weight})


def test_a_disabled_score_still_filters():
    config = ChainConfig(disabled_scores={"NodeResourcesFit"}, disabled={"ImageLocality"})
    quiet = assemble(config=config)
    decision = cycle.decide(quiet, fleet.state(fleet.node("a", cpu="1")).snapshot(), fleet.pod(cpu="2"))
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    names = [term.plugin.name for term in quiet.pod_rules(fleet.pod(), fleet.state().snapshot()).scores]
    assert "NodeResourcesFit" not in names
    assert quiet.plugin("ImageLocality") is None


def test_a_chain_with_two_queue_sort_plugins_is_refused():
    other = type("Other", (Sorted,), {"name": "Other"})
    with pytest.raises(UsageError, match="one QueueSort plugin"):
        fleet.chain_of(Sorted, other)


def test_scores_are_summed_by_what_can_change_them():
    volatile = fleet.stub("AVolatile", score_volatility=chain.extension.Volatility.GLOBAL)
    rowwise = fleet.stub("BRow", score_volatility=chain.extension.Volatility.ROW)
    pod_rules = fleet.chain_of(volatile, rowwise, fleet.stub("Z")).pod_rules(fleet.pod(), fleet.state().snapshot())
    assert [term.plugin.name for term in pod_rules.scores] == ["Z", "BRow", "AVolatile"]


def member(group, **labels):
    spec = {"containers": [{"name": "main", "image": "x"}], "schedulingGroup": {"podGroupName": group}}
    return PodView(decode.convert({"metadata": {"name": "a", "uid": group, "labels": labels}, "spec": spec}, objects.Pod))


GROUP_READERS = {
    "nothing of groups": ("pod.priority >= 0", True),
    "the name": ('(pod.group.name ?? "") == "llm"', False),
    "the size": ("(pod.group.size ?? 1) > 4", False),
    "the placed members": ("(pod.group.placed ?? 0) >= 0", False),
    "where the others are": ("count(group, on: node) == 0", False),
}


@pytest.mark.parametrize("name", GROUP_READERS)
def test_members_of_different_groups_share_their_answers_unless_something_reads_the_group(name):
    condition, share = GROUP_READERS[name]
    found = assemble(policies=[compiled(f'policy "p"\nlet it_holds = {condition}\nfilter f {{ require it_holds else "no" }}')])
    one, other = (found.key(member(group), TimeAndObjects(0.0, ObjectStore())) for group in ("one", "other"))
    assert (one == other) == share
    assert member("one").template != member("other").template


def test_members_of_different_groups_do_not_share_their_answers_with_a_plugin_of_a_third_party():
    at = TimeAndObjects(0.0, ObjectStore())
    found = fleet.chain_of(A)
    assert found.key(member("one"), at) != found.key(member("other"), at)
    assert assemble().key(member("one"), at) == assemble().key(member("other"), at)
    assert assemble().key(member("one"), at) != assemble().key(member("one", app="x"), at)


def of_namespaces(n, more=""):
    """The policies of n namespaces, all for some pods of theirs, that read the identity and the group of pods."""
    text = f'policy "p{{0}}" for pods where pod.labels["app"] == "web"\nfilter f {{{{ require pod.name != "x" {more} else "no" }}}}'
    return [policy(text.format(number), Authority(f"team-{number}")) for number in range(n)]


def asked_about(chained, namespace):
    pod = PodView(decode.convert({"metadata": {"name": "a", "namespace": namespace, "labels": {"app": "web"}}, "spec": {}}, objects.Pod))
    at = TimeAndObjects(0.0, ObjectStore())
    return chained.key(pod, at), chained.pod_rules(pod, at).policies


@pytest.mark.parametrize("namespace", ["team-3", "shop"])
def test_policies_of_other_namespaces_cost_a_pod_nothing(namespace):
    few, many = (assemble(of_namespaces(n)) for n in (10, 1000))
    for chained in (few, many):
        asked_about(chained, namespace)
    assert calls(lambda: asked_about(few, namespace)) == calls(lambda: asked_about(many, namespace))
    assert asked_about(many, namespace)[1] == (("p3",) if namespace == "team-3" else ())


@pytest.mark.parametrize(
    ("rule", "shared"),
    [
        ('for pods where pod.labels["app"] == "web"\nfilter f { require pod.name != "x" else "no" }', False),
        ('for pods where pod.labels["app"] == "db"\nfilter f { require pod.name != "x" else "no" }', True),
        ('for pods where pod.name == "x"\nscore s = 1', True),
        ('for pods where pod.name == "one"\nscore s = 1', False),
    ],
    ids=["its rules read names", "it governs others", "it governs neither", "it governs one of the two"],
)
def test_a_policy_that_reads_names_ends_the_sharing_of_those_that_it_governs(rule, shared):
    chained, at = assemble([policy(f'policy "p" {rule}\n')]), TimeAndObjects(0.0, ObjectStore())
    one, other = (fleet.pod(name, labels={"app": "web"}) for name in ("one", "other"))
    assert (chained.key(one, at) == chained.key(other, at)) is shared


def test_policies_of_other_namespaces_end_no_sharing():
    chained = assemble(of_namespaces(1, more='and (pod.group.name ?? "") != "x"'))
    at = TimeAndObjects(0.0, ObjectStore())
    assert chained.key(member("one"), at) == chained.key(member("other"), at)


def test_no_more_pod_rules_are_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(chain, "MAX_KEPT_POD_RULES", 5)
    chained = assemble([policy(f'policy "p{n}" for pods where has(pod.labels["p{n}"])\nscore s = 1\n') for n in range(6)])
    at = TimeAndObjects(0.0, ObjectStore())
    for number in range(2**6):
        labels = {f"p{bit}": "" for bit in range(6) if number >> bit & 1}
        assert chained.pod_rules(member("g", **labels), at).policies == tuple(sorted(labels))
    assert len(chained._pod_rules) == 5
