"""The points of Kubernetes' scores that a policy reads are those that the plugins themselves give, on any cluster."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.property import clusters, programs
from tests.property.test_cached_decision import as_values, compiled
from tests.property.test_evaluators import pending, same, scores_at, states
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import compile_policy
from wharfinger.framework import chain
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.language.semantics import typed
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

PLUGINS = {function.name: function.plugin for function in CATALOGUE.functions() if function.plugin is not None}
POLICY = 'policy "points"\n' + "\n".join(f"score s_{name} = {name}()" for name in PLUGINS)
OFF = POLICY + "\nbase kubernetes { " + " ".join(f"{plugin} weight 0" for plugin in PLUGINS.values()) + " }"
on, off = chain.assemble([compiled(POLICY)]), chain.assemble([compiled(OFF)])
often = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def test_every_such_function_names_another_plugin() -> None:
    assert sorted(PLUGINS.values()) == ["InterPodAffinity", "NodeAffinity", "PodTopologySpread", "TaintToleration"]


@often
@given(states(), pending)
def test_points_are_those_of_the_plugin(state: ClusterState, pod: PodView) -> None:
    snapshot = state.snapshot(now=1_010.0)
    decision, without = decide(on, snapshot, pod), decide(off, snapshot, pod)
    for node in decision.feasible_nodes():
        theirs = {part.name: part.points for part in decision.scores_at(node)}
        alone = {part.name: part.points for part in without.scores_at(node)}
        for name, plugin in PLUGINS.items():
            assert theirs[f"points/s_{name}"] == theirs.get(plugin, 0.0) == alone[f"points/s_{name}"], (node, name)
            assert plugin not in alone


LEAVES = {programs.Kind.NUMBER: [programs.call(name) for name in PLUGINS]}
EXPRESSIONS = programs.Expressions((programs.Subject.POD, programs.Subject.NODE), 2, LEAVES)


@often
@given(programs.policies(), st.lists(programs.scores(EXPRESSIONS), min_size=1, max_size=2), states(), pending, st.data())
def test_kernels_and_interpreter_agree(
    policy: typed.Policy, scores: list[typed.Score], state: ClusterState, pod: PodView, data: st.DataObject
) -> None:
    snapshot = state.snapshot(now=1_010.0)
    found = compile_policy(replace(policy, scores=tuple(scores)), programs.PARAMS)
    some = st.lists(st.integers(0, 100).map(float), min_size=snapshot.n_nodes, max_size=snapshot.n_nodes)
    points = {plugin: np.array(data.draw(some)) for plugin in PLUGINS.values()}
    bound = BoundPolicy(found, pod, snapshot)
    bound.use_points(points)
    interpreter = Interpreter(found.policy, found.params, pod, snapshot, points)
    for index, rule in enumerate(found.policy.scores):
        wanted = [interpreter.score(rule, row) for row in range(snapshot.n_nodes)]
        assert all(map(same, scores_at(bound, index, snapshot, slice(None)), wanted))
        for row in range(snapshot.n_nodes):
            assert same(scores_at(bound, index, snapshot, np.array([row]))[0], wanted[row])


@often
@given(states(), pending, st.data())
def test_points_are_the_latest(state: ClusterState, pod: PodView, data: st.DataObject) -> None:
    """A bound policy forgets what it computed once other points are there, although the cluster is the same."""
    snapshot = state.snapshot(now=1_010.0)
    bound = BoundPolicy(compiled(POLICY), pod, snapshot)
    for _ in range(2):
        points = {plugin: np.array([float(data.draw(st.integers(0, 100)))] * snapshot.n_nodes) for plugin in PLUGINS.values()}
        bound.use_points(points)
        for index, plugin in enumerate(PLUGINS.values()):
            assert bound.score(index, snapshot, slice(None))[0].tolist() == points[plugin].tolist()


MIXED = """
policy "mixed"
score liked weight 3 = (node_affinity_points() + 2 * pod_affinity_points()) / 3
score even weight 2 = topology_spread_points() normalize minmax
score marked = taint_points()
filter few { require node.pod_count < 5 and not node.unschedulable else "no" }
"""


def node_of(rng: random.Random, name: str) -> objects.Node:
    """A node that differs in what the four scores look at."""
    labels = {clusters.HOSTNAME: name, clusters.ZONE: rng.choice("abc")} | ({"disk": "ssd"} if rng.random() < 0.5 else {})
    taint = objects.Taint(key="old", value="x", effect="PreferNoSchedule")
    return objects.Node(
        metadata=objects.ObjectMeta(name=name, labels=labels),
        spec=objects.NodeSpec(taints=(taint,) * rng.randint(0, 2), unschedulable=rng.random() < 0.1),
        status=objects.NodeStatus(allocatable={"cpu": "64", "memory": "64Gi", "pods": "110"}),
    )


def pod_of(name: str, app: str, plan_options: dict[str, Any], node: str = "") -> objects.Pod:
    metadata = objects.ObjectMeta(name=name, namespace="web", uid=name, labels={"app": app})
    return objects.Pod(metadata=metadata, spec=objects.PodSpec(containers=(objects.Container(name="c"),), node_name=node, **plan_options))


@pytest.mark.parametrize("seed", range(4))
def test_remembered_decisions_follow_the_points(seed: int) -> None:
    """Most steps here change the points of a few nodes, and leave what is remembered otherwise in use."""
    rng, state = random.Random(seed), ClusterState()
    names = [f"n{number}" for number in range(12)]
    for name in names:
        state.add_node(node_of(rng, name))
    decider = Decider(chain.assemble([compiled(MIXED)]))
    askers = [PodView(pod_of(f"asker-{number}", "a", plan_options)) for number, plan_options in enumerate(clusters.WISHES[2:])]
    running: list[objects.Pod] = []
    for step in range(40):
        if rng.random() < 0.15:
            state.add_node(node_of(rng, rng.choice(names)))
        elif running and rng.random() < 0.3:
            state.remove_pod(running.pop(rng.randrange(len(running))))
        else:
            running.append(pod_of(f"running-{step}", rng.choice("ab"), rng.choice(clusters.WISHES), rng.choice(names)))
            state.add_pod(running[-1])
        for asker in askers:
            snapshot = state.snapshot(now=1_010.0)
            assert as_values(decider.decide(snapshot, asker)) == as_values(decide(decider.chain, snapshot, asker)), step
