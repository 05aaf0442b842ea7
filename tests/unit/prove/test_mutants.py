"""No wrong verdict: versions of the shipped policies against the interpreter's chain on random clusters, and against rewrites."""

from collections import Counter

import pytest

from tests.unit.prove import mutants
from tests.unit.prove.clusters import Situations
from tests.unit.prove.policies import MODELLED, compiled, fails, text_of
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.prove import statements
from wharfinger.prove.question import Verdict

MAX_SLIPS = 11
MAX_REWRITES = 4
MAX_CLUSTERS = 20


def outcomes(policy, situations):
    """The chosen node and the rejected nodes on each cluster."""
    chain = assemble([policy])
    found = []
    for snapshot, pod in situations:
        decision = decide(chain, snapshot, pod)
        found.append((decision.node, [bool(list(decision.diagnosis.at(row))) for row in range(decision.n_nodes)]))
    return found


def test_there_are_a_hundred_mutants():
    assert sum(len(mutants.some(mutants.slips(mutants.body(text_of(name))), MAX_SLIPS, name)) for name in MODELLED) >= 100


@pytest.mark.parametrize("name", MODELLED)
def test_no_verdict_about_a_slip_is_wrong(name):
    text = mutants.body(text_of(name))
    drawn = Situations(text_of(name), name)
    situations = [drawn.draw() for _ in range(MAX_CLUSTERS)]
    policy = compiled(text, "a.policy")
    before = outcomes(policy, situations)
    verdicts = Counter()
    for version in mutants.some(mutants.slips(text), MAX_SLIPS, name):
        other = compiled(version, "b.policy")
        answer = statements.same_as(policy, other)
        verdicts[answer.verdict] += 1
        if answer.verdict is Verdict.PROVED:
            assert outcomes(other, situations) == before, version
        if answer.verdict is Verdict.REFUTED:
            failing, passing = (policy, other) if answer.fails_with == "a.policy" else (other, policy)
            assert fails(failing, answer), answer
            assert not fails(passing, answer), answer
    assert verdicts[Verdict.REFUTED] >= verdicts.total() / 4


@pytest.mark.parametrize("name", MODELLED)
def test_rewrites_that_change_nothing_are_proved_to(name):
    text = mutants.body(text_of(name))
    for version in mutants.some(mutants.rewrites(text), MAX_REWRITES, name):
        answer = statements.same_as(compiled(text, "a.policy"), compiled(version, "b.policy"))
        assert answer.verdict is Verdict.PROVED, (version, str(answer))


def test_the_same_question_gets_the_same_answer():
    text = mutants.body(text_of("keep-headroom"))
    version = mutants.some(mutants.slips(text), 1, "again")[0]
    answers = {str(statements.same_as(compiled(text, "a.policy"), compiled(version, "b.policy"))) for _ in range(2)}
    assert len(answers) == 1
