"""Every policy in the language reference does what the reference describes."""

from pathlib import Path

import pytest

from tests import reference_tables
from tests.docs import pages
from wharfinger.builtins import CATALOGUE
from wharfinger.language.load import load_policies
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.report.render import render
from wharfinger.policies import policy_tests

PAGE = Path(__file__).parents[2] / "grammar" / "LANGUAGE.md"
HEAD = 'policy "example"\n\n'
BLOCKS = [block for block in pages.blocks(PAGE) if block.language]
LIBRARIES = {block.file: block.text for block in BLOCKS if block.language == "policy-file"}
EXAMPLES = [block for block in BLOCKS if block.language in {"policy", "rules"}]
MISTAKES = [block for block in BLOCKS if block.language in {"policy-error", "rules-error"}]


def loaded(block, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name, text in {**LIBRARIES, "example.policy": (HEAD if block.language.startswith("rules") else "") + block.text}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return load_policies(["example.policy"], CATALOGUE)


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: f"line {block.line}")
def test_an_example_is_clean(block, tmp_path, monkeypatch):
    _, diagnostics = loaded(block, tmp_path, monkeypatch)
    assert render(diagnostics) == ""


@pytest.mark.parametrize("block", [block for block in EXAMPLES if "\ntest " in block.text], ids=lambda block: f"line {block.line}")
def test_the_tests_of_an_example_pass(block, tmp_path, monkeypatch):
    policies, _ = loaded(block, tmp_path, monkeypatch)
    report = policy_tests.run(policies)
    assert report.results
    assert [failure.sentence for result in report.results for failure in result.failures] == []


@pytest.mark.parametrize("block", MISTAKES, ids=lambda block: f"{block.file} in line {block.line}")
def test_a_mistake_is_the_one_named(block, tmp_path, monkeypatch):
    _, diagnostics = loaded(block, tmp_path, monkeypatch)
    assert {diagnostic.code.name for diagnostic in diagnostics} == {block.file}


def test_every_fence_is_one_that_is_tested():
    assert {block.language for block in BLOCKS} == {"policy", "policy-file", "policy-error", "rules", "rules-error"}


def test_every_table_has_its_place():
    markers = [found["name"] for found in reference_tables.SECTION.finditer(PAGE.read_text(encoding="utf-8"))]
    assert sorted(markers) == sorted(reference_tables.TABLES)


def test_every_keyword_is_shown_in_an_example():
    from wharfinger.language.parse import grammar
    from wharfinger.language.parse.tokens import Lexer

    shown = set()
    for block in BLOCKS:
        shown |= {token.type for token in Lexer(Source(name="x", text=block.text), Diagnostics()).read()}
    terminals = grammar.terminals()
    assert {*terminals.keywords.values(), *terminals.symbols.values()} - shown == set()


@pytest.mark.parametrize("function", CATALOGUE.functions(), ids=lambda function: function.name)
def test_the_example_of_a_function_parses(function):
    diagnostics = Diagnostics()
    parse(Source(name="x", text=f'policy "p"\nlet a = {function.example}'), diagnostics)
    assert render(diagnostics) == ""
