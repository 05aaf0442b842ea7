"""Plans of moves: every moved pod has a place when its turn comes, limits are respected, and goals are reached."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.unit.compiler.texts import compiled
from tests.unit.framework.kube import node, pod, state
from tests.unit.simulate.test_groups import pod_group
from tests.unit.what_if.test_drain import owned
from tests.unit.what_if.test_evictions import WEB, budget
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.what_if.leaving_pods import cordoned, recreated
from wharfinger.what_if.rebalance.movable import Limits
from wharfinger.what_if.rebalance.plan import Goal, PlanOptions, rebalance

PACK = compiled('policy "pack"\nscore full weight 100 = node.requested.cpu normalize minmax')
GPU = "nvidia.com/gpu"
MILLI = "alibabacloud.com/gpu-milli"


def planned(cluster, *goals, policies=(), waiting=(), **plan_options):
    return rebalance(assemble(policies), cluster, PlanOptions(goals=goals, **plan_options), waiting)


def moves(plan):
    return [(move.pod.removeprefix("default/"), move.source, move.target) for move in plan.moves]


def asking(name, on, requests, **more):
    one = owned(name, on=on, **more)
    one["spec"]["containers"][0]["resources"]["requests"].update(requests)
    return one


def test_the_node_that_takes_fewest_moves_is_freed_and_empty_nodes_stay_empty():
    cluster = state([node("a"), node("b"), node("c")], [owned("one"), owned("two", on="b"), owned("three", on="b")])
    plan = planned(cluster, Goal.FREE_NODES)
    assert moves(plan) == [("one", "a", "b")]
    assert (plan.goals[0].before, plan.goals[0].after, plan.goals[0].moves) == (1, 2, 1)
    assert plan.moves[0].cordon == ("a", "c")
    assert plan.uncordon == ("a", "c")


@pytest.mark.parametrize(
    ("plan_options", "n_moves"), [({"cost": 0.4}, 2), ({"cost": 0.5}, 0), ({"most_moves": 1}, 0), ({"most_cordons": 1}, 2)]
)
def test_the_limit_of_costs_decides_about_freeing_a_node(plan_options, n_moves):
    pods = [owned("one"), owned("two"), owned("large", on="b", cpu="5")]
    plan = planned(state([node("a"), node("b", offer={"cpu": "8"})], pods), Goal.FREE_NODES, **plan_options)
    assert len(plan.moves) == n_moves


def test_too_few_nodes_may_be_cordoned_to_keep_the_pods_together():
    cluster = state([node(name) for name in "abcd"], [owned("one"), owned("two", on="b")])
    assert planned(cluster, Goal.FREE_NODES, most_cordons=2).moves == ()
    assert planned(cluster, Goal.FREE_NODES, most_cordons=3).most_cordoned == 3


def test_a_share_moves_where_it_breaks_no_whole_gpu():
    nodes = [node(name, offer={"cpu": "8", GPU: "2", MILLI: "2000"}) for name in ("a", "b", "c")]
    plan = planned(state(nodes, [asking("low", "a", {MILLI: "300"}), asking("high", "b", {MILLI: "600"})]), Goal.FREE_GPUS)
    assert (plan.goals[0].before, plan.goals[0].after) == (4, 5)
    assert len(plan.moves) == 1
    assert {plan.moves[0].source, plan.moves[0].target} == {"a", "b"}


def test_whole_gpus_that_moves_cannot_change_are_reported():
    with pytest.raises(UsageError, match="no node offers"):
        planned(state([node("a")]), Goal.FREE_GPUS)
    with pytest.raises(UsageError, match="is a whole one"):
        planned(state([node("a", offer={GPU: "2"})]), Goal.FREE_GPUS)
    nodes = [node(name, offer={GPU: "2", "cpu": "4"}) for name in "ab"]
    plan = planned(state(nodes, [asking("one", "a", {GPU: "1"}), asking("two", "b", {GPU: "1"})]), Goal.FREE_GPUS, unit={GPU: 2})
    assert (plan.goals[0].before, plan.goals[0].after, len(plan.moves)) == (0, 1, 1)


def test_pods_leave_nodes_that_rules_reject():
    policy = compiled(
        'policy "pools"\nfilter own { require node.labels["pool"] == pod.labels["pool"] else "other pool" on missing reject }'
    )
    nodes = [node("a", labels={"pool": "x"}), node("b", labels={"pool": "y"})]
    pods = [
        owned("wrong", metadata={"labels": {"pool": "y"}}),
        owned("right", metadata={"labels": {"pool": "x"}}),
        owned("stuck", metadata={"labels": {"pool": "z"}}),
    ]
    plan = planned(state(nodes, pods), Goal.VIOLATIONS, policies=(policy,))
    assert moves(plan) == [("wrong", "a", "b")]
    assert plan.moves[0].why == "ends: pools/own: other pool"
    assert (plan.goals[0].before, plan.goals[0].after) == (2, 1)
    assert plan.left == ("default/stuck (pools/own: other pool) stays: no other node has room, or no move is left",)


def test_only_pods_that_must_leave_do():
    cluster = state([node("a", offer={"cpu": "2"}), node("b")], [owned("one"), owned("two"), owned("three")])
    plan = planned(cluster, Goal.VIOLATIONS)
    assert (len(plan.moves), plan.goals[0].before, plan.goals[0].after) == (1, 3, 0)


def test_points_are_gained_best_first():
    cluster = state([node("a"), node("b")], [owned("one"), owned("two", on="b"), owned("three", on="b")])
    plan = planned(cluster, Goal.POINTS, policies=(PACK,), cost=10)
    assert moves(plan) == [("one", "a", "b")]
    assert plan.goals[0].after > 10


STAYING = [
    (pod("p", on="a"), {}, "no controller"),
    (owned("p", kind="DaemonSet"), {}, "DaemonSet"),
    (owned("p", kind="Job"), {}, "Job"),
    (owned("p", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}), {}, "static pod"),
    (owned("p", metadata={"namespace": "kube-system"}), {}, "namespace kube-system"),
    (owned("p", metadata={"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}), {}, "safe-to-evict"),
    (owned("p", volumes=[{"name": "v", "emptyDir": {}}]), {}, "emptyDir"),
    (owned("p", priority=2_000_000_000), {}, "priority is above"),
    (owned("p"), {"namespaces": frozenset({"shop"})}, "another namespace"),
    (owned("p"), {"scheduler": "other"}, "another scheduler"),
    (owned("p", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}), {"min_age_seconds": 60.0}, "younger than 60 s"),
    (owned("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), {}, "being deleted"),
]


@pytest.mark.parametrize(("one", "limits", "words"), STAYING, ids=[words for *_, words in STAYING])
def test_a_pod_that_must_not_move_stays_with_a_reason(one, limits, words):
    plan = planned(state([node("a"), node("b")], [one, owned("other", on="b")]), Goal.FREE_NODES, limits=Limits(**limits))
    assert all(move.pod.endswith("/other") for move in plan.moves)
    assert any(words in reason for reason in plan.staying)


def test_a_budget_without_disruptions_and_a_policy_keep_pods():
    labelled = owned("web", metadata={"labels": WEB})
    nodes = [node("a"), node("b")]
    other = owned("other", on="b", metadata={"labels": {"keep": "yes"}})
    cluster = state(nodes, [labelled, other], podDisruptionBudgets=[budget(desiredHealthy=1, currentHealthy=1)])
    protecting = compiled('policy "keep"\npreemption { never_evict when (it.labels["keep"] ?? "") == "yes" }')
    plan = planned(cluster, Goal.FREE_NODES, policies=(protecting,))
    assert plan.moves == ()
    assert sorted(plan.staying) == [
        "PodDisruptionBudget default/web: needs 1 healthy pod and has 1",
        "a policy protects it (never_evict or only_evict)",
    ]


def test_pending_pods_that_have_a_place_are_placed_first_and_keep_it():
    waiting = PodView(decode.convert(pod("waiting", requests={"cpu": "3"}), objects.Pod))
    cluster = state([node("a", offer={"cpu": "4"}), node("b", offer={"cpu": "4"})], [owned("one", cpu="2"), owned("two", on="b", cpu="1")])
    plan = planned(cluster, Goal.FREE_NODES, waiting=[waiting])
    assert plan.placed_first == ("default/waiting",)
    assert plan.moves == ()


@pytest.mark.parametrize(("label", "expected"), [("web", [("other", "b", "a")]), ("other", [("one", "a", "b")])])
def test_no_move_lets_in_a_waiting_pod_which_could_take_the_place_of_the_moved_one(label, expected):
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": label}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    waiting = PodView(decode.convert(pod("waiting", affinity=apart, nodeSelector={"zone": "z"}), objects.Pod))
    other = owned("other", on="b", labels={"app": "other"})
    cluster = state([node("a", labels={"zone": "z"}), node("b", labels={"zone": "z"})], [owned("one", labels=WEB), other])
    plan = planned(cluster, Goal.FREE_NODES, waiting=[waiting])
    assert plan.placed_first == ()
    assert moves(plan) == expected


@pytest.mark.parametrize(("cpu", "expected"), [("5", [("one", "a", "c"), ("two", "b", "c")]), ("4", [("one", "a", "c")])])
def test_a_waiting_pod_gets_no_place_on_a_node_that_is_uncordoned(cpu, expected):
    best = compiled('policy "best"\nscore c weight 100 = if node.name == "c" then 100 else 0')
    nodes = [node("a"), node("b"), node("c", offer={"cpu": "8"})]
    cluster = state(nodes, [owned("one", cpu="2500m"), owned("two", on="b"), owned("three", on="c", cpu="4400m")])
    waiting = PodView(decode.convert(pod("waiting", requests={"cpu": cpu}), objects.Pod))
    plan = planned(cluster, Goal.POINTS, policies=(best,), waiting=[waiting])
    assert moves(plan) == expected


def gang(*cpus, **more):
    """Waiting members of a group that needs all of them, and its PodGroup."""
    named = {"schedulingGroup": {"podGroupName": "gang"}}
    pods = [PodView(decode.convert(pod(f"gang-{i}", requests={"cpu": cpu}, **named, **more), objects.Pod)) for i, cpu in enumerate(cpus)]
    return pods, pod_group("gang", len(cpus))


@pytest.mark.parametrize(("cpu", "expected"), [("2500m", [("one", "a", "c"), ("two", "b", "c")]), ("2", [("one", "a", "c")])])
def test_a_waiting_group_gets_no_place_on_a_node_that_is_uncordoned(cpu, expected):
    best = compiled('policy "best"\nscore c weight 100 = if node.name == "c" then 100 else 0')
    nodes = [node("a"), node("b"), node("c", offer={"cpu": "8"})]
    waiting, group = gang(cpu, cpu, nodeSelector={"kubernetes.io/hostname": "a"})
    cluster = state(nodes, [owned("one", cpu="2500m"), owned("two", on="b"), owned("three", on="c", cpu="4400m")])
    cluster.put(group)
    plan = planned(cluster, Goal.POINTS, policies=(best,), waiting=waiting)
    assert plan.placed_first == ()
    assert moves(plan) == expected


@pytest.mark.parametrize(("label", "expected"), [("web", [("other", "b", "a")]), ("other", [("one", "a", "b")])])
def test_no_move_lets_in_a_waiting_group_which_could_take_the_place_of_the_moved_pod(label, expected):
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": label}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    waiting, group = gang("100m", "100m", affinity=apart, nodeSelector={"zone": "z"})
    other = owned("other", on="b", labels={"app": "other"})
    cluster = state([node("a", labels={"zone": "z"}), node("b", labels={"zone": "z"})], [owned("one", labels=WEB), other])
    cluster.put(group)
    plan = planned(cluster, Goal.FREE_NODES, waiting=waiting)
    assert plan.placed_first == ()
    assert moves(plan) == expected


def test_a_later_goal_undoes_nothing_of_an_earlier_one():
    spread = compiled('policy "spread"\nscore empty weight 100 = node.free.cpu normalize minmax')
    cluster = state([node("a"), node("b"), node("c")], [owned(f"p{i}", on="abc"[i % 3], cpu="100m") for i in range(6)])
    plan = planned(cluster, Goal.FREE_NODES, Goal.POINTS, policies=(spread,))
    assert plan.goals[0].after == 2
    assert int((cluster.snapshot().pod_count == 0).sum()) == 2


AMOUNTS = st.sampled_from(["100m", "500m", "1", "2", "3"])


@given(
    st.lists(st.tuples(st.integers(0, 3), AMOUNTS, st.sampled_from(["ReplicaSet", "Job", "StatefulSet"])), max_size=12),
    st.sampled_from(list(Goal)),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_carried_out_step_by_step_every_pod_goes_where_the_plan_says(given_pods, goal, packed):
    """Each step repeated on a fresh state with the plain `decide`: cordons, eviction, decision."""
    nodes = [node(f"n{i}", offer={"cpu": "4", "pods": "10", GPU: "2", MILLI: "2000"}) for i in range(4)]
    pods = []
    for number, (place, cpu, kind) in enumerate(given_pods):
        pods.append(asking(f"p{number}", f"n{place}", {MILLI: "400"}, kind=kind, cpu=cpu))
    chain = assemble((PACK,) if packed else ())
    plan = rebalance(chain, state(nodes, pods), PlanOptions(goals=(goal,)))
    world = state(nodes, pods)
    placed = {view.uid: view for view, _ in world.placements()}
    opened = {each["metadata"]["name"]: decode.convert(each, objects.Node) for each in nodes}
    assert len({move.uid for move in plan.moves}) == len(plan.moves)
    for move in plan.moves:
        for name in move.uncordon:
            world.update_node(opened[name])
        for name in move.cordon:
            world.update_node(cordoned(opened[name]))
        assert placed[move.uid].node_name == move.source
        assert placed[move.uid].controller.kind != "Job"
        world.remove_pod(placed[move.uid])
        again = recreated(placed[move.uid])
        assert decide(chain, world.snapshot(), again).node == move.target
        world.assume(again, move.target)
    assert world.snapshot().pod_count.sum() == len(pods)
    (reached,) = plan.goals
    gained = sum(move.gain for move in plan.moves)
    if goal is Goal.VIOLATIONS:
        assert gained <= reached.before - reached.after  # the violations of other pods may end too
    else:
        assert gained == pytest.approx(reached.after - reached.before)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "its group stays within one rack"),
        ({"disruptionMode": "PodGroup"}, "its group is disrupted as a whole"),
        ({}, None),
    ],
)
def test_a_plan_breaks_no_group_apart(spec, reason):
    lone = owned("one")
    lone["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    cluster = state([node("a"), node("b"), node("c")], [lone, owned("two", on="b"), owned("three", on="b")])
    manifest = {"metadata": {"name": "gang", "namespace": "default"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, **spec}}
    cluster.put(decode.convert(manifest, objects.PodGroup))
    plan = planned(cluster, Goal.FREE_NODES)
    assert ("one" in [name for name, _, _ in moves(plan)]) == (reason is None)
    assert (reason in dict(plan.staying)) == (reason is not None)


@pytest.mark.parametrize(
    ("least", "waits", "gates", "reason"),
    [
        (
            2,
            True,
            (),
            "members of its group have no node, or are being deleted, and its replacement would be placed only together with them",
        ),
        (
            2,
            True,
            ("wait",),
            "members of its group have no node, or are being deleted, and its replacement would be placed only together with them",
        ),
        (2, False, (), "its group has fewer members than it needs, so its replacement would wait"),
        (1, False, (), None),
        (None, False, (), "its group has no PodGroup, for which its replacement would wait"),
    ],
)
def test_a_member_of_a_group_moves_only_if_its_replacement_is_placed_alone(least, waits, gates, reason):
    gang = {"schedulingGroup": {"podGroupName": "gang"}}
    lone = owned("one")
    lone["spec"] |= gang
    cluster = state([node("a"), node("b"), node("c")], [lone, owned("two", on="b"), owned("three", on="b")])
    if least is not None:
        cluster.put(pod_group("gang", least))
    gated = {"schedulingGates": [{"name": name} for name in gates]}
    others = [] if not waits else [PodView(decode.convert(pod("other", requests={"cpu": "9"}, **gang, **gated), objects.Pod))]
    plan = planned(cluster, Goal.FREE_NODES, waiting=others)
    assert ("one" in [name for name, _, _ in moves(plan)]) == (reason is None)
    assert (reason in dict(plan.staying)) == (reason is not None)


@pytest.mark.parametrize("goal", list(Goal))
@pytest.mark.parametrize("steps", [0, 1, 3, 10, 40])
def test_a_search_that_is_interrupted_leaves_a_plan_that_holds(goal, steps):
    nodes = [node(f"n{i}", offer={"cpu": "4", "pods": "10", GPU: "2", MILLI: "2000"}) for i in range(4)]
    pods = [asking(f"p{number}", f"n{number % 4}", {MILLI: "400"}, cpu="500m") for number in range(7)]
    cluster, chain, left = state(nodes, pods), assemble((PACK,)), [steps]

    def interrupted():
        left[0] -= 1
        return left[0] < 0

    plan = rebalance(chain, cluster, PlanOptions(goals=(goal,)), interrupted=interrupted)
    assert plan.interrupted == (left[0] < 0)
    at = {view.uid: view.node_name for view, _ in cluster.placements()}
    assert len(at) == len(pods)
    assert [at[move.uid] for move in plan.moves] == [move.target for move in plan.moves]
    closed = {cluster.snapshot().names[row] for row in cluster.snapshot().unschedulable.nonzero()[0]}
    assert closed == set(plan.uncordon)


@pytest.mark.parametrize("name", [f"p{number}" for number in range(6)])
def test_free_nodes_that_a_tie_break_leaves_equal_to_the_target_are_cordoned_and_no_others(name):
    rank = compiled('policy "rank"\nscore none weight 1000 = 0 * least_allocated()\ntie_break number(node.labels["rank"] ?? "") asc')
    ranks = {"a": "1", "b": "3", "c": "2", "d": "1", "e": "1"}
    nodes = [node(each, labels={"rank": rank}, offer={"cpu": "16"}) for each, rank in ranks.items()]
    there = [pod(f"on-{each}", on=each, requests={"cpu": "1"}) for each in "bcd"]
    plan = planned(state(nodes, [owned(name, cpu="1"), *there]), Goal.FREE_NODES, policies=[rank])
    assert [(move.source, move.target, move.cordon, move.ties) for move in plan.moves] == [("a", "d", ("a", "e"), 1)]
