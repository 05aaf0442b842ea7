"""The grammar of the language, read by Lark: the LALR parser, and the terminals for modules that read or write text.

`grammar/policy.lark` is the only description of the syntax. Lark analyses it once and caches the result in the
`__pycache__` folder of the grammar: the analysis takes 100 ms, reading its result 10 ms. If that folder cannot be written, every process
analyses the grammar again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from lark import Lark

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


@cache
def parser() -> Lark:
    """Lark's parser of the shipped grammar. Tokens are fed to it by `interactive`; its own lexer is never started."""
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
