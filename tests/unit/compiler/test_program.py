"""Compiled policies: what they decide, which pods they govern, and what they depend on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.objects.pod_view import PodView

from .texts import WEB_SPREAD, ZONE, cluster, compiled, node, pod, typed_policy

EVERY = slice(None)
WEB = {"tier": "web", "app": "shop"}


def bits(policy: CompiledPolicy, index: int, incoming: PodView, state: object) -> list[int]:
    snapshot = state.snapshot()  # type: ignore[attr-defined]  # a ClusterState
    return BoundPolicy(policy, incoming, snapshot).filter_bits(index, snapshot, EVERY).tolist()


def test_web_spread_decides_as_it_reads() -> None:
    policy = compiled(WEB_SPREAD)
    crowd = [pod(f"web-{i}", on="a", labels=WEB) for i in range(2)]
    state = cluster(node("a", labels={ZONE: "1", "lifecycle": "spot"}), node("b", labels={ZONE: "2"}), node("c", memory="0"), *crowd)
    incoming = pod("web-2", labels=WEB, priority=2000, memory="1Gi")
    snapshot = state.snapshot()
    bound = BoundPolicy(policy, incoming, snapshot)
    assert policy.governs(incoming, snapshot)
    assert bound.filter_bits(0, snapshot, EVERY).tolist() == [1, 0, 4]
    assert bound.filter_bits(1, snapshot, EVERY).tolist() == [1, 0, 0]
    assert [column.tolist() for column in bound.score(0, snapshot, EVERY)] == [[0.0, 100.0, 0.0], [0, 0, 1]]
    assert [column.tolist() for column in bound.score(1, snapshot, EVERY)] == [[-2.0, 0.0, 0.0], [0, 0, 0]]
    assert bound.score(2, snapshot, EVERY)[1].tolist() == [2, 2, 2]
    assert bound.tie_key(0, snapshot, EVERY).tolist() == [2.0, 0.0, 0.0]


@pytest.mark.parametrize("weight", ["2e9", "exp(700) * exp(700)", "exp(700) * exp(700) * 0", "w"])
def test_a_weight_beyond_the_maximum_is_refused(weight: str) -> None:
    text = f'policy "p"\nparam w: count = 3\nscore s weight {weight} when pod.priority < w = if node.pod_count > 0 then 0 else 100'
    with pytest.raises(UsageError, match="the weight is"):
        compiled(text, w="3000000000")


@pytest.mark.parametrize("timeout", ["0", "7200", "1e300"])
@pytest.mark.parametrize("rule", ["permit q timeout wait { require pod.priority > 3 }", "group by pod.name { min_count 2 timeout wait }"])
def test_a_param_cannot_make_a_timeout_that_no_author_may_write(rule: str, timeout: str) -> None:
    text = f'policy "p"\nparam wait: duration = 1h\n{rule}\n'
    assert compiled(text).name == "p"
    with pytest.raises(UsageError, match="the timeout is"):
        compiled(text, wait=float(timeout))


@pytest.mark.parametrize(("length", "verdicts"), [(10_000, [0]), (10_001, [2])])
def test_an_annotation_of_a_pod_that_is_longer_than_policies_read_is_missing(length: int, verdicts: list[int]) -> None:
    policy = compiled('policy "p"\nfilter f { require starts_with(pod.annotations["a"], "x") on missing reject }\n')
    assert bits(policy, 0, pod("p").assigning({"a": "x" * length}), cluster(node("a"))) == verdicts


def test_reasons_fill_what_is_the_same_on_every_node() -> None:
    policy = compiled(WEB_SPREAD, max_per_node="3", keep_free="12.5%")
    state = cluster(node("a"))
    bound = BoundPolicy(policy, pod("p", labels=WEB), state.snapshot())
    assert bound.reasons(0) == (
        "already runs … pod(s) of shop, limit 3",
        "would leave less than 12.5% of memory free",
        "ratio(node.free.memory - pod.requests.memory, node.allocatable.memory) is missing",
    )
    assert BoundPolicy(policy, pod("q"), state.snapshot()).reasons(0)[0] == "already runs … pod(s) of <none>, limit 3"


@pytest.mark.parametrize(
    ("labels", "namespace", "governed"),
    [(WEB, "shop", True), ({"tier": "db"}, "shop", False), ({}, "shop", False)],
)
def test_a_policy_governs_the_pods_of_its_scope(labels: dict[str, str], namespace: str, governed: bool) -> None:
    incoming = pod("p", labels=labels)
    assert incoming.namespace == namespace
    assert compiled(WEB_SPREAD).governs(incoming, cluster().snapshot()) is governed


def test_rules_say_what_may_change_them() -> None:
    policy = compiled(WEB_SPREAD)
    assert [rule.volatility for rule in policy.filters] == [Volatility.ROW, Volatility.STATIC]
    assert [rule.volatility for rule in policy.scores] == [Volatility.GLOBAL, Volatility.ROW, Volatility.STATIC]
    assert [bit.volatility for bit in policy.filters[0].bits] == [Volatility.ROW] * 3
    assert [(bit.clause, bit.missing) for bit in policy.filters[0].bits] == [(0, False), (1, False), (1, True)]


def test_the_attributes_that_a_policy_reads() -> None:
    policy = compiled(WEB_SPREAD)
    assert ("node", "labels", "lifecycle") in policy.reads
    assert ("node", "labels", "disktype") in policy.reads
    assert ("it", "labels", "app") in policy.reads
    assert ("node", "free.memory", None) in policy.reads
    assert not policy.rules_read_identity
    assert not policy.scope_varies


@pytest.mark.parametrize(
    ("rule", "identity"),
    [
        ('filter f { require pod.name != "x" else "no" }', True),
        ('filter f { require node.pod_count < 5 else "no {pod.name}" }', True),
        ('filter f { require count(pods where it.name == "x", on: node) == 0 else "no" }', False),
    ],
)
def test_only_the_identity_of_the_pod_to_be_placed_counts_as_read(rule: str, identity: bool) -> None:
    policy = compiled(f'policy "p"\n{rule}')
    assert (policy.rules_read_identity, policy.scope_varies) == (identity, False)


def test_a_value_of_placed_pods_may_turn_out_not_to_depend_on_them() -> None:
    text = """
    policy "p"
    param by_group: bool = true
    let others = pods where it.priority >= 0
    score s = sum(others, round(if by_group then pod.group.size ?? 7 else it.priority, 5), on: node) normalize minmax on missing 0
    """
    snapshot = cluster(node("a"), node("b"), pod("x", on="a"), pod("y", on="a")).snapshot()
    bound = BoundPolicy(compiled(text), pod("z"), snapshot)
    assert bound.score(0, snapshot, EVERY)[0].tolist() == [10.0, 0.0]


@pytest.mark.parametrize(
    ("scope", "identity", "timed"),
    [
        ('pod.labels["app"] == "web"', False, False),
        ('pod.name != "x"', True, False),
        ("age(pod.created) < 5min", True, True),
        ("pod.priority > 0 or young", True, True),
        ("pod.priority > 0 or (false and young)", True, False),
    ],
)
def test_the_values_that_a_scope_varies_with(scope: str, identity: bool, timed: bool) -> None:
    rule = 'filter f { require node.pod_count < 5 else "no" }'
    policy = compiled(f'policy "p"\nfor pods where {scope}\nlet young = age(pod.created) < 5min\n{rule}')
    assert (policy.scope_reads_identity, policy.scope_reads_time, policy.rules_read_identity) == (identity, timed, False)


def test_numbers_of_rules_are_resolved() -> None:
    text = """
    policy "p"
    param w: number = 2 range 0..10
    score s weight w * 2 = node.pod_count normalize minmax(w) on missing w
    base kubernetes { NodeResourcesFit weight w + 1 with { strategy: "MostAllocated" } }
    """
    policy = compiled(text, w=4)
    assert (policy.scores[0].weight, policy.scores[0].min_spread, policy.scores[0].missing_points) == (8.0, 4.0, 4.0)
    assert (policy.base[0].plugin, policy.base[0].weight, policy.base[0].arguments) == (
        "NodeResourcesFit",
        5.0,
        {"strategy": "MostAllocated"},
    )


def test_revision_is_of_what_decides() -> None:
    plain = compiled(WEB_SPREAD).revision
    assert len(plain) == 64
    assert compiled("# a comment\n" + WEB_SPREAD.replace("    =", "=")).revision == plain
    assert compiled(WEB_SPREAD + 'test "t" { node a {} pod p { labels: { tier: "web" } } place p expect p on a }').revision == plain
    changed = [WEB_SPREAD.replace("< max", "<= max"), WEB_SPREAD.replace("weight 5", "weight 6"), WEB_SPREAD.replace("asc", "desc")]
    assert len({plain, compiled(WEB_SPREAD, max_per_node=3).revision, *(compiled(text).revision for text in changed)}) == 5


def test_a_metric_that_few_nodes_have_suspends_its_rules() -> None:
    policy = compiled("""
    policy "p"
    metric load: percent = prometheus('q', node: "instance", refresh: 15s, max_age: 2min, min_coverage: 60%)
    filter hot { require load <= 50% else "hot" on missing reject }
    score cool = clamp(100 - load * 100, 0, 100) on missing skip
    tie_break load asc
    """)
    state = cluster(node("a"), node("b"))
    state.set_metric("load", {"a": (0.9, 1000.0), "b": (0.2, 1000.0)})
    for now, suspended, rejected, states in ((1000.0, (), [1, 0], [0, 0]), (1121.0, ("load",), [0, 0], [2, 2])):
        snapshot = state.snapshot(now=now)
        bound = BoundPolicy(policy, pod("p"), snapshot)
        assert bound.suspended(snapshot) == suspended
        assert bound.filter_bits(0, snapshot, EVERY).tolist() == rejected
        assert bound.score(0, snapshot, EVERY)[1].tolist() == states
        assert np.isnan(bound.tie_key(0, snapshot, EVERY)).all() == bool(suspended)


def test_the_pod_itself_is_never_selected() -> None:
    text = """
    policy "p"
    let all = pods where it.labels["app"] == "shop"
    filter node_count { require count(all, on: node) == 0 else "x" }
    filter zone_count { require (count(all, within: "zone") ?? 0) == 0 else "x" }
    filter everywhere { require count(all) == 0 else "x" }
    filter largest { require (max(all, it.requests.cpu, on: node) ?? 0cpu) < 2cpu else "x" }
    """
    policy = compiled(text)
    state = cluster(node("a", labels={"zone": "1"}), node("b", labels={"zone": "1"}))
    own = pod("own", labels=WEB, cpu="3")
    state.assume(own, "a")
    assert [bits(policy, index, own, state) for index in range(4)] == [[0, 0]] * 4
    other = pod("other", labels=WEB)
    assert [bits(policy, index, other, state) for index in range(4)] == [[1, 0], [1, 1], [1, 1], [1, 0]]


def test_more_clauses_than_bits() -> None:
    clauses = "\n".join(f'require node.pod_count != {i} else "{i}"' for i in range(100))
    policy = compiled(f'policy "p"\nfilter f {{ {clauses} }}')
    state = cluster(node("a"), node("b"), *(pod(f"p{i}", on="b") for i in range(99)))
    assert bits(policy, 0, pod("p"), state) == [1, 1 << 63]
    assert len(BoundPolicy(policy, pod("p"), state.snapshot()).reasons(0)) == 64


def test_answers_may_be_written_to() -> None:
    policy = compiled(
        'policy "p"\nscore s = if node.labels matches "a" then 100 else 0\nfilter f { require node.labels matches "a" else "no" }'
    )
    state = cluster(node("a", labels={"a": ""}), node("b"))
    snapshot = state.snapshot()
    bound = BoundPolicy(policy, pod("p"), snapshot)
    for _ in range(2):
        raw, kinds = bound.score(0, snapshot, EVERY)
        rejected = bound.filter_bits(0, snapshot, EVERY)
        assert (raw.tolist(), kinds.tolist(), rejected.tolist()) == ([100.0, 0.0], [0, 0], [0, 1])
        raw[:], kinds[:], rejected[:] = 7, 7, 7


def test_another_cluster_is_refused() -> None:
    policy, one, two = compiled(WEB_SPREAD), cluster(node("a")), cluster(node("a"))
    bound = BoundPolicy(policy, pod("p"), one.snapshot())
    with pytest.raises(ValueError, match="another cluster"):
        bound.filter_bits(0, two.snapshot(), EVERY)


def test_the_fast_path_does_not_know_the_interpreter() -> None:
    slow = "{'wharfinger.compiler.interpreter'}"
    code = f"import sys, wharfinger.compiler.program; sys.exit(bool({slow} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_prints_as_its_intermediate_representation() -> None:
    lines = str(compiled('policy "p"\nfilter f { require node.free.cpu - 1cpu >= 0cpu else "no" }')).splitlines()
    assert lines == [
        "%0 = node.free.cpu : object run row",
        "%1 = value of %0 : float run row",
        "%2 = const 1000.0 : float const",
        "%3 = sub %1 %2 : float run row",
        "%4 = const 0.0 : float const",
        "%5 = ge %3 %4 : bool run row",
        "%6 = not %5 : bool run row",
        "filter 0 0: %6",
    ]


def test_common_parts_are_one_node() -> None:
    policy = compiled("""
    policy "p"
    let a = ratio(node.free.cpu, node.allocatable.cpu)
    score s = clamp((ratio(node.free.cpu, node.allocatable.cpu) ?? 0%) * 100, 0, 100)
    score t = clamp((a ?? 0%) * 50, 0, 100)
    """)
    assert str(policy).count("call ratio") == 1


def test_conditions_on_params_are_folded() -> None:
    text = """
    policy "p"
    param strict: bool = true
    filter f { require (if strict then node.pod_count < 1 else node.unschedulable) else "no" }
    """
    assert "unschedulable" not in str(compiled(text))
    assert "pod_count" not in str(compiled(text, strict=False))


def test_typed_policy_is_kept() -> None:
    policy = typed_policy(WEB_SPREAD)
    assert compiled(WEB_SPREAD).policy == policy


def test_columns_that_are_another_for_each_pod_are_not_kept():
    policy = compiled('policy "p"\nfilter f { require not starts_with(node.name, pod.name) }\n')
    state = cluster(node("a"), node("bc"))
    snapshot = state.snapshot()
    for number in range(50):
        bits = BoundPolicy(policy, pod(f"b{number}"), snapshot).filter_bits(0, snapshot, slice(None))
        assert bits.tolist() == [0, 0]
    assert BoundPolicy(policy, pod("b"), snapshot).filter_bits(0, snapshot, slice(None)).tolist() == [0, 1]
    assert len(policy.static_columns(snapshot.strings)) == 0
