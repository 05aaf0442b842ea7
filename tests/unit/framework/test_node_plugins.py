"""Edge cases of node plugins that the vectors do not cover."""

from __future__ import annotations

import pytest

from tests.unit.framework.kube import ZONE, decide, node, pod, points, rejected, state
from tests.work import calls
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.plugins.queueing import PrioritySort, SchedulingGates
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
UNTOLERATED = {"a": ["node(s) had untolerated taint(s)"]}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "spot", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "spot", "value": "yes"}, True),
        ({"value": "yes"}, True),
        ({"key": "spot", "value": "no"}, False),
        ({"key": "spot", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "spot", "operator": "Gt", "value": "1"}, False),
    ],
)
def test_a_node_is_rejected_unless_a_toleration_matches_its_taint(toleration, tolerated):
    cluster = state([node("a", taints=[SPOT])])
    assert rejected("TaintToleration", cluster, pod(tolerations=[toleration])) == ({} if tolerated else UNTOLERATED)


def affinity(*terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names, operator="In"):
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


@pytest.mark.parametrize(
    ("terms", "matching"),
    [
        ([expression("cores", "Gt", "8")], "b"),
        ([expression("cores", "Lt", "9")], "a"),
        ([expression("cores", "Gt", "many")], ""),  # not a number: the term is not valid and matches nothing
        ([expression("cores", "Gt", "8"), {}], "b"),  # an empty term matches nothing either
        ([expression("words", "Gt", "-5")], ""),  # the labels are no numbers
        ([expression("cores", "NotIn", "8")], "bc"),  # a node without the label is not in
        ([expression("no such label", "Exists")], ""),
        ([named("a", operator="NotIn")], "bc"),
        ([named("b"), named("c")], "bc"),
        ([], ""),
    ],
)
def test_terms_of_node_affinity(terms, matching):
    cluster = state([node("a", labels={"cores": "8", "words": "x"}), node("b", labels={"cores": "16"}), node("c")])
    found = rejected("NodeAffinity", cluster, pod(affinity=affinity(*terms)))
    assert set("abc") - found.keys() == set(matching)


def test_names_that_exclude_each_other_refuse_the_pod():
    both = {"matchFields": [*named("a")["matchFields"], *named("b")["matchFields"]]}
    decision = decide(state([node("a"), node("b")]), pod(affinity=affinity(both)))
    assert decision.message == "0/2 nodes are available: pod affinity terms conflict. not found"


def test_added_affinity_is_enforced_and_scored():
    preference = {"weight": 7, "preference": expression("disk", "In", "ssd")}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [expression("disk", "Exists")]}}
    arguments = {"addedAffinity": {**added, "preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    cluster = state([node("a"), node("b", labels={"disk": "ssd"}), node("c", labels={"disk": "hdd"})])
    decision = decide(cluster, pod(), NodeAffinity=arguments)
    assert decision.rejections_at("a") == ("NodeAffinity: node(s) didn't match scheduler-enforced node affinity",)
    assert points("NodeAffinity", decision) == {"b": 100, "c": 0}


@pytest.mark.parametrize(
    ("mine", "theirs", "free"),
    [
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.2"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.2"}, {"hostPort": 80, "hostIP": "0.0.0.0"}, False),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, True),
        ({"hostPort": 80, "protocol": "TCP"}, {"hostPort": 80}, False),
    ],
)
def test_a_host_port_is_free_unless_protocol_and_address_overlap(mine, theirs, free):
    cluster = state([node("a")], [pod("other", on="a", ports=[theirs])])
    reasons = ["node(s) didn't have free ports for the requested pod ports"]
    assert rejected("NodePorts", cluster, pod(ports=[mine])) == ({} if free else {"a": reasons})


MANY = [f"v{number}" for number in range(1000)]


def test_a_requirement_of_many_values_is_one_look_at_a_label():
    nodes = [node(f"n{number}", labels={"rack": f"r{number}"}) for number in range(40)]
    cluster, away = state(nodes), affinity(expression("rack", "NotIn", *(f"r{number}" for number in range(39))))
    assert decide(cluster, pod(affinity=away)).node == "n39"
    few, many = (calls(lambda n=n: decide(cluster, pod(affinity=affinity(expression("rack", "In", *MANY[: 100 * n]))))) for n in (1, 10))
    assert many < 12 * few


def test_a_host_port_that_is_free_again_is_free_on_that_node_alone():
    ports = [{"hostPort": number} for number in (80, 81)]
    cluster = state([node("a"), node("b")], [pod("x", on="a", ports=ports[:1]), pod("y", on="b", ports=ports[1:])])
    decider = Decider(assemble())
    pending = PodView(decode.convert(pod(ports=ports), objects.Pod))
    assert decider.decide(cluster.snapshot(), pending).node is None
    cluster.remove_pod(decode.convert(pod("y", on="b", ports=ports[1:]), objects.Pod))
    assert decider.decide(cluster.snapshot(), pending).node == "b"


def test_ignored_resources_are_not_checked():
    cluster = state([node("a")])
    asking = pod(requests={"example.com/a": "1", "other.com/b": "1", "third.com/c": "1"})
    arguments = {"ignoredResources": ["example.com/a"], "ignoredResourceGroups": ["other.com"]}
    assert rejected("NodeResourcesFit", cluster, asking, NodeResourcesFit=arguments) == {"a": ["Insufficient third.com/c"]}


def test_a_pod_that_no_node_could_ever_hold_is_unresolvable():
    cluster = state([node("a"), node("b", offer={"cpu": "9"})], [pod("other", on="b", requests={"cpu": "8"})])
    decision = decide(cluster, pod(requests={"cpu": "5"}))
    assert decision.diagnosis.unresolvable.tolist() == [True, False]


@pytest.mark.parametrize(("cpu", "expected"), [("1", 50), ("2", 100), ("3", 50), ("4", 0)])
def test_requested_to_capacity_ratio_follows_the_shape(cpu, expected):
    shape = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 10}, {"utilization": 100, "score": 0}]
    strategy = {"type": "RequestedToCapacityRatio", "resources": [{"name": "cpu"}], "requestedToCapacityRatio": {"shape": shape}}
    decision = decide(state([node("a")]), pod(requests={"cpu": cpu}), NodeResourcesFit={"scoringStrategy": strategy})
    assert points("NodeResourcesFit", decision) == {"a": expected}


def test_a_policy_gives_the_shape_with_the_strategy():
    shape = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
    short = {"strategy": "RequestedToCapacityRatio", "shape": shape, "resources": {"cpu": 1}}
    decision = decide(state([node("a")]), pod(requests={"cpu": "1"}), NodeResourcesFit=short)
    assert points("NodeResourcesFit", decision) == {"a": 75}


def test_a_resource_that_a_node_lacks_does_not_count_there():
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu", "weight": 3}]}
    cluster = state([node("a"), node("b", offer={"nvidia.com/gpu": "4"})])
    decision = decide(cluster, pod(requests={"cpu": "2"}), NodeResourcesFit={"scoringStrategy": strategy})
    assert points("NodeResourcesFit", decision) == {"a": 50, "b": 50}  # nor one that the pod does not ask for


@pytest.mark.parametrize(
    "arguments", [{"scoringStrategy": {"type": "Best"}}, {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, {"ignored": []}]
)
def test_arguments_that_do_not_fit_are_refused(arguments):
    with pytest.raises(UsageError, match="arguments of plugin NodeResourcesFit"):
        decide(state([node("a")]), pod(), NodeResourcesFit=arguments)


def test_three_resources_are_balanced_by_their_deviation():
    cluster = state([node("a", offer={"ephemeral-storage": "4"})])
    resources = [{"name": "cpu"}, {"name": "memory"}, {"name": "ephemeral-storage"}]
    asking = pod(requests={"cpu": "4", "memory": "0", "ephemeral-storage": "2"})
    decision = decide(cluster, asking, NodeResourcesBalancedAllocation={"resources": resources})
    # used fractions 1, 0, ½: deviation √(⅙), so the node goes from 100 to 59
    assert points("NodeResourcesBalancedAllocation", decision) == {"a": 50 + (50 + 59 - 100) // 2}


def test_images_count_by_size_and_by_how_many_nodes_hold_them():
    held = [{"names": ["web:1"], "sizeBytes": 800 * 1024 * 1024}]
    decision = decide(state([node("a", images=held), node("b", images=held), node("c"), node("d")]), pod())
    assert points("ImageLocality", decision) == {"a": 38, "b": 38, "c": 0, "d": 0}  # 100·(400 − 23)/(1000 − 23)


def test_gates_keep_a_pod_out_and_are_named():
    gated = PodView(decode.convert(pod(schedulingGates=[{"name": "quota"}, {"name": "audit"}]), objects.Pod))
    reason = SchedulingGates().pre_enqueue(gated)
    assert reason.text == "waiting for scheduling gates: [quota audit]"
    assert SchedulingGates().pre_enqueue(PodView(decode.convert(pod(), objects.Pod))) is None


def test_higher_priority_goes_first_and_equals_keep_their_order():
    waiting = [
        PodView(decode.convert(pod(name, priority=priority), objects.Pod)) for name, priority in [("a", 1), ("b", 5), ("c", None), ("d", 5)]
    ]
    assert [each.name for each in sorted(waiting, key=PrioritySort().sort_key)] == ["b", "d", "a", "c"]


def test_a_pod_with_resource_claims_is_not_placed_and_reports_it():
    decision = decide(state([node("a")]), pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}]))
    assert decision.message == '0/1 nodes are available: could not find ResourceClaim "default/one". no new claims to deallocate'


def test_a_malformed_selector_is_refused_in_words():
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]},
    }
    decision = decide(state([node("a")]), pod(topologySpreadConstraints=[constraint]))
    assert decision.message.startswith("0/1 nodes are available: topology spread constraints cannot be read: ")
    term = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
    terms = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert decide(state([node("a")]), pod(affinity=terms)).message.startswith("0/1 nodes are available: pod affinity cannot be read: ")
    ours = decide(state([node("a")], [pod("other", on="a", affinity=terms)]), pod())
    assert ours.node == "a"  # a placed pod's broken term is ignored
