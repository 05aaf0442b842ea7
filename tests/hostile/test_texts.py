"""Checking hostile texts takes work in proportion to their size, or they are refused above a limit."""

from __future__ import annotations

import contextlib

import pytest
from msgspec.structs import replace

from tests.hostile import blocks, doubling, mixtures, productions, texts
from tests.unit.language.policies import checked
from tests.work import calls
from wharfinger.compiler.program import compile_policy
from wharfinger.errors import WharfingerError
from wharfinger.language.format import format_file, format_source
from wharfinger.language.parse.parser import parse
from wharfinger.language.parse.tokens import Lexer
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import Kind
from wharfinger.policies import policy_tests

SMALL = 16
LIMITS = {"P005", "P008", "P009", "P010", "L103"}
CHAINS = texts.chains()


def checked_and_compiled(text, then):
    policy, _ = checked(text)
    if policy is not None:
        with contextlib.suppress(WharfingerError):  # said in words: a weight that is too heavy
            compile_policy(policy)
            then([policy])


def work(text, then=list):
    return calls(lambda: checked_and_compiled(text, then), limit=20_000_000)


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported():
    checked_and_compiled(texts.FAMILIES["many filters"](2), policy_tests.run)


@pytest.mark.parametrize("name", texts.FAMILIES)
def test_twice_the_text_takes_twice_the_work(name):
    short, long = (work(texts.FAMILIES[name](n)) for n in (SMALL, 2 * SMALL))
    assert long <= 2.2 * short


def test_the_condition_of_a_group_takes_no_more_than_that_of_a_scope():
    """It is compiled once, and its cost is estimated from what was compiled."""
    of_group, of_scope = (work(texts.FAMILIES[name](2 * SMALL)) for name in ("a group by a long condition", "a scope of many labels"))
    assert of_group <= of_scope


@pytest.mark.parametrize("name", texts.PRODUCTS)
def test_texts_above_a_limit_are_refused_before_the_work_is_done(name):
    _, found = checked(texts.PRODUCTS[name](200))
    assert {d.code.name for d in found} & LIMITS


@pytest.mark.parametrize("name", texts.WITHIN)
def test_work_does_not_grow_with_the_product_of_two_sizes(name):
    policy, found = checked(texts.WITHIN[name]())
    assert policy is not None, [str(d) for d in found][:3]
    assert work(texts.WITHIN[name](), policy_tests.run) < 5_000_000


@pytest.mark.parametrize("name", ["expectations about a rejected node", "messages that no filter says"])
def test_a_second_expectation_about_a_node_takes_little_work(name):
    """What a failed expectation says of a node is found once for each pod that is placed."""
    few, many = (policy_tests.run([checked(mixtures.FAMILIES[name](n))[0]]).failed for n in (2, 4))
    assert few == many == 1
    policy, _ = checked(mixtures.FAMILIES[name](100))
    steps = policy.tests[0].steps
    once, often = (replace(policy, tests=(replace(policy.tests[0], steps=steps[: 4 + n]),)) for n in (1, 60))
    assert calls(lambda: policy_tests.run([often])) <= 1.5 * calls(lambda: policy_tests.run([once]))


def test_the_group_of_a_pod_in_a_test_is_found_once():
    """Not again for each pod that is placed."""
    few, many = (
        calls(lambda n=n: policy_tests.run([checked(blocks.FAMILIES["huge groups in a test"](n))[0]])) for n in (4 * SMALL, 8 * SMALL)
    )
    assert many <= 2.2 * few


@pytest.mark.parametrize("name", texts.NESTED)
def test_the_deepest_allowed_texts_are_checked_within_the_limits(name):
    assert work(texts.largest(texts.NESTED[name])) < 1_000_000


@pytest.mark.parametrize("name", texts.NESTED)
def test_a_part_of_a_deep_expression_is_formatted_once(name):
    text = texts.NESTED[name](90)
    tree = parse(Source(name="text", text=text), Diagnostics())
    assert calls(lambda: format_file(tree)) <= 12 * len(text)


@pytest.mark.parametrize("name", texts.NESTED | texts.FAMILIES)
@pytest.mark.parametrize("every", [3, 7])
def test_a_text_that_is_formatted_again_stays_and_keeps_its_comments(name, every):
    text = (texts.NESTED | texts.FAMILIES)[name](6)
    tokens = Lexer(Source(name="text", text=text), Diagnostics()).read()
    for token in tokens[::-every]:
        text = f"{text[: token.start]} # c {{é\n{text[token.start :]}"
    once = formatted(text)
    if once is not None:  # else it has errors of syntax
        assert formatted(once) == once
        assert once.count("# c") == text.count("# c")


def formatted(text):
    return format_source(Source(name="text", text=text), Diagnostics())


@pytest.mark.parametrize("name", CHAINS)
def test_the_longest_allowed_chains_are_checked_within_the_limits(name):
    assert work(CHAINS[name]()) < 400_000


@pytest.mark.parametrize("name", [name for name in texts.FAMILIES if name.startswith("unknown")])
def test_similar_names_are_searched_within_a_budget(name):
    assert work(texts.largest(texts.FAMILIES[name])) < 4_000_000


def test_there_are_many_and_all_differ():
    small = [family(SMALL) for family in (texts.NESTED | texts.FAMILIES | texts.PRODUCTS).values()]
    chains = [chain() for chain in CHAINS.values()]
    assert len({*small, *chains}) >= 200
    assert len(CHAINS) >= 2 * len(list(doubling.steps()))


def test_every_construct_of_the_grammar_is_in_one_of_them():
    """A new construct is missing here until a family, or a step of a chain, is made of it: then all the limits above hold for it."""
    small = [family(SMALL) for family in (texts.NESTED | texts.FAMILIES).values()]
    chains = [doubling.chain(2, kind, step, "require") for _, kind, step in doubling.steps()]
    chains += [doubling.chain(2, Kind.BOOL, "{0} and {0}", place) for place in doubling.PLACES]
    chains += [doubling.constant_chain(2, place) for place in doubling.CONSTANT_PLACES]
    read = [text for text in (*small, *chains) if has_no_syntax_error(text)]
    assert productions.of_grammar() - frozenset().union(*map(productions.of_text, read)) == frozenset()


def has_no_syntax_error(text):
    found = Diagnostics()
    return parse(Source(name="text", text=text), found) is not None and not found.has_errors


def test_a_large_table_is_never_compared_with_one_that_was_checked_before(monkeypatch):
    text = texts.WITHIN["looks of pods into a large table"]()
    checked_and_compiled(text, list)
    compared = []
    monkeypatch.setattr(typed.Entries, "__eq__", lambda left, right: compared.append(left) or left is right)
    checked_and_compiled(text, list)
    assert compared == []
