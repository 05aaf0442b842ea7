"""Any file gives a policy or findings in bounded time, and never an exception."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.load_source import load_source
from tests.property import policy_texts
from tests.work import calls
from wharfinger.builtins import CATALOGUE
from wharfinger.language import ast
from wharfinger.language.files import decode
from wharfinger.language.format import canonical, format_file
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.report.render import FORMATS, render

many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
texts = policy_texts.programs() | policy_texts.mutated() | policy_texts.derived() | policy_texts.soup

MAX_CALLS = 1_000_000

# What the grammar leaves to the tree builder, and so may be wrong with a text derived from it.
BEYOND_THE_GRAMMAR = {Code.P001, Code.P111, Code.P112, Code.P117, Code.P120, Code.P121, Code.P122, Code.P124}


def parsed(text: str) -> tuple[ast.File | None, Diagnostics]:
    diagnostics = Diagnostics()
    return parse(Source(name="any.policy", text=text), diagnostics), diagnostics


@given(texts)
@many
def test_any_text_is_parsed_or_explained(text):
    file, diagnostics = parsed(text)
    assert file is not None or diagnostics.has_errors
    for diagnostic in diagnostics:
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)
    for form in FORMATS:
        assert bool(render(diagnostics, form)) == (bool(len(diagnostics)) or form == "json")


@given(texts)
@many
def test_any_text_is_checked_or_explained(text):
    diagnostics = Diagnostics()
    policy = load_source(Source(name="any.policy", text=text), CATALOGUE, diagnostics)
    assert policy is None or not diagnostics.has_errors


@given(texts)
@many
def test_any_text_is_checked_with_bounded_work(text):
    calls(lambda: load_source(Source(name="any.policy", text=text), CATALOGUE, Diagnostics()), MAX_CALLS)


@given(policy_texts.derived())
@many
def test_texts_derived_from_the_grammar_are_parsed(text):
    _, diagnostics = parsed(text)
    assert {diagnostic.code for diagnostic in diagnostics} <= BEYOND_THE_GRAMMAR


@given(policy_texts.programs() | policy_texts.mutated())
@many
def test_formatting_keeps_the_meaning_and_is_idempotent(text):
    file, diagnostics = parsed(text)
    if file is None or diagnostics.has_errors:
        return
    formatted = format_file(file)
    again, complaints = parsed(formatted)
    assert not list(complaints)
    assert ast.is_same_tree(again, file)
    assert format_file(again) == formatted
    assert canonical(again) == canonical(file)


@given(st.binary(max_size=400))
@many
def test_any_bytes_are_text_or_explained(content):
    diagnostics = Diagnostics()
    source = decode(content, "any.policy", diagnostics)
    assert (source is None) == diagnostics.has_errors


@pytest.mark.parametrize("text", policy_texts.policies())
def test_shipped_policies_have_nothing_to_complain_about(text):
    _, diagnostics = parsed(text)
    assert not list(diagnostics)
