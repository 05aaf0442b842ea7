"""Two sets of policies compared over the same pods: what differs, and whether a rule decided it or other pods did."""

from contextlib import contextmanager

import pytest

from tests.unit.groups.test_turns import pod as gang_pod
from tests.unit.simulate.clusters import POLICY, chain_of, pods_of, policy, state_of
from tests.unit.simulate.test_groups import cluster as gang_cluster
from wharfinger.cli import diff_report
from wharfinger.explain.difference import Kind, causes
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model import objects
from wharfinger.model.node_labels import ZONE
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import copied
from wharfinger.simulate.dry_run import dry_run
from wharfinger.simulate.placing import place_pod, queue_order
from wharfinger.steps import at_once
from wharfinger.what_if.diff import GroupChange, diff
from wharfinger.what_if.leaving_pods import recreated

OTHER = POLICY.replace("least_allocated", "most_allocated").replace("filter no_spot", "filter no_spot when pod.priority > 7")


LATE = {"known": (0, False), "later": (5, False), "last": (1_000_000, False), "nodes": (1_000_000, True)}


@pytest.fixture(params=LATE.values(), ids=LATE, autouse=True)
def side_before(request, monkeypatch):
    """The side before is known from the start, after some decisions of the side after, or after all: the answers are the same.

    Its nodes may be known before it is.
    """
    decisions, says_nodes = request.param

    class Late:
        def __init__(self, answer):
            self.answer = answer
            self.asked = 0

        def if_done(self):
            self.asked += 1
            return self.answer if self.asked > decisions else None

        def result(self):
            return self.answer

    @contextmanager
    def compute(function, _shared, advance):
        yield Late(function(advance if says_nodes else lambda *_: None))

    monkeypatch.setattr("wharfinger.what_if.diff.in_this_process", compute)
    return says_nodes


def nodes_after(side):
    return {result.pod: result.node for result in side.run.results}


@pytest.mark.parametrize(("before", "after"), [(POLICY, OTHER), (OTHER, POLICY)])
def test_each_side_is_a_dry_run_of_its_own(before, after):
    chains = chain_of(before), chain_of(after)
    pods = pods_of(40, n_templates=7)
    found = diff(*chains, state_of(12), pods)

    expected = [{result.pod: result.node for result in dry_run(chain, state_of(12), pods).results} for chain in chains]
    assert [nodes_after(found.before), nodes_after(found.after)] == expected
    moved = {pod: (expected[0][pod], expected[1][pod]) for pod in expected[0] if expected[0][pod] != expected[1][pod]}
    assert {change.pod: (change.before, change.after) for change in found.changes} == moved
    assert moved


def test_a_pod_follows_if_both_chains_choose_its_node_on_the_state_it_was_placed_on():
    before, after = chain_of(), chain_of(OTHER)
    pods = pods_of(40, n_templates=7)
    found = diff(before, after, state_of(12), pods)
    follows = {change.pod: change.follows for change in found.changes}

    state, decider = state_of(12), Decider(after)
    expected = {}
    for pod in queue_order(after, pods):
        former = decide(before, state.snapshot(), pod).node
        later = place_pod(decider, state, pod, watch=lambda *_: None).decision.node
        if pod.key in follows:
            expected[pod.key] = former == later
    assert follows == expected
    assert set(follows.values()) == {True, False}


@pytest.fixture
def asked(monkeypatch):
    """The pods about which the chain before was asked a second time."""
    pods = []
    monkeypatch.setattr("wharfinger.what_if.diff.causes", lambda before, *args: pods.append(before.pod.key) or causes(before, *args))
    return pods


@pytest.mark.parametrize("side_before", [LATE["known"], LATE["nodes"]], indirect=True)
def test_pods_with_the_same_node_are_not_decided_again(asked):
    after = chain_of(OTHER)
    found = diff(chain_of(), after, state_of(12), pods_of(40, n_templates=7))
    assert sorted(asked) == sorted(change.pod for change in found.changes) != []
    asked.clear()
    diff(after, after, state_of(12), pods_of(40, n_templates=7))
    assert asked == []


ONLY_C = 'filter only_c when pod.priority > 7 { require node.name == "c" }\n'
PREFERS_A = f'policy "old"\n{ONLY_C}prefer a weight 2 = node.name == "a"\nprefer c = node.name == "c"'
PREFERS_C = f"""policy "new"
{ONLY_C}prefer b weight 2 when pod.name == "first" = node.name == "b"
prefer c = node.name == "c"
preemption {{ never_evict when (it.labels["keep"] ?? "") == "yes" }}
"""


def test_a_pod_evicted_on_the_side_before_alone_has_the_causes_of_its_node(side_before, asked):
    """Its first node is the same on both sides: before because another pod is on `a`, after because of a rule."""
    cluster = state(*map(node, "abc", "111"), pod("first", on="a"), pod("second", on="c", second=1, keep="yes"))
    replaced = [view for view, _ in cluster.placements()]
    high = [pod("high", priority=9, second=2)]
    found = diff(chain_of(PREFERS_A), chain_of(PREFERS_C), cluster, high, replaced=replaced)
    change = {change.pod: change for change in found.changes}["default/second"]
    assert (change.before, change.after, change.before_message) == (None, "c", "evicted for default/high")
    assert [cause.rule for cause in change.causes] == ["old/a", "new/c"]
    assert asked.index("default/second") == (len(asked) - 1 if side_before else 1)


def test_nothing_differs_between_equal_sides():
    found = diff(chain_of(), chain_of(), state_of(8), pods_of(20, n_templates=3))
    assert found.changes == ()
    assert nodes_after(found.before) == nodes_after(found.after)


def test_the_state_that_is_asked_about_stays_as_it_is():
    state = state_of(8, running=20)
    revision = state.revision
    diff(chain_of(), chain_of(OTHER), state, pods_of(5), replaced=[pod for pod, _ in state.placements()])
    assert state.revision == revision


def test_the_sums_are_those_of_each_side():
    found = diff(chain_of(), chain_of(OTHER), state_of(12), pods_of(40, n_templates=7))
    for side in (found.before, found.after):
        [spread] = side.spreads
        assert spread.label == ZONE
        assert sum(domain.pods for domain in spread.domains) == side.run.placed == side.run.after.pods
        assert sum(domain.nodes for domain in spread.domains) == 12
    assert found.totals.changes == len(found.changes)


def node(name, cpu="4", **labels):
    metadata = {"name": name, "labels": labels}
    return decode.convert({"metadata": metadata, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}}, objects.Node)


def pod(name, cpu="1", on="", priority=0, second=0, **labels):
    return PodView(
        decode.convert(
            {
                "metadata": {"name": name, "labels": labels, "creationTimestamp": f"2026-01-01T00:00:{second:02}Z"},
                "spec": {"nodeName": on, "priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            },
            objects.Pod,
        )
    )


def state(*things):
    found = ClusterState()
    for thing in things:
        found.add_pod(thing) if isinstance(thing, PodView) else found.add_node(thing)
    return found


NOT_ON_A = 'policy "mix"\nfilter apart { reject node.name == "a" else "{node.name} is kept free" }'
TOWARDS_B = 'policy "mix"\nscore left weight 50 = if node.name == "b" then 100 else 0'


def test_a_filter_that_rejects_the_former_node_is_the_cause_with_its_values_on_both_sides():
    found = diff(assemble(), chain_of(NOT_ON_A), state(node("a")), [pod("p")])
    [change] = found.changes
    assert (change.before, change.after, change.follows) == ("a", None, False)
    [cause] = change.causes
    assert (cause.rule, cause.kind, cause.node, cause.before.present) == ("mix/apart", Kind.FILTER, "a", False)
    assert str(cause) == "mix/apart rejects a: a is kept free; before no such rule"
    assert (found.totals.lost, found.totals.rules) == (1, (("mix/apart", 1),))


def test_a_filter_of_the_side_before_is_the_cause_of_a_pod_that_is_placed_only_now():
    found = diff(chain_of(NOT_ON_A), assemble(), state(node("a")), [pod("p")])
    [change] = found.changes
    assert (change.before, change.after) == (None, "a")
    assert change.before_message.startswith("0/1 nodes are available: 1 ")
    assert [str(cause) for cause in change.causes] == ["mix/apart rejected a: a is kept free; now no such rule"]


def test_a_score_is_the_cause_with_its_points_at_both_nodes():
    text = TOWARDS_B.replace('"b"', '"a"')
    [change] = diff(chain_of(text), chain_of(TOWARDS_B), state(node("a"), node("b")), [pod("p")]).changes
    [cause] = change.causes
    assert (cause.rule, cause.kind, cause.before.points, cause.after.points) == ("mix/left", Kind.SCORE, (5000.0, 0.0), (0.0, 5000.0))
    assert str(cause) == "mix/left: 0 at a, 5000 at b; before 5000 at a, 0 at b"


def test_tie_breaks_are_the_cause_where_nothing_else_differs():
    first, last = (f'policy "mix"\ntie_break (if node.name == "a" then 1 else 0) {order}' for order in ("asc", "desc"))
    [change] = diff(chain_of(first), chain_of(last), state(node("a"), node("b")), [pod("p")]).changes
    assert [(cause.kind, str(cause)) for cause in change.causes] == [(Kind.ORDER, "b and a are equally good: the tie-break decides")]


def test_one_pod_decided_by_a_rule_pushes_another_that_follows():
    text = 'policy "mix"\nfor pods where pod.name == "first"\nfilter apart { reject node.name == "a" else "kept free" }'
    cluster = state(node("a", cpu="1"), node("b", cpu="1"))
    prefer_a = 'policy "also"\nscore a weight 50 = if node.name == "a" then 100 else 0'
    before, after = chain_of(prefer_a), assemble([*chain_of(prefer_a).policies, *chain_of(text).policies])
    first, second = diff(before, after, cluster, [pod("first", second=1), pod("second", second=2)]).changes
    assert (first.pod, first.before, first.after, first.follows) == ("default/first", "a", "b", False)
    assert (second.pod, second.before, second.after, second.follows, second.causes) == ("default/second", "b", "a", True, ())


def test_replaced_pods_are_placed_in_order_of_age_with_the_waiting_ones():
    running = [pod("young", second=9, on="a"), pod("old", second=1, on="b")]
    cluster = state(node("a"), node("b"), *running)
    found = diff(assemble(), assemble(), cluster, [pod("middle", second=5, priority=7)], replaced=running)
    assert [result.pod for result in found.after.run.results] == ["default/old", "default/middle", "default/young"]
    assert (found.pods, found.replaced) == (3, 2)
    left = at_once(copied(cluster.snapshot(), frozenset(each.uid for each in running)))
    alone = dry_run(assemble(), left, [recreated(running[1])]).results[0].node
    assert found.after.run.results[0].node == alone


def test_a_running_pod_evicted_on_one_side_only_is_a_change():
    text = 'policy "mix"\npreemption { never_evict when (it.labels["keep"] ?? "") == "yes" }'
    cluster = state(node("a", cpu="1"), pod("low", on="a", keep="yes"))
    high = [pod("high", priority=9)]
    found = diff(chain_of(text), assemble(), cluster, high)
    changes = {change.pod: change for change in found.changes}
    assert (changes["default/low"].before, changes["default/low"].after) == ("a", None)
    assert changes["default/low"].after_message == "evicted for default/high"
    assert (changes["default/high"].before, changes["default/high"].after, changes["default/high"].follows) == (None, "a", False)
    assert str(changes["default/high"].causes[0]) == "preemption makes room elsewhere"


def test_a_group_of_the_side_after_is_the_cause_for_its_members():
    gangs = policy('policy "gangs"\ngroup by pod.labels["job"] { min_count 5 within required "rack" }\n')
    views = [gang_pod(f"m-{number}", labels={"job": "train"}) for number in range(5)]
    found = diff(assemble(), assemble([gangs]), gang_cluster(sizes=(1, 1)), views)
    assert (found.totals.lost, found.totals.rules) == (5, (("group default/train", 5),))
    assert str(found.changes[0].causes[0]).startswith("group default/train: 5 members must be placed at once; rack r0 takes 4")
    back = diff(assemble([gangs]), assemble(), gang_cluster(sizes=(1, 1)), views)
    assert back.totals.gained == 5


def test_a_group_that_changes_as_a_whole_is_one_row_in_all_formats():
    gangs = policy('policy "gangs"\ngroup by pod.labels["job"] { min_count 5 within required "rack" }\n')
    views = [*(gang_pod(f"m-{number}", labels={"job": "train"}) for number in range(5)), gang_pod("alone")]
    found = diff(assemble(), assemble([gangs]), gang_cluster(sizes=(1, 1)), views)
    (row,) = found.rows
    assert isinstance(row, GroupChange)
    assert (row.group, [member.pod for member in row.members]) == ("default/train", [f"default/m-{number}" for number in range(5)])
    titles = diff_report.Titles(before="none", after="gangs")
    printed = diff_report.table(found, titles, 9)
    assert printed.count("group default/train (5 pods)") == 1
    assert "    pods: default/m-0, default/m-1, default/m-2, default/m-3, default/m-4\n" in printed
    assert "groups placed  0 of 0  0 of 1" in printed
    assert diff_report.markdown(found, titles, 9).count("| group default/train (5 pods) |") == 1
    plain = diff_report.value(found, titles)
    nodes = sorted({change.before for change in found.changes})
    assert plain["groups"] == [
        {"group": "default/train", "way": "lost", "pods": [f"default/m-{number}" for number in range(5)], "before": nodes, "after": []}
    ]
    assert {change["group"] for change in plain["changes"]} == {"default/train"}
