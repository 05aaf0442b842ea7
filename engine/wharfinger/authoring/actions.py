"""Code actions at a position: apply the help of a finding, add `on missing`, name an expression by a `let`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from wharfinger.authoring.document import Document, Finding, findings
from wharfinger.language import ast
from wharfinger.language.report.codes import Code, Severity
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import Kind, Shape

_IN_HELP = re.compile(r"`([^`]+)`")
_CHAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_MISSING = {Code.P401.name: ("pass", "reject"), Code.P402.name: ("neutral", "skip"), Code.P404.name: ("keep", "evict")}
_NEW_NAME = "extracted"
SYNTAX = ("P0", "P1")  # errors of a text that does not parse have at most one replacement
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_ENDS_EXPRESSION = re.compile(r"(?<!\s)\s+(?:else|on missing|normalize)\b")
MAX_TITLE_LENGTH = 40  # letters in a title
MAX_TRIED = 4  # texts of one help
MAX_LETTERS_TRIED = 150_000
"""Letters of all texts together that are checked for the fixes of one request: about a second."""
NAMES_EXPRESSIONS = frozenset({"FILTER", "PERMIT", "SCORE", "PREFER", "AVOID", "LET", "TIE_BREAK", "FOR"})
BEGINNINGS = frozenset({"filter", "score", "prefer", "avoid", "let", "param", "require", "reject"})


class Edit(Struct, frozen=True):
    """Characters `start` to `end` are replaced by `text`."""

    start: int
    end: int
    text: str


class Action(Struct, frozen=True, kw_only=True):
    """A change with its title; `fixes` is the finding that it removes, None for a change of a text that is right."""

    title: str
    edits: tuple[Edit, ...]
    fixes: Finding | None = None


def applied(text: str, edits: tuple[Edit, ...]) -> str:
    """A text with edits applied; they do not overlap."""
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def actions(document: Document, start: int, end: int) -> list[Action]:
    """The changes that are possible at characters `start` to `end`, fixes first."""
    overlapping = [finding for finding in _findings_near(document, start, end) if finding.start <= end and start <= finding.end]
    fixes, trials = list[Action](), _Trials()
    with suppress(_TrialLimitReached):
        for finding in overlapping:
            for action in _fixes(document, finding, trials):
                fixes.append(action)
    return [*fixes, *_extractions(document, start, end)]


class _TrialLimitReached(Exception):
    """The checks of one request have read as many letters as they may."""


class _Trials:
    """Checks changed texts for one request."""

    def __init__(self) -> None:
        self._letters = 0

    def errors(self, document: Document) -> list[tuple[str, int]]:
        """The code and the place of each error; raises `_TrialLimitReached`."""
        self._letters += sum(map(len, document.text.split()))  # statements that were left out are spaces
        if self._letters > MAX_LETTERS_TRIED:
            raise _TrialLimitReached
        return [(each.code.name, each.span.start) for each in document.checked.found if each.severity is Severity.ERROR]


def _findings_near(document: Document, start: int, end: int) -> list[Finding]:
    """The findings about a document; where they are not known yet, the errors of the statement there, which are found sooner."""
    begun = [each for each in document.statements if each.start <= start]
    statement = begun[-1] if begun else None
    following = document.statements[len(begun)].start if len(begun) < len(document.statements) else len(document.text) + 1
    if document.is_checked or statement is None or end >= following:
        return findings(document)
    known = findings(document.with_names(statement.start))
    return [each for each in known if each.severity == "error" and statement.start <= each.start < following]


# ── fixes ──


def _fixes(document: Document, finding: Finding, trials: _Trials) -> Iterator[Action]:
    if finding.suggestion is not None:
        yield _replacement(finding, finding.start, finding.end, finding.suggestion, document.text)
    elif finding.code == Code.P104.name:
        yield from _closing(document, finding, trials)
    elif finding.help and finding.severity == "error" and (finding.code == Code.P111.name or not finding.code.startswith(SYNTAX)):
        yield from _from_help(document, finding, trials)
    for word in _MISSING.get(finding.code, ()):
        place = _end_of_rule(document, finding)
        if place is not None:
            yield Action(title=f"Add `on missing {word}`", edits=(Edit(place, place, f" on missing {word}"),), fixes=finding)


def _replacement(finding: Finding, start: int, end: int, text: str, whole: str) -> Action:
    shown = text if len(text) <= MAX_TITLE_LENGTH else f"{text[: MAX_TITLE_LENGTH - 1]}…"
    before = whole[start:end]
    short = "\n" not in before and len(before) <= MAX_TITLE_LENGTH
    title = f"Remove `{before}`" if not text else f"Replace `{before}` by `{shown}`" if short else f"Write `{shown}`"
    return Action(title=title, edits=(Edit(start, end, text),), fixes=finding)


def _from_help(document: Document, finding: Finding, trials: _Trials) -> Iterator[Action]:
    """The text that a help suggests, in place of the finding or of the expression or statement around it; only if the finding goes away."""
    alone = document.part(finding.start)
    before = trials.errors(alone)
    if (finding.code, finding.start) not in before:
        return  # it is about more than this statement
    for meant in dict.fromkeys(_IN_HELP.findall(finding.help or "")[:MAX_TRIED]):
        for start, end in _places(document, finding, meant):
            after = trials.errors(alone.with_text(applied(alone.text, (Edit(start, end, meant),))))
            new = {code for code, _ in after} - {code for code, _ in before}
            if (finding.code, finding.start) not in after and len(after) <= len(before) and not any(map(_of_syntax_or_types, new)):
                yield _replacement(finding, start, end, meant, document.text)
                break


def _closing(document: Document, finding: Finding, trials: _Trials) -> Iterator[Action]:
    """The missing bracket, at the first place after which the text has no error."""
    alone = document.part(finding.start)
    bracket = _CLOSES.get(document.text[finding.start : finding.end])
    statement = document.statement_at(finding.start)
    if bracket is None or statement is None:
        return
    for place, text in _places_of_closing(document, finding, statement.end, bracket):
        if not trials.errors(alone.with_text(applied(alone.text, (Edit(place, place, text),)))):
            yield Action(title=f"Add `{bracket}`", edits=(Edit(place, place, text),), fixes=finding)
            return


def _places_of_closing(document: Document, finding: Finding, end: int, bracket: str) -> Iterator[tuple[int, str]]:
    """The offsets at which a bracket may be missing: on the line of the open one before an expression ends, or after the statement."""
    line = document.source.line(document.source.text.count("\n", 0, finding.start) + 1)
    begun = document.text.rfind("\n", 0, finding.start) + 1
    written = line.partition(" #")[0].rstrip()
    spaced = f" {bracket}" if bracket == "}" else bracket
    for found in _ENDS_EXPRESSION.finditer(written, finding.end - begun):
        yield begun + found.start(), spaced
    if finding.end - begun < len(written):
        yield begun + len(written), spaced
    yield end, f"\n{bracket}"


def _of_syntax_or_types(code: str) -> bool:
    return code.startswith(("P0", "P1", "P2"))


def _places(document: Document, finding: Finding, meant: str) -> Iterator[tuple[int, int]]:
    """The parts of the text that a suggestion in a help may replace."""
    yield finding.start, finding.end
    for chain in _CHAIN.finditer(document.text, max(0, finding.start - 200), finding.end + 200):
        if chain.start() <= finding.start and finding.end <= chain.end() and chain.span() != (finding.start, finding.end):
            yield chain.span()
    statement = next((each for each in document.statements if each.start <= finding.start and finding.end <= each.end), None)
    if statement is not None and statement.keyword is not None and meant.partition(" ")[0] in BEGINNINGS:
        yield statement.keyword.start, statement.end


def _end_of_rule(document: Document, finding: Finding) -> int | None:
    """The end of the clause, score or rule about victims that a finding is in."""
    file = document.around(finding.start).checked.file
    rules: list[ast.Node] = []
    for item in file.policy.items if file is not None and file.policy is not None else ():
        rules += item.clauses if isinstance(item, ast.Filter | ast.Permit) else item.rules if isinstance(item, ast.Preemption) else ()
        rules += [item] if isinstance(item, ast.Score) else []
    found = [rule.span.end for rule in rules if rule.span.start <= finding.start and finding.end <= rule.span.end]
    return found[0] if found else None


# ── a name for an expression ──


def _extractions(document: Document, start: int, end: int) -> Iterator[Action]:
    """A let for the expression that is selected exactly, spaces aside."""
    chosen = document.text[start:end]
    start, end = start + len(chosen) - len(chosen.lstrip()), end - (len(chosen) - len(chosen.rstrip()))
    expr = document.around(start).expressions.get((start, end)) if start < end else None
    if (
        expr is None
        or expr.type.kind in {Kind.POD, Kind.NODE, Kind.DEVICE, Kind.WORKLOAD, Kind.UNKNOWN}
        or expr.type.shape in {Shape.ITEM, Shape.DEVICE}
        or _reads_item(expr)
        or any(document.parameter(word) is not None for word in document.words if start <= word.start and word.end <= end)
    ):
        return
    statement = next((each for each in document.statements if each.start <= start and end <= each.end), None)
    if statement is None or statement.kind not in NAMES_EXPRESSIONS:
        return
    name = _free_name(document)
    declared = f"let {name} = {chosen.strip()}"
    if statement.kind == "FOR":  # belongs to the head, which comes first
        declaration = Edit(statement.end, statement.end, f"\n\n{declared}")
    else:
        before = _above_comments(document.text, statement.start)
        declaration = Edit(before, before, f"{declared}\n\n")
    edits = (declaration, Edit(start, end, name))
    yield Action(title=f"Name it with `let {name}`", edits=edits)


def _reads_item(expr: typed.Expr) -> bool:
    """True if an expression reads `it`, a placed pod, outside of selections."""
    if isinstance(expr, (typed.Select, typed.Aggregate)):
        return False
    return expr.type.shape in {Shape.ITEM, Shape.DEVICE} or any(map(_reads_item, typed.parts(expr)))


def _free_name(document: Document) -> str:
    taken = {word.name for word in document.words}
    number = 1
    while (name := _NEW_NAME if number == 1 else f"{_NEW_NAME}_{number}") in taken:
        number += 1
    return name


def _above_comments(text: str, start: int) -> int:
    """The offset of the comment lines directly above a statement."""
    at = start
    while at > 0:
        line = text.rfind("\n", 0, at - 1) + 1
        if not text[line : at - 1].lstrip().startswith("#"):
            break
        at = line
    return at
