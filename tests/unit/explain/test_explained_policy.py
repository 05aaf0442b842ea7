"""The effect of a policy on a cluster: the pods it governs, the nodes it rejects, and the decisions it changes."""

import pytest

from tests.unit.simulate.clusters import pods_of, policy, state_of
from tests.unit.what_if.test_diff import node, pod, state
from wharfinger.explain import explained_policy as explaining
from wharfinger.explain.explained_policy import explained_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model.state.copies import checkpoint_of

TEXT = """
policy "mix"
for pods where (pod.labels["app"] ?? "") == "web"
filter few { require count(pods, on: node) < 1 else "{node.name} runs something" }
filter never { require true else "never" }
"""


def explained(text, cluster, waiting):
    compiled = policy(text)
    return explained_policy(assemble([compiled]), assemble(), cluster, "mix", waiting)


def test_governed_pods_are_counted_and_rejected_nodes_named():
    cluster = state(node("a"), node("b"), pod("old", on="a", app="web"), pod("other", on="b"))
    found = explained(TEXT, cluster, [pod("new", app="web"), pod("else")])
    assert (found.governed.pods, found.governed.waiting, found.governed.of) == (2, 1, 4)
    assert found.governed.examples == ("default/new", "default/old")
    few, never = found.filters
    assert (few.rule, few.nodes, few.pods, few.example, few.sentences) == (
        "mix/few",
        2,
        2,
        ("default/new", "a"),
        ("a runs something",),
    )
    assert (never.nodes, never.pods, never.example) == (0, 0, None)


def test_a_difference_is_one_between_decisions_with_and_without_it():
    text = 'policy "mix"\nfor pods where (pod.labels["app"] ?? "") == "web"\nfilter off { reject node.name == "a" else "a is closed" }'
    cluster = state(node("a"), node("b", cpu="1"), pod("busy", cpu="500m", on="b"))
    found = explained(text, cluster, [pod("big", cpu="2", app="web"), pod("small", cpu="100m", app="web")])
    differing = {each.pod: (each.without, each.chosen) for each in found.differing}
    assert differing == {"default/big": ("a", None), "default/small": ("a", "b")}
    assert "  it makes a difference for 2 of 2 pods looked at\n" in str(found)
    assert "      mix/off rejects a: a is closed\n" in str(found)


def test_placed_pods_are_decided_about_as_if_they_waited_and_stay_where_they_are():
    cluster = state(node("a"), pod("old", on="a", app="web"))
    before = checkpoint_of(cluster)
    found = explained(TEXT, cluster, [])
    after = checkpoint_of(cluster)
    assert found.filters[0].nodes == 0
    assert [(each.key, name) for each, name in zip(after.pods, after.names, strict=True)] == [
        (each.key, name) for each, name in zip(before.pods, before.names, strict=True)
    ]
    assert after.assumed == before.assumed


def test_some_of_many_pods_are_looked_at_for_each_template(monkeypatch):
    monkeypatch.setattr(explaining, "MAX_PODS", 4)
    waiting = sorted(pods_of(30, n_templates=2), key=lambda each: each.key)
    text = 'policy "mix"\nscore roomy = most_allocated()'
    found = explained(text, state_of(6), waiting)
    templates = {each.key: each.template for each in waiting}
    looked_at = [templates[key] for key in found.governed.examples]
    assert (found.looked_at, len(looked_at)) == (4, 4)
    assert {looked_at.count(template) for template in set(looked_at)} == {2}


@pytest.mark.parametrize("text", [TEXT, 'policy "mix"\nscore roomy weight 9 = most_allocated()'])
def test_differences_are_those_of_the_decisions_of_two_chains(text):
    compiled, cluster = policy(text), state_of(6, running=20)
    waiting = pods_of(10)
    found = explained(text, cluster, waiting)
    chains = assemble(), assemble([compiled])
    decided = {each.key: tuple(decide(chain, cluster.snapshot(), each).node for chain in chains) for each in waiting}
    expected = {key: nodes for key, nodes in decided.items() if nodes[0] != nodes[1]}
    assert {each.pod: (each.without, each.chosen) for each in found.differing if each.pod in decided} == expected


@pytest.mark.parametrize(("n_rules", "looked_at"), [(1, explaining.MAX_PODS), (1000, explaining.MIN_PODS)])
def test_fewer_pods_are_decided_about_by_a_policy_with_many_rules(n_rules, looked_at):
    keys = ", ".join(f"node.pod_count + {number} asc" for number in range(n_rules))
    assert explained(f'policy "mix"\ntie_break {keys}\n', state(node("a")), pods_of(200)).looked_at == looked_at
