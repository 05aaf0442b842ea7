"""Diagnostics as text: for people, for screen readers, for programs.

The renderers only lay out what a diagnostic says; no wording is decided here. Every output is capped per file, and says how many findings
it left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from wharfinger.language.codes import Severity
from wharfinger.language.counts import count
from wharfinger.language.diagnostics import MOST_PER_FILE, Diagnostic, Diagnostics
from wharfinger.language.snippet import WIDEST, Paint, gutter, snippet
from wharfinger.language.source import Span


def render(diagnostics: Diagnostics | Iterable[Diagnostic], format: str = "human", *, color: bool = False) -> str:  # noqa: A002  # the word of the flag
    """All findings in one of `FORMATS`, ending with a newline; "" where there is nothing to say (JSON always says something)."""
    return FORMATS[format](list(diagnostics), color)


def human(diagnostic: Diagnostic, *, color: bool = False) -> str:
    """One finding with its lines of source, as compilers print it; no newline at the end."""
    paint = Paint(color)
    word = diagnostic.severity.value
    head = paint(f"{word}[{diagnostic.code.name}]", word) + paint(f": {diagnostic.message}", "bold")
    lines = [head, *snippet(diagnostic, paint)]
    if diagnostic.help:
        lines.append(f"{' ' * gutter(diagnostic)} {paint('=', 'gutter')} {paint('help', 'bold')}: {diagnostic.help}")
    return "\n".join(lines)


def plain(diagnostic: Diagnostic) -> str:
    """One finding in whole sentences without drawing, for screen readers; no newline at the end."""
    span = diagnostic.span
    lines = [f"{diagnostic.severity.value} {diagnostic.code.name} in {_where(span)}: {diagnostic.message}"]
    if span.source.text:
        lines.append(f"  line {span.line} reads: {_short(span.source.line(span.line).strip())}")
        lines += [f"  {_said(label_span, text)}" for label_span, text in _labels(diagnostic)]
    if diagnostic.help:
        lines.append(f"  help: {diagnostic.help}")
    return "\n".join(lines)


def as_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """One finding as plain values; lines and columns count from 1, the end is exclusive."""
    return {
        "code": diagnostic.code.name,
        "severity": diagnostic.severity.value,
        "title": diagnostic.code.title,
        "message": diagnostic.message,
        **_place(diagnostic.span),
        "label": diagnostic.label,
        "others": [{**_place(label.span), "label": label.text} for label in diagnostic.others],
        "help": diagnostic.help,
        "suggestion": diagnostic.suggestion,
    }


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """How many errors and warnings there are: "2 errors, 1 warning"."""
    counts = Counter(d.severity for d in diagnostics)
    named = ((counts[severity], severity.value) for severity in Severity)
    return ", ".join(count(n, word) for n, word in named if n)


def capped(found: list[Diagnostic]) -> tuple[list[Diagnostic], int]:
    """The findings to show, at most `MOST_PER_FILE` of each file, and how many are left out."""
    seen: Counter[str] = Counter()
    shown = []
    for diagnostic in found:
        seen[diagnostic.span.source.name] += 1
        if seen[diagnostic.span.source.name] <= MOST_PER_FILE:
            shown.append(diagnostic)
    return shown, len(found) - len(shown)


def _render_human(found: list[Diagnostic], color: bool) -> str:
    return _blocks(found, lambda diagnostic: human(diagnostic, color=color), "\n\n")


def _render_plain(found: list[Diagnostic], color: bool) -> str:
    del color  # a screen reader has no use for it
    return _blocks(found, plain, "\n")


def _blocks(found: list[Diagnostic], one: Callable[[Diagnostic], str], between: str) -> str:
    if not found:
        return ""
    shown, omitted = capped(found)
    rest = [f"… and {omitted} more"] if omitted else []
    return between.join([*map(one, shown), *rest, summary(found)]) + "\n"


def _render_json(found: list[Diagnostic], color: bool) -> str:
    del color  # no colour in JSON
    shown, omitted = capped(found)
    counts = Counter(d.severity for d in found)
    whole = {
        "diagnostics": [as_json(diagnostic) for diagnostic in shown],
        "errors": counts[Severity.ERROR],
        "warnings": counts[Severity.WARNING],
        "omitted": omitted,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _labels(diagnostic: Diagnostic) -> Iterator[tuple[Span, str]]:
    if diagnostic.label:
        yield diagnostic.span, diagnostic.label
    for label in diagnostic.others:
        yield label.span, label.text


def _said(span: Span, text: str) -> str:
    quoted = _short(span.text.partition("\n")[0])
    shown = f" `{quoted}`:" if quoted else ":"
    return f"at line {span.line}, column {span.column}{shown} {text}"


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[:WIDEST] + "…"


def _where(span: Span) -> str:
    return f"{span.source.name}, line {span.line}, column {span.column}" if span.source.text else span.source.name


def _place(span: Span) -> dict[str, Any]:
    line, column = span.position(span.start)
    end_line, end_column = span.position(span.end)
    place = {"line": line, "column": column, "end_line": end_line, "end_column": end_column}
    return {"file": span.source.name, **place, "start": span.start, "end": span.end}


FORMATS: Mapping[str, Callable[[list[Diagnostic], bool], str]] = {"human": _render_human, "plain": _render_plain, "json": _render_json}
