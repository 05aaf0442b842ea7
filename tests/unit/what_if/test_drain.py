"""The new nodes of the pods of drained nodes, and the pods that cannot leave."""

import pytest
from msgspec import structs

from tests.unit.framework.kube import node, pod, state
from tests.unit.groups.test_placing import RACK, member
from tests.unit.simulate.clusters import chain_of
from tests.unit.simulate.test_groups import cluster as gang_cluster
from tests.unit.simulate.test_groups import pod_group
from tests.unit.what_if.test_evictions import WEB, budget
from wharfinger.errors import UnknownObject
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.steps import at_once
from wharfinger.what_if.drain.answer import DrainOutcome
from wharfinger.what_if.drain.plan import drain, drain_steps
from wharfinger.what_if.supposed_changes import SupposedChanges


def owned(name, *, on="a", kind="ReplicaSet", cpu="1", metadata=None, **more):
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": f"{name}-owner", "controller": True}
    return pod(name, on=on, requests={"cpu": cpu}, metadata={"ownerReferences": [owner], **(metadata or {})}, **more)


def drained(cluster, *names, **how):
    return drain(assemble(), cluster, names or ("a",), **how)


def outcomes(result):
    """(name, outcome, node, step) of each pod."""
    return [(each.pod.removeprefix("default/"), each.outcome.value, each.node, each.step) for each in result.pods]


def test_pods_leave_in_the_order_of_the_queue_for_nodes_with_room():
    cluster = state([node("a"), node("b"), node("c", offer={"cpu": "1"})], [owned("low"), owned("high", cpu="4", priority=5)])
    result = drained(cluster)
    assert outcomes(result) == [("high", "placed", "b", 1), ("low", "placed", "c", 1)]
    assert (result.steps, result.clean, result.removed, result.has_budgets) == (1, True, False, False)
    assert result.before.pods == result.after.pods == 2
    assert cluster.snapshot().node(0).object.spec.unschedulable


def test_a_node_that_is_drained_later_takes_none_of_the_earlier_ones_pods():
    cluster = state([node("a"), node("b"), node("c")], [owned("one"), owned("two", on="b")])
    assert outcomes(drained(cluster, "a", "b")) == [("one", "placed", "c", 1), ("two", "placed", "c", 2)]


def test_a_pod_that_finds_no_node_waits_with_a_reason():
    result = drained(state([node("a"), node("b", offer={"cpu": "1"})], [owned("large", cpu="3")]))
    assert outcomes(result) == [("large", "waits", None, 1)]
    assert result.pods[0].reason.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable")
    assert not result.clean


STATIC = {"annotations": {"kubernetes.io/config.mirror": "x"}}
EMPTY_DIR = [{"name": "v", "emptyDir": {}}]


@pytest.mark.parametrize(
    ("one", "how", "outcome", "words"),
    [
        (owned("p", kind="DaemonSet"), {}, DrainOutcome.STAYS, "DaemonSet"),
        (owned("p", kind="Node", metadata=STATIC), {}, DrainOutcome.STAYS, "static pod"),
        (pod("p", on="a"), {}, DrainOutcome.REFUSED, "--force"),
        (pod("p", on="a"), {"force": True}, DrainOutcome.GONE, "no controller creates it again"),
        (owned("p", volumes=EMPTY_DIR), {}, DrainOutcome.REFUSED, "--delete-emptydir-data"),
        (owned("p", volumes=EMPTY_DIR), {"delete_empty_dir_data": True}, DrainOutcome.PLACED, ""),
        (pod("p", on="a", volumes=EMPTY_DIR), {"force": True}, DrainOutcome.REFUSED, "--delete-emptydir-data"),
        (owned("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), {}, DrainOutcome.GONE, "deleted already"),
        (owned("p", kind="StatefulSet", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), {}, DrainOutcome.PLACED, ""),
        (owned("p", kind="DaemonSet", volumes=EMPTY_DIR), {}, DrainOutcome.STAYS, "DaemonSet"),
    ],
)
def test_pods_are_treated_as_kubectl_treats_them(one, how, outcome, words):
    cluster = state([node("a"), node("b")], [one])
    [found] = drained(cluster, **how).pods
    assert found.outcome is outcome
    assert words in found.reason
    still_there = {placed.name for placed in cluster.snapshot().pods_on(0)}
    assert still_there == ({"p"} if outcome in {DrainOutcome.STAYS, DrainOutcome.REFUSED} else set())


def test_finished_pods_are_not_asked_about():
    assert drained(state([node("a"), node("b")], [pod("done", on="a", status={"phase": "Succeeded"})])).pods == ()


def web(n, **more):
    return [owned(f"web-{i}", labels=WEB, **more) for i in range(n)]


def test_a_budget_makes_steps():
    result = drained(state([node("a"), node("b")], web(3), podDisruptionBudgets=[budget(allowed=2, desiredHealthy=1, currentHealthy=3)]))
    assert outcomes(result) == [("web-0", "placed", "b", 1), ("web-1", "placed", "b", 1), ("web-2", "placed", "b", 2)]
    [use] = result.budgets
    assert (use.budget, use.pods, use.allowed, use.forbidden, use.forbids_now) == ("default/web", 3, 2, 0, True)


def test_a_budget_forbids_the_rest_when_replacements_wait():
    cluster = state(
        [node("a"), node("b", offer={"cpu": "1"})], web(3), podDisruptionBudgets=[budget(allowed=1, desiredHealthy=2, currentHealthy=3)]
    )
    result = drained(cluster)
    assert outcomes(result) == [
        ("web-0", "placed", "b", 1),
        ("web-1", "waits", None, 2),
        ("web-2", "forbidden", None, None),
    ]
    assert result.pods[2].reason == "PodDisruptionBudget default/web: needs 2 healthy pods and has 2"
    assert result.budgets[0].forbidden == 1


def test_a_pod_that_its_budget_forbade_at_first_leaves_after_a_later_node_has_helped():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    waiting = PodView(decode.convert(owned("web-1", on="", labels=WEB, affinity=affinity), objects.Pod))
    cluster = state(
        [node("a"), node("b"), node("c")],
        [owned("web-0", labels=WEB), owned("db", on="b", labels={"app": "db"})],
        podDisruptionBudgets=[budget(desiredHealthy=1, currentHealthy=1)],
    )
    result = drained(cluster, "a", "b", waiting=[waiting])
    assert outcomes(result) == [("db", "placed", "c", 1), ("web-0", "placed", "c", 2), ("web-1", "placed", "c", None)]


def test_removal_makes_room_where_a_cordoned_node_counted():
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
    }
    pods = [owned(f"web-{on}", on=on, labels=WEB, topologySpreadConstraints=[spread]) for on in "ab"]
    assert outcomes(drained(state([node("a"), node("b")], pods))) == [("web-a", "waits", None, 1)]
    result = drained(state([node("a"), node("b")], pods), remove=True)
    assert outcomes(result) == [("web-a", "placed", "b", 1)]
    assert (result.before.nodes, result.after.nodes) == (2, 1)


def test_a_pod_that_tolerates_the_cordon_may_return_and_moves_on_with_the_removal():
    everything = [{"operator": "Exists"}]
    nodes = [node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "ssd"}, offer={"cpu": "1"})]
    selector = {"nodeSelector": {"disk": "ssd"}}
    pods = [owned("agent", tolerations=everything, **selector)]
    assert outcomes(drained(state(nodes, pods))) == [("agent", "placed", "a", 1)]
    assert outcomes(drained(state(nodes, pods), remove=True)) == [("agent", "placed", "b", 1)]


def test_victims_of_preemption_move_on():
    cluster = state([node("a"), node("b", offer={"cpu": "2"}), node("c", offer={"cpu": "1"})], [owned("high", cpu="2", priority=9)])
    for each in (owned("low", on="b"), pod("bare", on="b", requests={"cpu": "1"})):
        cluster.add_pod(decode.convert(each, objects.Pod))
    result = drained(cluster)
    assert outcomes(result) == [("high", "placed", "b", 1), ("low", "placed", "c", 1), ("bare", "gone", None, 1)]
    assert [each.displaced_by for each in result.pods] == [None, "default/high", "default/high"]
    assert result.pods[0].placement.victims == ("default/low", "default/bare")


def required(label, key):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": label}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def prefers(name):
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": here}]}}


def being_preempted():
    """A node to drain, of which one pod needs preemption, and another has to be apart from the victim."""
    apart = {"affinity": {**required(WEB, "kubernetes.io/hostname"), **prefers("b")}}
    labelled = [
        node(name, labels={"kubernetes.io/hostname": name}, offer={"cpu": cpu}) for name, cpu in (("a", "4"), ("b", "3"), ("c", "1"))
    ]
    high, middle = owned("high", cpu="2", kind="StatefulSet", priority=9), owned("middle", kind="StatefulSet", priority=5, **apart)
    return state(labelled, [high, middle, owned("low", on="b", cpu="2", labels=WEB)])


def test_other_pods_are_tried_while_victims_of_preemption_still_count_on_their_node():
    result = drained(being_preempted())
    assert outcomes(result) == [("high", "placed", "b", 1), ("middle", "placed", "c", 1), ("low", "waits", None, 1)]
    assert [each.displaced_by for each in result.pods] == [None, None, "default/high"]


@pytest.mark.parametrize(("kind", "expected"), [("ReplicaSet", "apart"), ("Job", "roomy"), ("StatefulSet", "roomy")])
def test_only_a_replacement_that_is_created_at_once_avoids_the_pod_that_leaves(kind, expected):
    zone = "topology.kubernetes.io/zone"
    term = {"topologyKey": zone, "labelSelector": {"matchLabels": WEB}}
    rule = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}}
    zones = {"a": "here", "roomy": "here", "apart": "there"}
    offers = {"a": "4", "roomy": "100", "apart": "1"}
    nodes = [node(name, labels={zone: zones[name]}, offer={"cpu": offers[name]}) for name in zones]
    assert outcomes(drained(state(nodes, [owned("web", kind=kind, labels=WEB, affinity=rule)]))) == [("web", "placed", expected, 1)]


@pytest.mark.parametrize(("kind", "first"), [("ReplicaSet", "high"), ("StatefulSet", "high"), ("Job", "low")])
def test_the_replacement_of_a_job_comes_after_all_others(kind, first):
    pods = [owned("high", kind=kind, priority=9, preemptionPolicy="Never"), owned("low", kind="StatefulSet")]
    cluster = state([node("a"), node("b", offer={"cpu": "1"})], pods)
    assert [name for name, _, there, _ in outcomes(drained(cluster)) if there == "b"] == [first]


def test_a_victim_of_a_job_comes_after_all_others():
    nodes = [node("a"), node("b", offer={"cpu": "3"}), node("c", offer={"cpu": "1"})]
    job = owned("job", on="b", kind="Job", priority=2, preemptionPolicy="Never")
    victims = [job, owned("set", on="b", kind="StatefulSet", priority=1)]
    found = outcomes(drained(state(nodes, [owned("high", cpu="3", priority=9), *victims])))
    assert {name: there for name, _, there, _ in found} == {"high": "b", "set": "c", "job": None}


def test_a_supposed_drain_with_preemption_is_undone():
    cluster = being_preempted()
    with SupposedChanges(cluster) as supposed:
        result = at_once(drain_steps(Decider(assemble()), supposed, ["a"]))
        assert len(result.pods) == 3
    snapshot = cluster.snapshot()
    there = {placed.name: (placed.node_name, placed.terminating) for placed, assumed in cluster.placements() if not assumed}
    assert there == {"high": ("a", False), "middle": ("a", False), "low": ("b", False)}
    assert not snapshot.evicted
    assert not len(snapshot.nominated_rows)


def test_a_pod_that_no_change_wakes_does_not_preempt():
    failed = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    waiting = PodView(decode.convert(pod("waiting", requests={"cpu": "2"}, priority=9, status=failed), objects.Pod))
    cluster = state(
        [node("a", offer={"cpu": "1"}), node("b", offer={"cpu": "2"})], [owned("one", cpu="900m"), owned("low", on="b", cpu="1500m")]
    )
    assert outcomes(drained(cluster, waiting=[waiting])) == [("one", "waits", None, 1), ("waiting", "waits", None, None)]


def test_a_pod_that_evictions_wake_in_vain_may_preempt():
    """The pods of the drained node are one step. None of them makes room for the pod that waits, but each wakes it."""
    failed = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    waiting = PodView(decode.convert(pod("waiting", requests={"cpu": "2"}, priority=9, status=failed), objects.Pod))
    leaving = [owned(name, kind="StatefulSet", cpu="2") for name in ("one", "two")]
    cluster = state([node("a"), node("b", offer={"cpu": "2"})], [*leaving, owned("low", on="b", cpu="1500m")])
    result = drained(cluster, waiting=[waiting])
    assert {each.pod.removeprefix("default/"): (each.node, each.step, each.displaced_by) for each in result.pods} == {
        "one": (None, 1, None),
        "two": (None, 1, None),
        "low": (None, 1, "default/waiting"),
        "waiting": ("b", None, None),
    }


def test_a_pod_that_the_drain_has_evicted_leaves_in_that_step_also_if_its_replacement_is_evicted_by_preemption():
    cluster = state([node("a"), node("b", offer={"cpu": "2"})], [owned("low"), owned("high", cpu="2", kind="StatefulSet", priority=9)])
    result = drained(cluster)
    assert outcomes(result) == [("high", "placed", "b", 1), ("low", "waits", None, 1)]
    assert [each.displaced_by for each in result.pods] == [None, None]


@pytest.mark.parametrize(("allowed", "expected"), [(2, "b"), (1, "c")])
def test_preemption_reads_the_budgets_as_the_drain_has_left_them(allowed, expected):
    healthy = {"currentHealthy": allowed + 1, "desiredHealthy": 1}
    nodes = [node("a"), node("b", offer={"cpu": "2"}), node("c", offer={"cpu": "2"})]
    evicted = owned("evicted", kind="StatefulSet", labels=WEB)
    pods = [evicted, owned("high", cpu="2", kind="StatefulSet", priority=9), owned("guarded", on="b", labels=WEB)]
    cluster = state(nodes, [*pods, owned("other", on="c", priority=1)], podDisruptionBudgets=[budget(allowed=allowed, **healthy)])
    assert {name: on for name, _, on, _ in outcomes(drained(cluster))}["high"] == expected


def test_pods_that_wait_already_compete():
    waiting = PodView(decode.convert(pod("waiting", requests={"cpu": "4"}), objects.Pod))
    cluster = state([node("a"), node("b")], [owned("one")])
    result = drained(cluster, waiting=[waiting])
    assert outcomes(result) == [("one", "waits", None, 1), ("waiting", "placed", "b", None)]


ALL_TAINTS = {"tolerations": [{"operator": "Exists"}]}
NOT_WITH_WEB = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": WEB}}]
        }
    }
}


@pytest.mark.parametrize(
    ("waiting", "steps"),
    [
        pytest.param({}, 1, id="the cordon keeps it away"),
        pytest.param(ALL_TAINTS, 2, id="it tolerates the cordon"),
        pytest.param({**ALL_TAINTS, "nodeSelector": {"kubernetes.io/hostname": "b"}}, 1, id="it needs a node that stays"),
        pytest.param({"cpu": "1", **NOT_WITH_WEB}, 2, id="only a pod that leaves keeps it away from a node that stays"),
        pytest.param({"cpu": "3", **NOT_WITH_WEB}, 1, id="a node that stays has no room either"),
        pytest.param({"cpu": "3", "priority": 9}, 1, id="it has no victims on a node that stays"),
        pytest.param({"cpu": "3", "priority": 9, **NOT_WITH_WEB}, 2, id="what it can evict depends on a pod that leaves"),
    ],
)
def test_a_step_is_one_eviction_where_a_waiting_pod_may_take_the_place(waiting, steps):
    one = PodView(decode.convert(owned("waiting", on="", **{"cpu": "4", **waiting}), objects.Pod))
    nodes = [node("a", labels={"zone": "z"}), node("b", offer={"cpu": "2"}, labels={"zone": "z"})]
    result = drained(state(nodes, [*web(2), owned("other", on="b", cpu="1")]), waiting=[one])
    leaving = [each for each in result.pods if each.source == "a"]
    assert (result.steps, [each.step for each in leaving]) == (steps, [1, steps])
    assert [each.alone for each in leaving] == [steps == 2, False]  # the last one has no other


TRIED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@pytest.mark.parametrize(
    ("status", "cpu", "first"),
    [
        pytest.param(TRIED, "2", "younger", id="the older one is woken in vain"),
        pytest.param(TRIED, "4", "older", id="none is woken: the older one does not fit on the cordoned node"),
        pytest.param({"phase": "Pending"}, "2", "older", id="none is woken: the first attempt fails because of the cordon"),
    ],
)
def test_a_pod_that_an_eviction_wakes_in_vain_goes_behind_the_others(status, cpu, first):
    """Once the large pod has left, there are 3 cores on the cordoned node. Once the web pod has left, one of both fits on node b."""
    nodes = [node(name, labels={"zone": "z"}) for name in "ab"]
    older, younger = ({"metadata": {"creationTimestamp": f"2026-01-01T00:00:0{second}Z"}} for second in range(2))
    waits = [
        owned("older", on="", cpu=cpu, status=status, **NOT_WITH_WEB, **older),
        owned("younger", on="", cpu="4", status=status, nodeSelector={"kubernetes.io/hostname": "b"}, **NOT_WITH_WEB, **younger),
    ]
    leaving = [pod("large", on="a", requests={"cpu": "3"}, priority=5), pod("web", on="a", requests={"cpu": "1"}, labels=WEB)]
    result = drained(state(nodes, leaving), force=True, waiting=[PodView(decode.convert(each, objects.Pod)) for each in waits])
    assert {each.pod.removeprefix("default/") for each in result.pods if each.node == "b"} == {first}


HOT = """policy "cool nodes"
for pods where pod.name != "one"
metric load: percent = prometheus("node_load", max_age: 5min)
filter cool_nodes { require load < 80% else "it is hot" on missing pass }
"""


@pytest.mark.parametrize(
    ("load", "first"), [pytest.param(0.9, "one", id="rejected by a metric"), pytest.param(0.1, "waiting", id="too small")]
)
def test_no_change_wakes_a_pod_that_a_rule_about_a_metric_rejected(load, first):
    """One pod fits on the cordoned node. The replacement of the pod there may use no other one; the one that waits may, if it is cool."""
    here = {"nodeSelector": {"kubernetes.io/hostname": "a"}, **ALL_TAINTS}
    offers = {"a": "2", "b": "2" if load > 0.8 else "1"}
    nodes = [node(name, labels={"kubernetes.io/hostname": name}, offer={"cpu": cpu}) for name, cpu in offers.items()]
    cluster = state(nodes, [owned("one", cpu="2", **here)])
    cluster.set_metric("load", {name: (value, cluster.snapshot().now) for name, value in {"a": 0.1, "b": load}.items()})
    waiting = PodView(decode.convert(owned("waiting", on="", cpu="2", status=TRIED, **ALL_TAINTS), objects.Pod))
    result = drain(chain_of(HOT), cluster, ["a"], waiting=[waiting])
    assert [each.pod.removeprefix("default/") for each in result.pods if each.node == "a"] == [first]


def in_gang(name, **more):
    return owned(name, schedulingGroup={"podGroupName": "gang"}, **more)


@pytest.mark.parametrize(
    ("priority", "first"), [pytest.param(9, "urgent", id="more important"), pytest.param(1, "member", id="less important")]
)
def test_a_group_that_needs_preemption_is_decided_again_once_its_victims_are_gone(priority, first):
    """A pod that waits may take the room that preemption makes for a group, if it comes before the group in the queue."""
    urgent = owned("urgent", on="", priority=priority, status=TRIED, preemptionPolicy="Never")
    cluster = state([node("a"), node("b", offer={"cpu": "1"})], [in_gang("member", kind="StatefulSet", priority=5), owned("low", on="b")])
    cluster.put(pod_group("gang", 1))
    result = drained(cluster, waiting=[PodView(decode.convert(urgent, objects.Pod))])
    found = {each.pod.removeprefix("default/"): each for each in result.pods}
    assert {name for name, each in found.items() if each.node == "b"} == {first}
    assert found["low"].displaced_by == "default/member"
    assert [group.victims for group in result.groups] == [("default/low",) if first == "member" else ()]


def test_a_group_in_backoff_is_not_tried_at_once_with_a_member_that_comes():
    """The group has room for one more member. Once its backoff ends, its old member is gone too, and it has no room for both."""
    cluster = state([node("a", offer={"cpu": "1"}), node("b", offer={"cpu": "1"})], [in_gang("one")])
    cluster.put(pod_group("gang", 2))
    cluster.set_metric("load", dict.fromkeys("ab", (0.1, cluster.snapshot().now)))
    waiting = PodView(decode.convert(in_gang("waiting", on="", cpu="4", status=TRIED), objects.Pod))
    result = drain(chain_of(HOT), cluster, ["a"], waiting=[waiting])
    assert outcomes(result) == [("one", "waits", None, 1), ("waiting", "waits", None, None)]


def test_pods_that_are_being_deleted_do_not_count_for_the_spread_of_replacements():
    """Those of a StatefulSet are marked too before a replacement of the same step is placed."""
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": WEB}}
    nodes = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "x"}), node("c", labels={"zone": "y"})]
    early = owned("early", topologySpreadConstraints=[spread], affinity=prefers("b"), labels=WEB)
    pods = [owned("late", kind="StatefulSet", labels=WEB), early]
    assert {each.pod: each.node for each in drained(state(nodes, pods)).pods}["default/early"] == "b"


def test_an_unknown_node_is_named_with_the_nearest_one_and_nothing_changes():
    cluster = state([node("node-a"), node("node-b")], [owned("one", on="node-a")])
    revision = cluster.revision
    with pytest.raises(UnknownObject, match=r"there is no node nod-a; did you mean node-a\?"):
        drained(cluster, "node-b", "nod-a")
    assert cluster.revision == revision


@pytest.mark.parametrize(
    ("min_count", "becomes", "words"), [(2, "placed in part", "2 of 3 members have a node"), (3, "waits for room", "and it needs 3")]
)
def test_a_drain_says_what_becomes_of_the_groups_whose_members_leave(min_count, becomes, words):
    found, left = drained_gang(min_count)
    [group] = found.groups
    assert (group.group, group.state.value, group.placed, group.members) == ("default/gang", becomes, 2, 3)
    assert words in group.message
    assert left == {"gang-1": "r0-1", "gang-2": "r0-1"}


def test_members_that_leave_find_a_place_where_the_others_are():
    found, left = drained_gang(3, sizes=(3, 2))
    [group] = found.groups
    assert (group.state.value, group.placed, group.message) == ("placed", 3, "")
    assert left["gang-0"] == "r0-2"
    assert found.clean


def drained_gang(min_count, sizes=(2, 2)):
    """The drain of a node with one of three members of a group whose others fill the other node of the rack, and where the members are."""
    state = gang_cluster(pod_group("gang", min_count, RACK), sizes=sizes)
    for number, (on, cpu) in enumerate([("r0-0", 2), ("r0-1", 2), ("r0-1", 2)]):
        view = member(f"gang-{number}", cpu)
        spec = structs.replace(view.object.spec, scheduling_group=objects.PodSchedulingGroup(pod_group_name="gang"))
        owner = objects.OwnerReference(api_version="batch/v1", kind="Job", name="gang", uid="job", controller=True)
        metadata = structs.replace(view.object.metadata, owner_references=(owner,))
        state.add_pod(PodView(structs.replace(view.object, metadata=metadata, spec=spec)).placed_on(on))
    found = drain(assemble(), state, ["r0-0"])
    return found, {pod.name: pod.node_name for pod, _ in state.placements()}
