"""Explanations read the counts of pods that a cluster keeps, and look at no placed pod for each of them."""

from __future__ import annotations

import pytest

from tests.unit.simulate import clusters
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.explain.conditions import interpreter_of, quick_interpreter_of
from wharfinger.explain.explained_pod import explained
from wharfinger.framework.chain import assemble

ZONE = '"topology.kubernetes.io/zone"'
NUMBERS = [
    "count(pods, on: node)",
    "count(pods where it.priority >= 0 and it.uid != pod.uid, on: node)",
    f"count(pods where it.namespace == pod.namespace, within: {ZONE})",
    'count(pods where it.labels["app"] == pod.labels["app"], on: node)',
    "sum(pods where it.priority >= 0, it.requests.cpu, on: node) / 1m",
    "avg(pods where it.priority > 99, it.priority, on: node)",
    f"max(pods, it.requests.memory, within: {ZONE}) / 1Mi",
    "min(pods where matches_regex(it.name, `^running-1`), it.priority, on: node)",
    "max(pods, age(it.created) ?? 1d, on: node) / 1s",
    "both(count(pods, on: node))",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_they_are_what_the_interpreter_counts(number):
    policy, state = counted(number), clusters.state_of(6, 40)
    [pod] = clusters.pods_of(1)
    snapshot = state.snapshot(1_700_000_000.0)
    score = policy.policy.scores[0]
    slow, quick = interpreter_of(policy, pod, snapshot), quick_interpreter_of(policy, pod, snapshot)
    found = [slow.score(score, row) for row in range(6)]
    assert [quick.score(score, row) for row in range(6)] == found


def counted(number):
    text = 'policy "p"\nlet both(x: number) = x + count(pods where it.priority < 0, on: node)\n'
    return clusters.policy(f"{text}let found = {number}\nscore s = found normalize max on missing 0\n".replace("`", '"'))


@pytest.mark.parametrize("number", NUMBERS[:4])
def test_no_placed_pod_is_looked_at_for_each_of_them(monkeypatch, number):
    missing = "on missing reject" if "within" in number else ""
    policy = clusters.policy(f'policy "p"\nlet n = {number}\nfilter f {{ require n > 1000000 {missing} else "{{n}} here" }}\n')
    state, [pod] = clusters.state_of(6, 40), clusters.pods_of(1)

    def selected(*_):
        raise AssertionError("every placed pod is looked at")

    monkeypatch.setattr(Interpreter, "selected", selected)
    found = explained(assemble([policy]), state, pod, 1_700_000_000.0)
    assert " here" in str(found)
