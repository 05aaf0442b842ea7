"""The points of Kubernetes' scores that a policy reads are those that the plugins themselves give, on any cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import programs
from tests.property.test_cached_decision import compiled
from tests.property.test_evaluators import pending, same, scores_at, states
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import compile_policy
from wharfinger.framework import chain
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.language.semantics import typed
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
    bound = found.bind(pod, snapshot)
    bound.see(points)
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
    bound = compiled(POLICY).bind(pod, snapshot)
    for _ in range(2):
        points = {plugin: np.array([float(data.draw(st.integers(0, 100)))] * snapshot.n_nodes) for plugin in PLUGINS.values()}
        bound.see(points)
        for index, plugin in enumerate(PLUGINS.values()):
            assert bound.score(index, snapshot, slice(None))[0].tolist() == points[plugin].tolist()
