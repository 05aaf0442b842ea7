"""Small sets of words that stand in fixed places, and what is said when another word stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from wharfinger.language import ast
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics, Label
from wharfinger.language.source import Span
from wharfinger.language.suggest import closest

T = TypeVar("T")

NORMALIZE = {method.value: method for method in ast.Normalize}
CLAUSE_MISSING = {"pass": ast.MissingAction.PASS, "reject": ast.MissingAction.REJECT}
VICTIM_MISSING = {"evict": ast.MissingAction.EVICT, "keep": ast.MissingAction.KEEP}
SCORE_MISSING = {"neutral": ast.MissingAction.NEUTRAL, "skip": ast.MissingAction.SKIP}


def chosen(diagnostics: Diagnostics, choices: Mapping[str, T], word: str, span: Span, place: str) -> T:
    """The choice a word names; where it names none, the likeliest one with a finding. `place` reads like "after `normalize`"."""
    if word in choices:
        return choices[word]
    near = closest(word, choices)
    listed = ", ".join(f"`{choice}`" for choice in choices)
    help_ = f"did you mean `{near}`?" if near else f"there are {listed}"
    diagnostics.error(Code.P111, f"`{word}` cannot stand {place}", span, label=f"one of {listed}", help=help_, suggestion=near)
    return choices[near or list(choices)[-1]]


def repeated(diagnostics: Diagnostics, word: str, first: Span, second: Span) -> None:
    """Report a part that is there twice."""
    others = (Label(first, "first given here"),)
    diagnostics.error(Code.P112, f"`{word}` is given twice", second, label="given again", others=others, help="keep one of the two")


def no_repeated_fields(diagnostics: Diagnostics, fields: Sequence[ast.ObjectField]) -> None:
    """Report each field of an object that was there before."""
    seen: dict[str, Span] = {}
    for field in fields:
        if field.name in seen:
            repeated(diagnostics, field.name, seen[field.name], field.span)
        seen.setdefault(field.name, field.span)


def underscore(diagnostics: Diagnostics, span: Span) -> None:
    """Report digits grouped with `_`."""
    plain = span.text.replace("_", "")
    diagnostics.error(Code.P109, "digits are not grouped with `_`", span, help=f"write `{plain}`", suggestion=plain)


def not_for_scores(diagnostics: Diagnostics, span: Span) -> None:
    """Report `pass` or `reject` where a score says what happens without a value."""
    help_ = "a score gives points where the value is missing, or `neutral` (the mean of the others) or `skip` (leave the rule out there)"
    diagnostics.error(Code.P111, f"`{span.text}` cannot stand after `on missing` of a score", span, help=help_)
