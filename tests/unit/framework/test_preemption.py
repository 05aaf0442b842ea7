"""Preemption and nominated pods: messages, victims, and the effect of a nominated pod on others."""

from __future__ import annotations

import pytest

from tests.unit.framework.kube import decide, node, pod, state
from wharfinger.framework import chain
from wharfinger.framework.evaluation import cycle
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

FULL = "0/1 nodes are available: 1 Insufficient cpu."
LONG_AGO, LATELY = {"startTime": "2026-01-01T00:00:00Z"}, {"startTime": "2026-02-01T00:00:00Z"}


def low(name, *, on="a", cpu="2", priority=0, status=None, **spec):
    return pod(name, on=on, requests={"cpu": cpu}, priority=priority, status=status or LONG_AGO, **spec)


def high(cpu="2", **spec):
    return pod(requests={"cpu": cpu}, **{"priority": 10, **spec})


def outcome(cluster, pending):
    decision = decide(cluster, pending, preempt=True)
    return decision.nominated, sorted(victim.name for victim in decision.victims)


def test_the_fewest_and_least_important_pods_are_victims():
    cluster = state([node("a")], [low("old", cpu="1"), low("young", cpu="1", status=LATELY), low("middle", cpu="2", priority=5)])
    assert outcome(cluster, high("1")) == ("a", ["young"])
    assert outcome(cluster, high("2")) == ("a", ["old", "young"])
    assert outcome(cluster, high("4")) == ("a", ["middle", "old", "young"])


def test_pods_that_have_not_started_are_evicted_first():
    cluster = state([node("a")], [low("begun", status=LATELY), low("new", status={"phase": "Pending"})])
    assert outcome(cluster, high()) == ("a", ["new"])


def test_pods_of_equal_priority_stay():
    decision = decide(state([node("a")], [low("x", priority=10, cpu="4")]), high(), preempt=True)
    assert (
        decision.message
        == f"{FULL} no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_nodes_that_no_removal_helps_are_counted():
    cluster = state(
        [node("a"), node("small", offer={"cpu": "1"}), node("tainted", taints=[{"key": "t", "effect": "NoSchedule"}])],
        [low("x", cpu="4", priority=99)],
    )
    decision = decide(cluster, high(), preempt=True)
    assert decision.message.endswith(
        "no new claims to deallocate, preemption: 0/3 nodes are available: "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )


def test_a_pod_refused_as_a_whole_preempts_no_pod():
    cluster = state([node("a")], [low("x", cpu="4")])
    decision = decide(cluster, high(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]), preempt=True)
    assert decision.message == (
        '0/1 nodes are available: persistentvolumeclaim "none" not found. not found'  # DynamicResources has not looked at the pod
    )
    assert decision.nominated is None


def test_a_pod_that_never_preempts_says_so():
    decision = decide(state([node("a")], [low("x", cpu="4")]), high(preemptionPolicy="Never"), preempt=True)
    assert decision.message == f"{FULL} no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."


@pytest.mark.parametrize(
    ("nodes", "pods", "best"),
    [
        ("ab", [low("x", on="a", cpu="4", priority=5), low("y", on="b", cpu="4", priority=3)], "b"),  # lowest highest priority
        ("ab", [low("x", on="a"), low("x2", on="a"), low("y", on="b", cpu="4")], "b"),  # lowest sum, hence fewest
        ("ab", [low("x", on="a", cpu="4"), low("y", on="b", cpu="4", status=LATELY)], "b"),  # latest start
        ("ba", [low("x", on="b", cpu="4"), low("y", on="a", cpu="4")], "a"),  # by name, whatever the order
    ],
)
def test_the_node_is_chosen_by_kubernetes_criteria(nodes, pods, best):
    assert outcome(state([node(name) for name in nodes], pods), high("3"))[0] == best


def budget(allowed, **status):
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, **status},
    }


@pytest.mark.parametrize(
    ("status", "best"),
    [({"allowed": 0}, "b"), ({"allowed": 1}, "a"), ({"allowed": 0, "disruptedPods": {"x": "2026-01-01T00:00:00Z"}}, "a")],
)
def test_broken_budgets_come_before_everything(status, best):
    cluster = state(
        [node("a"), node("b")],
        [low("x", on="a", cpu="4", labels={"app": "web"}), low("y", on="b", cpu="4", priority=9)],
        podDisruptionBudgets=[budget(**status)],
    )
    assert outcome(cluster, high("3"))[0] == best


def test_a_budget_is_counted_down_victim_by_victim():
    pods = [low(f"x{n}", cpu="1", labels={"app": "web"}) for n in range(4)]
    cluster = state([node("a"), node("b")], [*pods, low("y", on="b", cpu="4", priority=9)], podDisruptionBudgets=[budget(2)])
    assert outcome(cluster, high("2")) == ("a", ["x0", "x1"])  # two may leave: the other two are over budget, and return first
    assert outcome(cluster, high("3"))[0] == "b"


def test_affinity_and_ports_are_resolved_by_removal_too():
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]
        }
    }
    cluster = state([node("a")], [low("x", cpu="1")])
    assert outcome(cluster, high("1", affinity=apart)) == ("a", ["x"])
    cluster = state([node("a")], [low("x", cpu="1", ports=[{"hostPort": 80}]), low("y", cpu="1")])
    assert outcome(cluster, high("1", ports=[{"hostPort": 80}])) == ("a", ["x"])


def view(plain):
    return PodView(decode.convert(plain, objects.Pod))


def test_a_nominated_pod_holds_its_place_against_equals_and_lesser_pods_only():
    cluster = state([node("a")])
    cluster.nominate(view(pod("guest", requests={"cpu": "3"}, priority=10)), "a")
    assert decide(cluster, high("2", priority=10)).message == f"{FULL} no new claims to deallocate"
    assert decide(cluster, high("2", priority=11)).node == "a"
    assert decide(cluster, high("1", priority=10)).node == "a"
    crowded = decide(cluster, high("2", priority=10))
    assert crowded.rejections_at("a") == ("with nominated pods: Insufficient cpu",)
    assert crowded.feasible == 0


def test_a_nominated_pod_is_not_crowded_out_by_itself():
    cluster = state([node("a")])
    guest, twin = (view(pod(name, requests={"cpu": "3"}, priority=10)) for name in ("guest", "twin"))
    cluster.nominate(guest, "a")
    decider = cycle.Decider(chain.assemble())
    assert [decider.decide(cluster.snapshot(), each).node for each in (guest, twin, guest)] == ["a", None, "a"]


def test_room_is_not_made_where_it_is_being_made_for_another():
    cluster = state([node("a"), node("b")], [low("x", on="a", cpu="4"), low("y", on="b", cpu="4", priority=5)])
    cluster.nominate(view(high("3") | {"metadata": {"name": "guest", "uid": "guest"}}), "a")
    assert outcome(cluster, high("3")) == ("b", ["y"])


def test_a_pod_waits_for_its_victims_to_go():
    leaving = low("x", cpu="4", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    leaving["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
    cluster = state([node("a"), node("b")], [leaving, low("y", on="b", cpu="4")])
    waiting = high("3")
    cluster.nominate(view(waiting), "a")
    decision = decide(cluster, waiting, preempt=True)
    assert decision.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert decision.nominated is None


def test_the_kept_search_follows_the_cluster():
    cluster = state([node(name) for name in "abc"], [low(f"x{name}", on=name, cpu="4", priority=n) for n, name in enumerate("abc")])
    decider = cycle.Decider(chain.assemble())
    asking = view(high("3"))
    found = []
    for _ in range(4):
        decision = decider.decide(cluster.snapshot(), asking)
        found.append(decision.nominated)
        for victim in decision.victims:
            cluster.remove_pod(victim)
            cluster.add_pod(view(low(f"{victim.name}-again", on=decision.nominated, cpu="4", priority=50)))
    assert found == ["a", "b", "c", None]
