"""An explanation agrees with the decision: counts of nodes, scores, near misses and reasons."""

import pytest

from tests.unit.simulate import clusters
from wharfinger.errors import UnknownObject
from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.explanation import explain
from wharfinger.framework.evaluation.cycle import decide


@pytest.fixture(params=[0, 30, 400], ids=["empty", "some", "crowded"])
def case(request):
    chain, state = clusters.chain_of(), clusters.state_of(25, running=request.param)
    [pod] = clusters.pods_of(1)
    snapshot = state.snapshot()
    nodes = list(snapshot.names)
    return decide(chain, snapshot, pod), explain(chain, snapshot, pod, PolicyExplainer(chain), nodes), snapshot


def test_counts_are_those_of_the_nodes_one_by_one(case):
    _, found, _ = case
    left = {report.node for report in found.asked}
    for step in found.steps:
        if step.skipped:
            continue
        rejected = {report.node for report in found.asked if any(verdict.rule == step.rule for verdict in report.rejected_by)}
        left -= rejected
        assert step.alone == found.nodes - len(rejected)
        assert step.so_far == len(left)
        assert step.example == min(rejected, default=None)
    assert len(left) == found.feasible


def test_scores_add_up_to_the_totals_and_the_best_comes_first(case):
    decision, found, _ = case
    assert found.node == decision.node
    for report in found.asked:
        assert bool(report.scores) == (not report.rejected_by)
        assert sum(part.weighted for part in report.scores) == pytest.approx(sum(report.totals))
    if found.node is not None:
        best = sorted((report for report in found.asked if report.totals), key=lambda report: -report.totals[0])
        assert found.top[0].node == found.node
        assert found.top[0].totals[0] == pytest.approx(best[0].totals[0]) == pytest.approx(decision.totals[0])
        assert [report.totals for report in found.top] == [report.totals for report in best[:3]]


def test_the_nearest_misses_have_the_fewest_filters_against_them(case):
    _, found, _ = case
    against = [len(report.rejected_by) for report in found.asked if report.rejected_by]
    assert [len(report.rejected_by) for report in found.nearest] == [min(against)] * len(found.nearest)


def test_a_policy_s_rejection_shows_the_operands():
    chain, state = clusters.chain_of(), clusters.state_of(3)
    one, two, three = clusters.pods_of(3)
    state.assume(one, "node-00001")
    state.assume(two, "node-00001")
    found = explain(chain, state.snapshot(), three, PolicyExplainer(chain), ["node-00001", "node-00000"])
    crowded, spot = found.asked
    [verdict] = crowded.rejected_by
    assert verdict.rule == "mix/few"
    assert verdict.sentences == ("runs 2 of them",)
    assert verdict.values[:3] == (
        'filter few { require here < 2 else "runs {here} of them" }',
        "                     |    |",
        "                     2    false",
    )
    assert [verdict.rule for verdict in spot.rejected_by] == ["mix/no_spot"]
    assert found.steps[-1].at == "mix.policy:7:8"


def test_kubernetes_rejections_show_amounts_and_taints():
    chain, state = clusters.chain_of('policy "p"\nscore s weight 1 = least_allocated()\n'), clusters.state_of(50)
    [pod] = clusters.pods_of(1)
    found = explain(chain, state.snapshot(), pod, PolicyExplainer(chain), ["node-00049"])
    assert found.asked[0].rejected_by[0].values == ("taint dedicated=batch:NoSchedule",)


def test_an_unknown_node_is_refused_with_a_suggestion():
    chain, state = clusters.chain_of(), clusters.state_of(3)
    with pytest.raises(UnknownObject, match="there is no node node-0002; did you mean node-00002"):
        explain(chain, state.snapshot(), clusters.pods_of(1)[0], PolicyExplainer(chain), ["node-0002"])


def test_an_explanation_prints_as_text(case):
    _, found, _ = case
    text = str(found)
    assert text.startswith(f"default/pod-000000 → {found.node}: " if found.node else "default/pod-000000: 0/25 nodes are available: ")
    assert all(f"node {report.node}: " in text for report in found.asked)
