"""Twice as long a chain of lets takes at most 2.2 times the work to check and to compile, whatever the lets are made of."""

from __future__ import annotations

import pytest

from tests.hostile import doubling
from tests.unit.language.policies import checked, policy
from tests.work import calls
from wharfinger.compiler.program import compile_policy
from wharfinger.language.ast import BinaryOp
from wharfinger.language.semantics.types import Kind

SHORT = 4
MOST = 2.2
STEPS = {name: (kind, step) for name, kind, step in doubling.steps()}
SIMPLE = {"and": (Kind.BOOL, "{0} and {0}"), "+": (Kind.COUNT, "{0} + {0}"), "guarded": STEPS["guarded"]}


def work(text):
    return calls(lambda: compile_policy(policy(text)), limit=3_000_000)


def grows_with_its_text(make):
    short, long = work(make(SHORT)), work(make(2 * SHORT))
    assert long <= MOST * short


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported():
    for place in ("require", "score"):
        compile_policy(policy(doubling.chain(2, Kind.BOOL, "{0} and {0}", place)))


@pytest.mark.parametrize("name", STEPS)
def test_the_cost_of_chained_operators_grows_with_the_text(name):
    kind, step = STEPS[name]
    if checked(doubling.chain(1, kind, step, "require"))[0] is None:  # points of Kubernetes' scores are known in scores only
        for place in ("score in points", "branch"):
            grows_with_its_text(lambda n, place=place: doubling.chain(n, kind, step, place))
        return
    of_nodes = checked(doubling.chain(1, kind, step, "scope"))[0] is None  # a scope knows no node
    guarded = "when of a filter" if of_nodes else "scope, when and require"
    for place in ("require", guarded):
        grows_with_its_text(lambda n, place=place: doubling.chain(n, kind, step, place))


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("place", doubling.PLACES)
def test_the_cost_of_chained_expressions_grows_with_the_text_in_every_place(place, name):
    grows_with_its_text(lambda n: doubling.chain(n, *SIMPLE[name], place))


@pytest.mark.parametrize("place", doubling.CONSTANT_PLACES)
def test_the_cost_of_chained_constants_grows_with_the_text(place):
    grows_with_its_text(lambda n: doubling.constant_chain(n, place))


@pytest.mark.parametrize("name", doubling.FUNCTIONS)
def test_the_cost_of_chained_functions_grows_with_the_text(name):
    grows_with_its_text(lambda n: doubling.functions(n, doubling.FUNCTIONS[name]))


def test_every_operator_of_the_grammar_is_among_them():
    assert {op.value for op in BinaryOp} <= STEPS.keys()
