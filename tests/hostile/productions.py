"""The productions of the grammar that a text is made of, read from the table of the parser itself."""

from __future__ import annotations

from functools import cache
from typing import Any

from lark.parsers.lalr_analysis import Shift

from wharfinger.language.parse import grammar
from wharfinger.language.parse.tokens import Lexer
from wharfinger.language.report.diagnostics import Diagnostics, Source


def of_grammar(start: str = "start") -> frozenset[str]:
    """Every production that a text may be made of; those that only make lists of others are left out."""
    reachable, new = set[str](), {start}
    found = set()
    while new:
        reachable |= new
        rules = [rule for rule in grammar.parser().rules if rule.origin.name in reachable]
        found = {_written(rule) for rule in rules if "{" not in rule.origin.name}
        new = {symbol.name for rule in rules for symbol in rule.expansion if not symbol.is_term} - reachable
    return frozenset(found)


def of_text(text: str, start: str = "start") -> frozenset[str]:
    """The productions of a text without errors of syntax; raises KeyError for any other."""
    table = _table()
    tokens = [token.type for token in Lexer(Source(name="text", text=text), Diagnostics()).read()]
    states, found = [table.start_states[start]], set()
    for token in [*tokens, grammar.END]:
        while states[-1] != table.end_states[start]:
            action, argument = table.states[states[-1]][token]
            if action is Shift:
                states.append(argument)
                break
            del states[len(states) - len(argument.expansion) :]
            found.add(_written(argument))
            states.append(table.states[states[-1]][argument.origin.name][1])
    return frozenset(found)


@cache
def _table() -> Any:
    return grammar.parser().parser.parser.parser.parse_table


def _written(rule: Any) -> str:
    return f"{rule.origin.name} ::= {' '.join(symbol.name for symbol in rule.expansion)}"
