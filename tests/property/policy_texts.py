"""Policy texts for hypothesis: derived from the grammar, mutated from shipped policies, and random tokens."""

from __future__ import annotations

import functools
from pathlib import Path

import lark
from hypothesis import strategies as st

from wharfinger.language.parse import grammar
from wharfinger.language.parse.tokens import FOREIGN, Lexer, spelling
from wharfinger.language.report.diagnostics import Diagnostics, Source

ROOT = Path(__file__).parents[2]
SAMPLES = {
    "NAME": ("a", "b", "it", "here", "count", "spread", "_x", "ImageLocality", "neutral", "minmax", "pass"),
    "NUMBER": ("0", "3", "1.5", "2Gi", "500m", "10%", "30s", "5min", "2Gb", "1e3"),
    "STRING": ('"web"', "'b'", '"{here} of {max}"', '"it\'s \\"so\\""', "'a\\nb'", '"é漢"', '""'),
}
DEEPEST = 30


@functools.cache
def _productions() -> dict[str, tuple[tuple[int, tuple[str, ...]], ...]]:
    """The productions of each rule, the shallowest first, each with the depth of its shallowest text."""
    parser = lark.Lark((grammar.directory() / "policy.lark").read_text(), parser="lalr", lexer="basic", start=list(grammar.STARTS))
    rules: dict[str, list[tuple[str, ...]]] = {}
    for rule in parser.rules:
        rules.setdefault(rule.origin.name, []).append(tuple(symbol.name for symbol in rule.expansion))
    depth: dict[str, int] = {}
    while len(depth) < len(rules):
        for name, expansions in rules.items():
            known = [max((depth.get(s, 0 if s.isupper() else 99) for s in e), default=0) + 1 for e in expansions]
            if min(known) < 99:
                depth[name] = min(known, default=99)
    return {
        name: tuple(sorted((max((depth.get(s, 0) for s in e), default=0) + 1, e) for e in expansions)) for name, expansions in rules.items()
    }


@st.composite
def derived(draw, start="start"):
    """A text of the language: right as far as the grammar is concerned."""
    productions = _productions()
    words = []
    waiting = [(start, 0)]
    while waiting:
        symbol, depth = waiting.pop()
        if words[-1:] == ["normalize"]:  # the tree builder knows which words may follow; the grammar does not
            words.append(draw(st.sampled_from(("none", "max", "minmax"))))
            continue
        if symbol.isupper():
            words.append(draw(st.sampled_from(SAMPLES[symbol])) if symbol in SAMPLES else spelling(symbol))
            continue
        choices = productions[symbol]
        if depth > DEEPEST or len(words) > 150:
            choices = choices[:1]
        _, expansion = choices[draw(st.integers(0, len(choices) - 1))] if len(choices) > 1 else choices[0]
        waiting += [(part, depth + 1) for part in reversed(expansion)]
    return " ".join(words)


ITEMS = ("param", "let", "metric", "filter", "score", "base", "quantum", "tie_break", "preemption", "test")


@st.composite
def programs(draw):
    """A whole policy with derived items, on lines of their own, with comments between them."""
    between = st.sampled_from(("\n", "\n\n\n", "\n# why\n", "  # beside\n", "\n\n# apart\n\n"))
    items = draw(st.lists(st.sampled_from(ITEMS).flatmap(derived), max_size=5))
    return "".join(part + draw(between) for part in ('policy "p"', *items))


@functools.cache
def policies() -> tuple[str, ...]:
    """The policies that come with the project."""
    return tuple(path.read_text(encoding="utf-8") for path in sorted((ROOT / "policies").glob("*.policy")))


@functools.cache
def _split(text: str) -> tuple[str, ...]:
    """A text as its tokens and what stands between them."""
    pieces, end = [], 0
    for token in Lexer(Source(name="x", text=text), Diagnostics()).read():
        pieces += [text[end : token.start], text[token.start : token.end]]
        end = token.end
    return (*pieces, text[end:])


WORDS = (*grammar.terminals().keywords, *grammar.terminals().symbols, *FOREIGN)
PIECES = st.sampled_from([*WORDS, *sum(SAMPLES.values(), ()), "\n", "#", '"', "'", "\\", "\x00", "é"])


@st.composite
def mutated(draw):
    """A policy that people use with a few tokens left out, doubled, swapped, replaced or put in."""
    pieces = list(_split(draw(st.sampled_from(policies()))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(pieces) - 1))
        change = draw(st.integers(0, 4))
        if change == 0:
            del pieces[at]
        elif change == 1:
            pieces.insert(at, pieces[at])
        elif change == 2:
            other = draw(st.integers(0, len(pieces) - 1))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif change == 3:
            pieces[at] = draw(PIECES)
        else:
            del pieces[at : at + draw(st.integers(1, 60))]
        pieces = pieces or [""]
    return "".join(pieces)


soup = st.lists(PIECES, max_size=60).map(" ".join) | st.text(max_size=200)
