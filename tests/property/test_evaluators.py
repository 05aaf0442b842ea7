"""The kernels and the interpreter agree: on random policies, clusters and pods, missing values included."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import SKIP, Interpreter
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.language.semantics import typed
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

from . import clusters, programs

NOW = 1_010.0
slow = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@st.composite
def states(draw: st.DrawFn) -> ClusterState:
    """A cluster of up to five nodes with pods and samples of the metric."""
    state, names = clusters.drawn_state(draw, max_nodes=5, max_pods=6)
    for namespace in ("default", "web"):
        labels = draw(st.fixed_dictionaries({}, optional={"tier": st.sampled_from(["a", "b", "ssd", "disk"])}))
        state.put(objects.Namespace(metadata=objects.ObjectMeta(name=namespace, labels=labels)))
    if draw(st.booleans()):
        sample = st.tuples(st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([1_000.0, 1_006.0, 1_009.0]))
        state.set_metric("load", draw(st.dictionaries(st.sampled_from(names), sample)))
    return state


pending = clusters.pods(st.sampled_from(["incoming", "pod-0"])).map(PodView)  # pod-0 may be in the cluster already


def expected_bits(policy: CompiledPolicy, interpreter: Interpreter, index: int, row: int) -> int:
    answers = interpreter.filter(policy.policy.filters[index], row)
    bits = enumerate(policy.filters[index].bits if answers else ())
    return sum(1 << k for k, bit in bits if answers[bit.clause][1] is (None if bit.missing else False))


def scores_at(bound: BoundPolicy, index: int, snapshot: Snapshot, rows: np.ndarray | slice) -> list[object]:
    raw, state = bound.score(index, snapshot, rows)
    assert np.isfinite(raw).all()
    assert not raw[state != 0].any()
    return [(value, None, SKIP)[kind] for value, kind in zip(raw.tolist(), state.tolist(), strict=True)]


def same(found: object, wanted: object) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        return found == wanted
    return found is wanted


def differences(policy: CompiledPolicy, bound: BoundPolicy, pod: PodView, snapshot: Snapshot) -> Iterator[str]:
    interpreter = Interpreter(policy.policy, policy.params, pod, snapshot)
    everywhere = range(snapshot.n_nodes)
    for index in range(len(policy.filters)):
        bits = bound.filter_bits(index, snapshot, slice(None)).tolist()
        wanted = [expected_bits(policy, interpreter, index, row) for row in everywhere]
        if bits != wanted:
            yield f"filter {index}: kernels say {bits}, the interpreter {wanted}"
    for index, rule in enumerate(policy.policy.scores):
        found = scores_at(bound, index, snapshot, slice(None))
        wanted_scores = [interpreter.score(rule, row) for row in everywhere]
        if not all(map(same, found, wanted_scores)):
            yield f"score {index}: kernels say {found}, the interpreter {wanted_scores}"
    for index, key in enumerate(policy.policy.tie_break):
        keys = [None if math.isnan(value) else value for value in bound.tie_key(index, snapshot, slice(None)).tolist()]
        wanted_keys = [interpreter.tie_key(key, row) for row in everywhere]
        texts = sorted({wanted for wanted in wanted_keys if not isinstance(wanted, float | None)})
        if texts:  # what is compared is their order
            places = [None if wanted is None else texts.index(wanted) for wanted in wanted_keys]
            order = sorted({found for found in keys if found is not None})
            keys, wanted_keys = [None if found is None else order.index(found) for found in keys], places
        if not all(map(same, keys, wanted_keys)):
            yield f"tie {index}: kernels say {keys}, the interpreter {wanted_keys}"


def answers(policy: CompiledPolicy, bound: BoundPolicy, snapshot: Snapshot, rows: np.ndarray | slice) -> list[object]:
    """All results of a bound policy for some rows."""
    found: list[object] = [bound.filter_bits(index, snapshot, rows).tolist() for index in range(len(policy.filters))]
    for index in range(len(policy.scores)):
        raw, state = bound.score(index, snapshot, rows)
        found += [raw.tolist(), state.tolist()]
    return [*found, *(str(tie_keys(policy, bound, index, snapshot, rows)) for index in range(len(policy.tie_break)))]


def tie_keys(policy: CompiledPolicy, bound: BoundPolicy, index: int, snapshot: Snapshot, rows: np.ndarray | slice) -> list[float]:
    """A key of the tie break; for texts the places in the order of these rows, which is all that they say."""
    keys = bound.tie_key(index, snapshot, rows)
    if policy.tie_break[index].texts is None:
        return keys.tolist()
    order = sorted(set(keys[~np.isnan(keys)].tolist()))
    return [math.nan if math.isnan(key) else float(order.index(key)) for key in keys.tolist()]


@slow
@given(programs.policies(), states(), pending)
def test_kernels_agree_with_the_interpreter(policy: typed.Policy, state: ClusterState, pod: PodView) -> None:
    compiled = compile_policy(policy, programs.PARAMS)
    snapshot = state.snapshot(now=NOW)
    assert not list(differences(compiled, BoundPolicy(compiled, pod, snapshot), pod, snapshot))


@slow
@given(programs.policies(), states(), pending, st.data())
def test_some_rows_are_answered_as_among_all(policy: typed.Policy, state: ClusterState, pod: PodView, data: st.DataObject) -> None:
    compiled = compile_policy(policy, programs.PARAMS)
    snapshot = state.snapshot(now=NOW)
    rows = np.array(data.draw(st.lists(st.integers(0, snapshot.n_nodes - 1), max_size=6)), dtype=np.intp)
    whole = [np.array(column) for column in answers(compiled, BoundPolicy(compiled, pod, snapshot), snapshot, slice(None))[:-2]]
    some = answers(compiled, BoundPolicy(compiled, pod, snapshot), snapshot, rows)[:-2]
    assert [column[rows].tolist() for column in whole] == some


@slow
@given(programs.policies(), states(), pending, st.data())
def test_a_bound_policy_follows_the_cluster(policy: typed.Policy, state: ClusterState, pod: PodView, data: st.DataObject) -> None:
    compiled = compile_policy(policy, programs.PARAMS)
    bound = BoundPolicy(compiled, pod, state.snapshot(now=NOW))
    names = list(state.snapshot().names)
    others = clusters.pod_names.filter(lambda name: name != pod.name)  # nothing is asked for a pod that was placed meanwhile
    for _ in range(3):
        answers(compiled, bound, state.snapshot(now=NOW), slice(None))
        if data.draw(st.booleans()):
            state.update_node(data.draw(clusters.nodes(st.sampled_from(names))))
        else:
            state.add_pod(data.draw(clusters.pods(others, data.draw(st.sampled_from(names)))))
        snapshot = state.snapshot(now=NOW)
        fresh = compile_policy(policy, programs.PARAMS)
        assert answers(compiled, bound, snapshot, slice(None)) == answers(fresh, BoundPolicy(fresh, pod, snapshot), snapshot, slice(None))


@slow
@given(programs.policies(), states(), pending)
def test_the_scope_means_the_same_to_both(policy: typed.Policy, state: ClusterState, pod: PodView) -> None:
    compiled, snapshot = compile_policy(policy, programs.PARAMS), state.snapshot(now=NOW)
    interpreter = Interpreter(policy, compiled.params, pod, snapshot)
    own = policy.authority.namespace in {None, pod.namespace}
    assert compiled.governs(pod, snapshot) is (own and (policy.scope is None or interpreter.value(policy.scope, 0) is True))


def by_row(policy: CompiledPolicy, bound: BoundPolicy, snapshot: Snapshot) -> list[tuple[object, list[object]]]:
    """Each rule with its result for every row."""
    found: list[tuple[object, list[object]]] = []
    for index, rule in enumerate(policy.filters):
        found.append((rule, bound.filter_bits(index, snapshot, slice(None)).tolist()))
    for index, score in enumerate(policy.scores):
        raw, state = bound.score(index, snapshot, slice(None))
        found.append((score, list(zip(raw.tolist(), state.tolist(), strict=True))))
    return found


@slow
@given(programs.policies(), states(), pending, st.data())
def test_an_unchanged_token_means_that_other_rows_are_unchanged(
    policy: typed.Policy, state: ClusterState, pod: PodView, data: st.DataObject
) -> None:
    plain = [replace(policy.scores[0], when=None, value=leaf) for leaf in programs.numbers_of_the_cluster()]  # rules that change often
    compiled = compile_policy(replace(policy, scores=(*policy.scores, *plain)), programs.PARAMS)
    snapshot = state.snapshot(now=NOW)
    bound, names = BoundPolicy(compiled, pod, snapshot), list(snapshot.names)
    before = [(bound.token(rule, snapshot), answers_) for rule, answers_ in by_row(compiled, bound, snapshot)]
    if data.draw(st.booleans()):
        state.add_pod(data.draw(clusters.pods(clusters.pod_names, data.draw(st.sampled_from(names)))))
    else:
        state.set_metric("load", {names[0]: (0.5, NOW)})
    since, snapshot = snapshot.revision, state.snapshot(now=data.draw(st.sampled_from([NOW, NOW, NOW + 1])))
    touched = set(snapshot.usage_changes(since).tolist())
    for (rule, after), (token, answers_) in zip(by_row(compiled, bound, snapshot), before, strict=True):
        if bound.token(rule, snapshot) == token:
            assert all(after[row] == answers_[row] for row in range(len(names)) if row not in touched), rule
