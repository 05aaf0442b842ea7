"""The grammar has no conflicts, its analysis is cached next to it, and commands that parse nothing do not import Lark."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import lark
import pytest

from tests.work import calls
from wharfinger.language.parse import grammar, interactive, tokens
from wharfinger.language.report.diagnostics import Diagnostics, Source

POLICIES = Path(__file__).parents[4] / "policies"


def test_the_grammar_has_no_conflicts(caplog):
    # Lark resolves a shift/reduce conflict without a word, unless asked; one swallowed the comma behind a last argument.
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        lark.logger.propagate = True
        lark.Lark((grammar.directory() / "policy.lark").read_text(), parser="lalr", lexer="basic", start=list(grammar.STARTS), debug=True)
    assert not [record.message for record in caplog.records]


@pytest.fixture
def copied_grammar(tmp_path, monkeypatch):
    shutil.copy(grammar.directory() / grammar.GRAMMAR, tmp_path)
    monkeypatch.setattr(grammar, "directory", lambda: tmp_path)
    return tmp_path


def test_the_analysis_is_cached_next_to_the_grammar_and_renewed_with_it(copied_grammar):
    grammar.parser.__wrapped__()
    assert (copied_grammar / grammar.CACHE).is_file()
    (copied_grammar / grammar.GRAMMAR).write_text('start: POLICY\nexpression: NAME\nname: NAME\nPOLICY: "policy"\nNAME: /[a-z]+/\n')
    assert {terminal.name for terminal in grammar.parser.__wrapped__().terminals} == {"POLICY", "NAME"}


def test_a_broken_cache_is_not_used(copied_grammar):
    grammar.parser.__wrapped__()
    (copied_grammar / grammar.CACHE).write_bytes((copied_grammar / grammar.CACHE).read_bytes()[:1000])
    assert grammar.parser.__wrapped__().terminals


def test_a_folder_that_cannot_be_written_does_no_harm(copied_grammar):
    (copied_grammar / "__pycache__").write_text("a file where the folder of the cache would be")
    assert grammar.parser.__wrapped__().terminals


def test_every_symbol_has_a_name():
    terminals = grammar.terminals()
    assert not [name for name in (*terminals.symbols.values(), *terminals.keywords.values(), *terminals.patterns) if name.startswith("_")]


def test_foreign_operators_are_not_the_languages_own():
    assert not set(tokens.FOREIGN) & set(grammar.terminals().symbols)
    meant = {foreign.meant for foreign in tokens.FOREIGN.values()} - {None}
    assert meant <= {*grammar.terminals().symbols.values(), *grammar.terminals().keywords.values()}


def test_no_rule_grows_the_list_of_another():
    # A copy of the interactive parser shares its trees. Lark appends to the list of a rule of its own making (`member*`) in place.
    assert not [rule for rule in grammar.parser().rules if rule.origin.name.startswith("_")]


def tokens_of(text):
    return tokens.Lexer(Source(name="x", text=text), Diagnostics()).read()


def test_a_token_that_is_not_taken_changes_nothing():
    parse = interactive.Interactive("expression")
    assert all(parse.feed(token) for token in tokens_of("f(a, 1 + 2"))
    before, stack = parse.expected(), list(parse.values)
    assert not parse.feed(tokens.Token("RBRACE", "}", 0, 0))  # after `2`, the sum would be reduced before it is noticed
    assert (parse.expected(), parse.values) == (before, stack)
    assert parse.accepts("RPAR", grammar.END)
    assert not parse.accepts("RPAR", "RPAR")
    assert "PLUS" in parse.expected()
    assert all(parse.feed(tokens.Token(kind, text, 0, 0)) for kind, text in (("RPAR", ")"), (grammar.END, "")))
    assert [str(token.text) for token in parse.tree.scan_values(lambda value: isinstance(value, tokens.Token))] == list("f(a,1+2)")


@pytest.mark.parametrize("path", sorted(POLICIES.rglob("*.policy")), ids=lambda path: path.name)
def test_the_stack_is_that_of_the_parser_of_lark(path):
    parse, lark = interactive.Interactive("start"), grammar.parser().parse_interactive(start="start")
    for number, token in enumerate(tokens_of(path.read_text(encoding="utf-8"))):
        if number % 40 == 0:
            assert parse.expected() == lark.accepts()
        assert parse.feed(token)
        lark.feed_token(token)
        assert parse.values == lark.parser_state.value_stack


def test_levels_of_precedence_are_not_gone_through_for_each_operand():
    found = tokens_of("[" + ", ".join(["a.b < 1 + 2"] * 200) + "]")
    interactive.Interactive("expression").feed_all(found)
    assert calls(lambda: interactive.Interactive("expression").feed_all(found)) < 20 * len(found)


def test_tried_tokens_are_not_kept():
    parse = interactive.Interactive("start")
    assert all(parse.feed(token) for token in tokens_of("let a = [1, 2, 3"))
    for _ in range(3):
        assert parse.accepts("COMMA", "NUMBER", "RSQB", "LET")
    assert all(parse.feed(token) for token in [*tokens_of("]"), tokens.Token(grammar.END, "", 0, 0)])
    assert [token.text for token in parse.tree.scan_values(lambda value: getattr(value, "type", None) == "NUMBER")] == ["1", "2", "3"]


@pytest.mark.parametrize("words", [["--version"], ["status", "--help"]])
def test_verbs_that_parse_nothing_do_not_import_lark(words):
    program = f"""
import sys
from wharfinger.__main__ import main
sys.argv = ["wharf", *{words!r}]
try:
    main()
except SystemExit:
    pass
assert "lark" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env={"PYTHONPATH": ":".join(sys.path)})
