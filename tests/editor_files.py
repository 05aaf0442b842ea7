"""The files by which editors colour policies: a TextMate grammar, a syntax file of Vim, and the words of each class as JSON.

Words, numbers and strings come from `grammar/policy.lark`, names of functions, fields, units, types and plugins from the catalogue that the
checker reads. What a word is for follows from the rules of the grammar that it stands in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from wharfinger.authoring import vocabulary
from wharfinger.builtins import CATALOGUE
from wharfinger.language.check.declarations import SCALARS
from wharfinger.language.parse import grammar, tokens
from wharfinger.language.semantics.catalogue import SOURCES, Subject
from wharfinger.language.semantics.types import UNITS

EDITORS = Path(__file__).parent.parent / "editors"
TEXTMATE = EDITORS / "vscode" / "syntaxes" / "policy.tmLanguage.json"
VIM = EDITORS / "vim" / "syntax" / "policy.vim"
WORDS = EDITORS / "words.json"

ESCAPE = r"\\."
OPERATORS = frozenset({"binary", "unary", "not_in", "compare"})
STEPS = frozenset({"step", "outcome", "sample"})


@cache
def words() -> Mapping[str, tuple[str, ...]]:
    """The words of each class."""
    lark, terminals = grammar.parser(), grammar.terminals()
    written = {terminal: word for word, terminal in terminals.keywords.items()}
    elements = {rule.expansion[0].name for rule in lark.rules if rule.origin.name == "element"}

    def those(wanted: Callable[[Any], bool], first: bool = False) -> set[str]:
        """The keywords in the rules of the grammar that are wanted."""
        found = (rule.expansion[:1] if first else rule.expansion for rule in lark.rules if wanted(rule))
        return {written[symbol.name] for symbols in found for symbol in symbols if symbol.name in written}

    classes = {
        "constants": those(lambda rule: rule.alias == "boolean"),
        "operators": those(lambda rule: rule.alias in OPERATORS),
        "choices": those(lambda rule: rule.alias == "if_then_else"),
        "declarations": those(lambda rule: rule.origin.name in elements or rule.origin.name == "element", first=True),
        "steps": those(lambda rule: rule.origin.name in STEPS),
        "keywords": set(terminals.keywords),
    }
    seen = set(vocabulary.SUBJECTS)
    for name, found in classes.items():
        classes[name] = found - seen
        seen |= found
    functions = {function.name.partition(".")[0] for function in CATALOGUE.functions()} | set(vocabulary.SPECIAL_FORMS) | set(SOURCES)
    classes |= {
        "subjects": set(vocabulary.SUBJECTS),
        "functions": functions,
        "types": {*SCALARS, "set"},
        "units": set(UNITS),
        "plugins": set(CATALOGUE.score_plugins()),
        "annotations": set(vocabulary.ANNOTATIONS),
        "values": set(vocabulary.WORDS) - set(terminals.keywords),
        **{f"{subject.value} fields": {each.path for each in CATALOGUE.attributes(subject)} for subject in Subject},
    }
    return {name: tuple(sorted(found)) for name, found in classes.items()}


def words_text() -> str:
    """The words of each class as JSON."""
    return json.dumps(words(), indent=2, ensure_ascii=False) + "\n"


# ── TextMate ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

SCOPES = {
    "constants": "constant.language",
    "operators": "keyword.operator.word",
    "choices": "keyword.control",
    "declarations": "keyword.other.declaration",
    "steps": "keyword.other.test",
    "keywords": "keyword.other",
    "subjects": "variable.language",
    "plugins": "support.class",
}
"""The scope of each class of words that mean the same wherever they stand."""


def textmate_text() -> str:
    """The TextMate grammar."""
    return json.dumps(_textmate(), indent=2, ensure_ascii=False) + "\n"


def _textmate() -> dict[str, Any]:
    patterns = grammar.terminals().patterns
    known, name, string = words(), patterns["NAME"], patterns["STRING"]
    declares = sorted({word for word, terminal in grammar.terminals().keywords.items() if terminal in tokens.DECLARES})
    escape = _rule(ESCAPE, "constant.character.escape")
    brace = _rule(r"\{\{|\}\}", "constant.character.escape")
    placeholder = _rule(tokens.PLACEHOLDER.pattern.replace(r"\{\{|", ""), "meta.embedded", {0: [{"include": "#expression"}]})
    expression = [
        _captured(rf"(?<!\.)(\.)\s*({name})", "punctuation.accessor", "variable.other.member"),
        *_fields(),
        _captured(rf"(:)\s*(?:(set)\s*(<)\s*)?({_any(SCALARS)})\b(?!\s*[.(])", *_typed()),
        _rule(rf"{name}(?=\s*:(?!:))", "variable.other.property"),
        _rule(rf"\b(?:{_any(known['functions'])})(?=\s*\()", "support.function"),
        _rule(rf"\b(?!(?:{_any(grammar.terminals().keywords)})\b){name}(?=\s*\()", "entity.name.function"),
        _number(),
        _rule(string, "string.quoted", {0: [escape]}),
        _captured(rf"\b(missing|normalize|disruption)\s+({_any(vocabulary.WORDS)})\b", "keyword.other", "constant.language"),
        *(_rule(rf"\b(?:{_any(known[each])})\b", scope) for each, scope in SCOPES.items()),
        _rule(rf"\b{name}\b", "variable.other"),
        _rule(_any(grammar.terminals().symbols, _is_operator), "keyword.operator"),
        _rule(_any(grammar.terminals().symbols, lambda symbol: not _is_operator(symbol)), "punctuation"),
    ]
    whole = [
        _rule(patterns["COMMENT"], "comment.line.number-sign"),
        _captured(rf"(@)\s*({name})", "punctuation.decorator", "entity.name.decorator"),
        _captured(rf"^\s*(node|pod)\s+({name}(?:-\w+)*|{string})(?=\s*(?:\{{|like\b|$))", "keyword.other.test", "entity.name.object"),
        _captured(rf"\b({_any(declares)})\s+({name})(?!\s*[.(])", "keyword.other.declaration", "entity.name"),
        _captured(rf"\b(policy|test)\s+({string})", "keyword.other.declaration", "entity.name string.quoted"),
        {
            "match": rf"(?<=\belse)\s+({string})",
            "captures": {"1": {"name": "string.quoted.policy", "patterns": [escape, brace, placeholder]}},
        },
        {"include": "#expression"},
    ]
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Wharfinger policy",
        "scopeName": "source.policy",
        "fileTypes": ["policy"],
        "patterns": whole,
        "repository": {"expression": {"patterns": expression}},
    }


def _fields() -> list[dict[str, Any]]:
    """The fields of each subject: `node.free.cpu`."""
    subjects = {name: words()[f"{name} fields"] for name in vocabulary.SUBJECTS if f"{name} fields" in words()}
    return [
        _captured(rf"\b({subject})(\.)({_any(fields)})\b", "variable.language", "punctuation.accessor", "support.variable.property")
        for subject, fields in subjects.items()
    ]


def _number() -> dict[str, Any]:
    """A number: its unit apart, and an unknown one marked as a mistake."""
    unit = _rule(rf"(?<=[0-9])(?:{_any(UNITS)})$", "keyword.other.unit")
    mistake = _rule(r"(?<=[0-9])(?!(?<=[eE])[0-9])(?![eE][+-]?[0-9]+$)[A-Za-z_µ][A-Za-z0-9_µ]*%?$", "invalid.illegal.unit")
    digits = _rule(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+(?![A-Za-z0-9_%]))?", "constant.numeric")
    return {"match": rf"\b{grammar.terminals().patterns['NUMBER']}", "captures": {"0": {"patterns": [unit, digits, mistake]}}}


def _typed() -> tuple[str, ...]:
    return "punctuation", "support.type", "punctuation", "support.type"


def _is_operator(symbol: str) -> bool:
    return symbol not in {".", ",", ":", "@", "(", ")", "[", "]", "{", "}"}


def _rule(match: str, scope: str, captures: Mapping[int, Iterable[Any]] | None = None) -> dict[str, Any]:
    rule: dict[str, Any] = {"match": match, "name": f"{scope}.policy"}
    return rule | ({"captures": {str(each): {"patterns": list(inner)} for each, inner in captures.items()}} if captures else {})


def _captured(match: str, *scopes: str) -> dict[str, Any]:
    named = {str(number): {"name": " ".join(f"{part}.policy" for part in scope.split())} for number, scope in enumerate(scopes, start=1)}
    return {"match": match, "captures": named}


def _any(found: Iterable[str], wanted: Callable[[str], bool] = lambda _: True) -> str:
    """A regular expression for any of the words; longer ones first, so that none hides another."""
    return "|".join(re.escape(word) for word in sorted(found, key=lambda word: (-len(word), word)) if wanted(word))


# ── Vim ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

GROUPS = {
    "constants": "Boolean",
    "operators": "Operator",
    "choices": "Conditional",
    "declarations": "Statement",
    "steps": "Keyword",
    "keywords": "Keyword",
    "subjects": "Identifier",
    "plugins": "Type",
}
"""The group of Vim for each class of words."""


def vim_text() -> str:
    """The syntax file of Vim."""
    known = words()
    lines = [
        '" Made from the grammar of the language: change that, then `make docs`.',
        'if exists("b:current_syntax")',
        "  finish",
        "endif",
        "syntax case match",
    ]
    for name, group in GROUPS.items():
        lines += [f"syntax keyword policy{name.title()} {' '.join(known[name])}", f"highlight default link policy{name.title()} {group}"]
    units = r"\|".join(sorted((unit for unit in known["units"]), key=lambda unit: (-len(unit), unit)))
    functions = r"\|".join(sorted(known["functions"], key=lambda word: (-len(word), word)))
    matches = {
        "Member": (r"\.\@1<!\.\s*\h\w*", "Identifier"),
        "Key": (r"\<\h\w*\>\ze\s*:", "Identifier"),
        "Function": (rf"\<\%({functions}\)\ze\s*(", "Function"),
        "Number": (rf"\<\d\+\%(\.\d\+\)\=\%([eE][+-]\=\d\+\)\=\%({units}\)\=", "Number"),
        "Annotation": (r"@\s*\h\w*", "PreProc"),
        "Comment": (r"#.*$", "Comment"),
    }
    for name, (match, group) in matches.items():
        lines += [f"syntax match policy{name} ~{match}~", f"highlight default link policy{name} {group}"]
    lines += [
        r'syntax region policyString start=~"~ skip=~\\.~ end=~"~ oneline',
        r"syntax region policyString start=~'~ skip=~\\.~ end=~'~ oneline",
        "highlight default link policyString String",
        "setlocal commentstring=#\\ %s",
        'let b:current_syntax = "policy"',
    ]
    return "\n".join(lines) + "\n"
