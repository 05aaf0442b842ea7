"""A rule evaluated for one node in plain Python equals its kernel to the last bit: on random policies, clusters and pods."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import compile_policy
from wharfinger.compiler.row_code import is_quick
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

from . import programs
from .test_evaluators import NOW, pending, states

ENCODED = np.array([0.0, np.nan, np.inf])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(policy=programs.policies(), state=states(), pod=pending)
def test_one_row_is_a_row_of_all(policy: typed.Policy, state: ClusterState, pod: PodView) -> None:
    compiled, snapshot = compile_policy(policy, programs.PARAMS), state.snapshot(NOW)
    bound = BoundPolicy(compiled, pod, snapshot)
    for row in range(snapshot.n_nodes):
        for index, rule in enumerate(compiled.filters):
            if is_quick(rule):
                bits = bound.filter_bits(index, snapshot, slice(None))
                one = 0 if bound.left_out(rule, snapshot) else bound.one_row.filter_bits(index, snapshot, row)
                assert one == bits[row]
        for index, score in enumerate(compiled.scores):
            if is_quick(score):
                raw, kind = bound.score(index, snapshot, slice(None))
                one = np.inf if bound.left_out(score, snapshot) else bound.one_row.score(index, snapshot, row)
                assert np.array_equal([one], (raw + ENCODED[kind])[row : row + 1], equal_nan=True), (rule, one, raw, kind)
