"""Diagnostics as text: for people, for screen readers, for programs.

The form for people shows the lines of source with the places underlined.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from wharfinger.errors import printable, with_escapes
from wharfinger.language.report.codes import Severity
from wharfinger.language.report.diagnostics import MAX_PER_FILE, Diagnostic, Diagnostics, Span
from wharfinger.language.report.wording import count

TAB = "    "
MAX_LINE_WIDTH = 160
CONTEXT_WIDTH = 60
COLOURS = {"error": "1;31", "warning": "1;33", "gutter": "1;34", "bold": "1", "other": "1;34"}


class Paint(msgspec.Struct, frozen=True):
    """Wraps text in terminal colours, or leaves it alone."""

    on: bool

    def __call__(self, text: str, style: str) -> str:
        """The text in a style of `COLOURS`."""
        return f"\x1b[{COLOURS[style]}m{text}\x1b[0m" if self.on and text else text


class Mark(msgspec.Struct, frozen=True):
    """One underlined place on one line, in cells of the terminal."""

    start: int
    end: int
    text: str
    primary: bool


class Place(msgspec.Struct, frozen=True):
    """A span with its text."""

    span: Span
    text: str
    primary: bool


def gutter(diagnostic: Diagnostic) -> int:
    """The width of the line numbers of a diagnostic, including the space before them."""
    return 1 + max(len(str(span.line)) for span in (diagnostic.span, *(label.span for label in diagnostic.others)))


def snippet(diagnostic: Diagnostic, paint: Paint) -> Iterator[str]:
    """The lines below the headline; nothing but the name where the source has no text."""
    source = diagnostic.span.source
    if not source.text:
        yield f"  {paint('-->', 'gutter')} {printable(source.name)}"
        return
    places = [Place(diagnostic.span, diagnostic.label, True), *(Place(label.span, label.text, False) for label in diagnostic.others)]
    width = gutter(diagnostic)
    for shown in dict.fromkeys(place.span.source for place in places):
        shown_places = [place for place in places if place.span.source == shown]
        arrow = "-->" if shown == source else ":::"
        yield f"{' ' * width}{paint(arrow, 'gutter')} {shown_places[0].span}"
        yield f"{' ' * width} {paint('|', 'gutter')}"
        yield from _lines(shown_places, width, paint, diagnostic.severity.value)


def _lines(places: list[Place], width: int, paint: Paint, style: str) -> Iterator[str]:
    """The numbered lines of one source, each with its underlines; left out lines show as `...`."""
    last: int | None = None
    bar = f"{' ' * width} {paint('|', 'gutter')}"
    for number in sorted({place.span.line for place in places}):
        if last is not None and number > last + 1:
            yield f"{' ' * width}{paint('...', 'gutter')}"
        last = number
        text, marks = _cells([place for place in places if place.span.line == number], number)
        yield f"{paint(f'{number:>{width}} |', 'gutter')} {text}".rstrip()
        yield from (f"{bar} {row}" for row in _underlines(marks, paint, style))


def _cells(places: list[Place], number: int) -> tuple[str, list[Mark]]:
    """A line as the terminal shows it, and the marks on it; a very long line is cut around its primary place."""
    line = places[0].span.source.line(number)
    centre = next((place for place in places if place.primary), places[0]).span.column - 1
    begin = max(0, centre - CONTEXT_WIDTH) if len(line) > MAX_LINE_WIDTH else 0
    end = min(len(line), begin + MAX_LINE_WIDTH)
    cells: list[str] = ["…"] if begin else []
    edges = []  # where each character begins, in cells
    for char in line[begin:end]:
        edges.append(len(cells))
        _append(cells, char)
    edges.append(len(cells))
    marks = []
    for place in places:
        start = place.span.column - 1
        stop = min(start + place.span.end - place.span.start, end)
        if begin <= start <= end:
            left = edges[start - begin]
            marks.append(Mark(left, max(edges[max(stop, start) - begin], left + 1), place.text, place.primary))
    return "".join(cells) + ("…" if end < len(line) else ""), marks


def _append(cells: list[str], char: str) -> None:
    """Add a character, one entry a cell: the second half of a wide one is empty, a combining one joins its letter."""
    if char == "\t":
        cells.extend(TAB)
    elif unicodedata.combining(char) and cells:
        cells[-1] += char
    else:
        cells.append(char if char.isprintable() else "\ufffd")
        if unicodedata.east_asian_width(char) in {"W", "F"}:
            cells.append("")


def _underlines(marks: list[Mark], paint: Paint, style: str) -> Iterator[str]:
    """The row of underlines, with the label of the rightmost mark, and a row for every other label."""
    ordered = sorted(marks, key=lambda mark: (mark.start, mark.primary))
    row, cursor = "", 0
    for mark in sorted(ordered, key=lambda mark: mark.start):
        start, end = max(mark.start, cursor), max(mark.end, cursor)
        row += " " * (start - cursor) + paint(("^" if mark.primary else "-") * (end - start), style if mark.primary else "other")
        cursor = end
    rightmost = ordered[-1] if ordered[-1].end >= cursor else None
    yield row + (f" {paint(rightmost.text, style if rightmost.primary else 'other')}" if rightmost and rightmost.text else "")
    below = [mark for mark in ordered if mark.text and mark is not rightmost]
    while below:
        mark = below.pop()
        row, cursor = "", 0
        for left in sorted({other.start for other in below if other.start < mark.start}):
            row += " " * (left - cursor) + paint("|", "other")
            cursor = left + 1
        yield row + " " * (mark.start - cursor) + paint(mark.text, style if mark.primary else "other")


def render(diagnostics: Diagnostics | Iterable[Diagnostic], format: str = "text", *, color: bool = False) -> str:  # noqa: A002  # the word of the flag
    """All findings in one of `FORMATS`, ending with a newline; "" without findings (JSON is never empty)."""
    return FORMATS[format](list(diagnostics), color)


def as_text(diagnostic: Diagnostic, *, color: bool = False) -> str:
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
        lines += [f"  {_label_line(label_span, text)}" for label_span, text in _labels(diagnostic)]
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
    """The numbers of errors and warnings: "2 errors, 1 warning"."""
    counts = Counter(d.severity for d in diagnostics)
    named = ((counts[severity], severity.value) for severity in Severity)
    return ", ".join(count(n, word) for n, word in named if n)


def capped(found: list[Diagnostic]) -> tuple[list[Diagnostic], int]:
    """The findings to show, at most `MAX_PER_FILE` of each file, and how many are left out."""
    seen: Counter[str] = Counter()
    shown = []
    for diagnostic in found:
        seen[diagnostic.span.source.name] += 1
        if seen[diagnostic.span.source.name] <= MAX_PER_FILE:
            shown.append(diagnostic)
    return shown, len(found) - len(shown)


def _render_text(found: list[Diagnostic], color: bool) -> str:
    return _blocks(found, lambda diagnostic: as_text(diagnostic, color=color), "\n\n")


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
    return with_escapes(json.dumps(whole, indent=2, ensure_ascii=False)) + "\n"


def _labels(diagnostic: Diagnostic) -> Iterator[tuple[Span, str]]:
    if diagnostic.label:
        yield diagnostic.span, diagnostic.label
    for label in diagnostic.others:
        yield label.span, label.text


def _label_line(span: Span, text: str) -> str:
    quoted = printable(_short(span.text.partition("\n")[0]))
    shown = f" `{quoted}`:" if quoted else ":"
    return f"at line {span.line}, column {span.column}{shown} {text}"


def _short(text: str) -> str:
    return text if len(text) <= MAX_LINE_WIDTH else text[:MAX_LINE_WIDTH] + "…"


def _where(span: Span) -> str:
    name = printable(span.source.name)
    return f"{name}, line {span.line}, column {span.column}" if span.source.text else name


def _place(span: Span) -> dict[str, Any]:
    line, column = span.position(span.start)
    end_line, end_column = span.position(span.end)
    place = {"line": line, "column": column, "endLine": end_line, "endColumn": end_column}
    return {"file": span.source.name, **place, "start": span.start, "end": span.end}


FORMATS: Mapping[str, Callable[[list[Diagnostic], bool], str]] = {"text": _render_text, "plain": _render_plain, "json": _render_json}
