"""The tables beside the grammar are those of the grammar, which has no conflicts, and using them needs no Lark."""

import json
import logging
import subprocess
import sys

import lark

from wharfinger.language import grammar, lexer


def test_the_tables_are_fresh():
    text = (grammar.directory() / "policy.lark").read_text()
    stored = (grammar.directory() / grammar.TABLES).read_text()
    assert stored == grammar.dump(grammar.build(text)), "run: python -m wharfinger.language.grammar"


def test_tables_survive_being_written():
    plain = grammar.build((grammar.directory() / "policy.lark").read_text())
    assert grammar.revive(json.loads(grammar.dump(plain))) == grammar.revive(plain)


def test_stale_tables_are_not_used(tmp_path, monkeypatch):
    (tmp_path / "policy.lark").write_text('start: POLICY\nexpression: NAME\nname: NAME\nPOLICY: "policy"\nNAME: /[a-z]+/\n')
    (tmp_path / grammar.TABLES).write_text((grammar.directory() / grammar.TABLES).read_text())
    monkeypatch.setattr(grammar, "directory", lambda: tmp_path)
    assert grammar.tables.__wrapped__().keywords == {"policy": "POLICY"}


def test_the_grammar_has_no_conflicts(caplog):
    # Lark resolves a shift/reduce conflict without a word, unless asked; one swallowed the comma behind a last argument.
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        lark.logger.propagate = True
        lark.Lark((grammar.directory() / "policy.lark").read_text(), parser="lalr", lexer="basic", start=list(grammar.STARTS), debug=True)
    assert not [record.message for record in caplog.records]


def test_every_symbol_has_a_name():
    tables = grammar.tables()
    assert not [name for name in (*tables.symbols.values(), *tables.keywords.values(), *tables.patterns) if name.startswith("_")]


def test_foreign_operators_are_not_the_languages_own():
    assert not set(lexer.FOREIGN) & set(grammar.tables().symbols)
    meant = {foreign.meant for foreign in lexer.FOREIGN.values()} - {None}
    assert meant <= {*grammar.tables().symbols.values(), *grammar.tables().keywords.values()}


def test_parsing_does_not_import_lark():
    program = """
import sys
from wharfinger.language.diagnostics import Diagnostics
from wharfinger.language.parser import parse
from wharfinger.language.source import Source
assert parse(Source(name="x", text='policy "p"\\nlet a = 1'), Diagnostics())
assert "lark" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
