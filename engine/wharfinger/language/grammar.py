"""The grammar as tables: which token may follow, and what a completed rule becomes.

`grammar/policy.lark` is the truth. Lark turns it into LALR(1) tables, which takes a tenth of a second, and importing Lark takes half of
that again: too long for a command that checks one file. So the tables are kept beside the grammar in `policy.tables.json` together with the
digest of the text they were made from, and Lark is only needed when the grammar has changed. A test asserts that they are fresh.

This is the only module that knows Lark.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

STARTS = ("start", "expression")  # a whole file, and what stands in the holes of a message
END = "$END"
TABLES = "policy.tables.json"


@dataclass(frozen=True, slots=True)
class Rule:
    """One production: `size` values are replaced by one.

    `layout` says how: None takes them as they are; otherwise each entry is the index of a value, -1 for an absent optional part, or -2 - i
    for the members of the list at i. `action` names the method that builds the value; None keeps a list, and `passes` hands a single value
    through unchanged.
    """

    origin: str
    size: int
    action: str | None
    passes: bool
    layout: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything the lexer and the parser need.

    A row maps a terminal to the next state (≥ 0) or to the rule to reduce by (~index). `reserved` are the keywords that cannot be names.
    """

    rows: tuple[Mapping[str, int], ...]
    rules: tuple[Rule, ...]
    starts: Mapping[str, int]
    ends: Mapping[str, int]
    patterns: Mapping[str, str]
    symbols: Mapping[str, str]
    keywords: Mapping[str, str]
    reserved: frozenset[str]


def directory() -> Path:
    """The folder of the grammar: inside the installed package, or at the top of a checkout."""
    installed = Path(__file__).parent.parent / "grammar"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "grammar"


@cache
def tables() -> Tables:
    """The tables of the shipped grammar, read from their file where it is fresh and made anew where it is not."""
    text = (directory() / "policy.lark").read_text(encoding="utf-8")
    stored = directory() / TABLES
    if stored.is_file():
        plain = json.loads(stored.read_bytes())
        if plain["digest"] == digest(text):
            return revive(plain)
    return revive(build(text))


def digest(text: str) -> str:
    """The digest that ties tables to the grammar they were made from."""
    return hashlib.sha256(text.encode()).hexdigest()


def revive(plain: Mapping[str, Any]) -> Tables:
    """Tables from their JSON form."""
    rules = tuple(Rule(origin, size, action, passes, layout and tuple(layout)) for origin, size, action, passes, layout in plain["rules"])
    return Tables(
        rows=tuple(plain["rows"]),
        rules=rules,
        starts=plain["starts"],
        ends=plain["ends"],
        patterns=plain["patterns"],
        symbols=plain["symbols"],
        keywords=plain["keywords"],
        reserved=frozenset(plain["reserved"]),
    )


def build(text: str) -> dict[str, Any]:
    """The tables of a grammar in their JSON form, made by Lark."""
    import lark  # noqa: PLC0415  # only needed when the grammar has changed; importing it costs more than parsing a policy

    parser: Any = lark.Lark(text, parser="lalr", lexer="basic", start=list(STARTS), maybe_placeholders=True)
    table = parser.parser.parser._parse_table  # noqa: SLF001  # Lark has no public way to the finished table
    rules = list(parser.rules)
    numbers = {rule: index for index, rule in enumerate(rules)}
    states = _in_order(table)
    places = {state: index for index, state in enumerate(states)}

    def cell(action: Any, target: Any) -> int:
        return places[target] if str(action) == "Shift" else ~numbers[target]

    plain: dict[str, Any] = {
        "digest": digest(text),
        "starts": {start: places[table.start_states[start]] for start in STARTS},
        "ends": {start: places[table.end_states[start]] for start in STARTS},
        "rules": [_rule(rule) for rule in rules],
        "rows": [{symbol: cell(*entry) for symbol, entry in sorted(table.states[state].items())} for state in states],
    }
    plain |= _terminals(parser.terminals)
    names = {rule.expansion[0].name for rule in rules if rule.origin.name == "name"}
    return plain | {"reserved": sorted(word for word, terminal in plain["keywords"].items() if terminal not in names)}


def _in_order(table: Any) -> list[Any]:
    """The states as they are met from the starts; Lark numbers them differently in every process."""
    met = dict.fromkeys(table.start_states[start] for start in STARTS)
    waiting = list(met)
    for state in waiting:
        for _, (action, target) in sorted(table.states[state].items()):
            if str(action) == "Shift" and target not in met:
                met[target] = None
                waiting.append(target)
    return waiting


def _rule(rule: Any) -> list[Any]:
    """A rule as JSON: origin, size, action, passes, layout."""
    helper = rule.origin.name.startswith("_")
    action = None if helper else str(rule.alias or rule.origin.name)
    blanks = rule.options.empty_indices if rule.options else ()
    layout = _layout([symbol.name for symbol in rule.expansion], blanks)
    size = len(rule.expansion)
    passes = bool(rule.options and rule.options.expand1) and len(layout) == 1 and not rule.alias
    plain = layout == list(range(size)) and not helper
    return [str(rule.origin.name), size, action, passes, None if plain else layout]


def _layout(names: Sequence[str], blanks: Sequence[bool]) -> list[int]:
    """How the values of an expansion become arguments; `blanks` marks where an optional part was left out (Lark's `empty_indices`)."""
    layout: list[int] = []
    position = 0
    for absent in blanks or [False] * len(names):
        if absent:
            layout.append(-1)
        else:
            layout.append(-2 - position if names[position].startswith("_") else position)
            position += 1
    return layout


def _terminals(terminals: Sequence[Any]) -> dict[str, Any]:
    """Terminals by how they are recognised: by pattern, as a symbol, or as a word."""
    patterns: dict[str, str] = {}
    symbols: dict[str, str] = {}
    keywords: dict[str, str] = {}
    for terminal in sorted(terminals, key=lambda t: str(t.name)):
        if terminal.pattern.type == "re":
            patterns[terminal.name] = terminal.pattern.value
        elif re.fullmatch(r"\w+", terminal.pattern.value):
            keywords[terminal.pattern.value] = terminal.name
        else:
            symbols[terminal.pattern.value] = terminal.name
    return {"patterns": patterns, "symbols": symbols, "keywords": keywords}


def dump(plain: Mapping[str, Any]) -> str:
    """The text of the tables file: one rule or state a line, so that a change of the grammar can be read as a difference."""
    lines = [f'"{key}": {json.dumps(value)}' for key, value in plain.items() if key not in {"rules", "rows"}]
    for key in ("rules", "rows"):
        entries = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in plain[key])
        lines.append(f'"{key}": [\n{entries}\n]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def regenerate() -> Path:
    """The tables file, written anew from the grammar."""
    text = (directory() / "policy.lark").read_text(encoding="utf-8")
    target = directory() / TABLES
    target.write_text(dump(build(text)), encoding="utf-8")
    return target


if __name__ == "__main__":
    print(f"wrote {regenerate()}")  # noqa: T201  # this is the command that regenerates the file
