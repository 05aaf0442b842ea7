"""The grammar of the language, read by Lark: the table of its LALR parser, and the terminals for modules that read or write text.

`grammar/policy.lark` is the only description of the syntax. Lark analyses it once and caches the result in the
`__pycache__` folder of the grammar: the analysis takes 100 ms, reading its result 10 ms. If that folder cannot be written, every process
analyses the grammar again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from lark import Lark, Tree

STARTS = ("start", "expression")  # a whole file; the text between the braces of a message
END = "$END"  # the terminal with which Lark ends a text
GRAMMAR = "policy.lark"
CACHE = "__pycache__/policy.lark.cache"


class Terminals(msgspec.Struct, frozen=True):
    """The terminals by how they are recognised: a pattern by its name; a symbol or keyword by how it is written.

    `reserved` are the keywords that cannot be names.
    """

    patterns: Mapping[str, str]
    symbols: Mapping[str, str]
    keywords: Mapping[str, str]
    reserved: frozenset[str]


def directory() -> Path:
    """The folder of the grammar: inside the installed package, or at the top of a checkout."""
    installed = Path(__file__).parents[2] / "grammar"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "grammar"


class Reduction(msgspec.Struct, frozen=True):
    """What a parser does at the end of a production of `size` parts, whose name is `origin`: `build` makes its value of theirs.

    `passes_on`: it has one part, and its value is that of the part, as in `?sum: product`.
    """

    size: int
    origin: str
    build: Callable[[list[Any]], Any]
    passes_on: bool


class Chains(dict[tuple[int, int, str], int]):
    """The state after all reductions that pass a value on, by (the state below, the state, the kind of the next token).

    An operand passes eight levels of precedence before the next operator, with the same result wherever it stands in a text.
    """

    def __init__(self, actions: Mapping[int, Mapping[str, int | Reduction]], following: Mapping[int, Mapping[str, int]]) -> None:
        super().__init__()
        self._actions = actions
        self._following = following

    def __missing__(self, key: tuple[int, int, str]) -> int:
        below, state, kind = key
        while isinstance(action := self._actions[state].get(kind), Reduction) and action.passes_on:
            state = self._following[below][action.origin]
        self[key] = state
        return state


class Table(msgspec.Struct, frozen=True):
    """The table of the LALR parser for one start.

    `actions` by state and kind of token: the next state if the token is taken, or a reduction before it is. `following` has the state after
    a production, by the state before it and its name.
    """

    start: int
    end: int
    actions: Mapping[int, Mapping[str, int | Reduction]]
    following: Mapping[int, Mapping[str, int]]
    chains: Chains


@cache
def tables() -> dict[str, Table]:
    """The table that Lark made of the grammar, by start, without the wrappers around it.

    Lark looks up the function of a production by comparing rules, and goes through each level of precedence for each operand. This took
    half of the time in which a long text was parsed.
    """
    configurations = {start: parser().parse_interactive(start=start).parser_state.parse_conf for start in STARTS}
    whole = configurations[STARTS[0]]
    reductions = {rule: _reduction(rule, build) for rule, build in whole.callbacks.items()}
    actions: dict[int, dict[str, int | Reduction]] = {}
    following: dict[int, dict[str, int]] = {}
    for state, choices in whole.states.items():
        actions[state], following[state] = {}, {}
        for kind, (_, target) in choices.items():
            if not kind.isupper():
                following[state][kind] = target
            else:
                actions[state][kind] = target if isinstance(target, int) else reductions[target]
    chains = Chains(actions, following)
    return {start: Table(each.start_state, each.end_state, actions, following, chains) for start, each in configurations.items()}


def _reduction(rule: Any, build: Callable[[list[Any]], Any]) -> Reduction:
    part = Tree[Any]("part", [])
    size = len(rule.expansion)
    return Reduction(size, rule.origin.name, build, size == 1 and build([part]) is part)


@cache
def parser() -> Lark:
    """Lark's parser of the shipped grammar. `interactive` parses by its table; its own lexer and parser are never started."""
    text = (directory() / GRAMMAR).read_text(encoding="utf-8")
    kept = directory() / CACHE
    with contextlib.suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
    return Lark(text, parser="lalr", lexer="basic", start=list(STARTS), maybe_placeholders=True, cache=str(kept))


@cache
def terminals() -> Terminals:
    """The terminals of the shipped grammar."""
    lark = parser()
    patterns: dict[str, str] = {}
    symbols: dict[str, str] = {}
    keywords: dict[str, str] = {}
    for terminal in sorted(lark.terminals, key=lambda terminal: terminal.name):
        pattern = terminal.pattern
        if pattern.type == "re":
            patterns[terminal.name] = pattern.value
        elif re.fullmatch(r"\w+", pattern.value):
            keywords[pattern.value] = terminal.name
        else:
            symbols[pattern.value] = terminal.name
    names = {rule.expansion[0].name for rule in lark.rules if rule.origin.name == "name"}
    reserved = frozenset(word for word, terminal in keywords.items() if terminal not in names)
    return Terminals(patterns=patterns, symbols=symbols, keywords=keywords, reserved=reserved)
