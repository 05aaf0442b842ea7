"""The lines of source that a diagnostic talks about, with its places underlined.

     9 |   require node.free.memory >= 2Gb else "too little memory"
       |           ----------------    ^^^ unknown unit `Gb`
       |           memory (bytes)

The label of the rightmost place stands beside its underline, the others below, from right to left. Columns are those of a terminal: tabs
become four spaces, wide characters take two cells. A long line is cut around its places.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from wharfinger.language.diagnostics import Diagnostic
from wharfinger.language.source import Span

TAB = "    "
WIDEST = 160
AROUND = 60
COLOURS = {"error": "1;31", "warning": "1;33", "gutter": "1;34", "bold": "1", "other": "1;34"}


@dataclass(frozen=True, slots=True)
class Paint:
    """Wraps text in terminal colours, or leaves it alone."""

    on: bool

    def __call__(self, text: str, style: str) -> str:
        """The text in a style of `COLOURS`."""
        return f"\x1b[{COLOURS[style]}m{text}\x1b[0m" if self.on and text else text


@dataclass(frozen=True, slots=True)
class Mark:
    """One underlined place on one line, in cells of the terminal."""

    start: int
    end: int
    text: str
    primary: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A span with what is said of it."""

    span: Span
    text: str
    primary: bool


def gutter(diagnostic: Diagnostic) -> int:
    """How wide the line numbers of a diagnostic are, with the space before them."""
    return 1 + max(len(str(span.line)) for span in (diagnostic.span, *(label.span for label in diagnostic.others)))


def snippet(diagnostic: Diagnostic, paint: Paint) -> Iterator[str]:
    """The lines below the headline; nothing but the name where the source has no text."""
    source = diagnostic.span.source
    if not source.text:
        yield f"  {paint('-->', 'gutter')} {source.name}"
        return
    places = [Place(diagnostic.span, diagnostic.label, True), *(Place(label.span, label.text, False) for label in diagnostic.others)]
    width = gutter(diagnostic)
    for shown in dict.fromkeys(place.span.source for place in places):
        here = [place for place in places if place.span.source == shown]
        arrow = "-->" if shown == source else ":::"
        yield f"{' ' * width}{paint(arrow, 'gutter')} {here[0].span}"
        yield f"{' ' * width} {paint('|', 'gutter')}"
        yield from _lines(here, width, paint, diagnostic.severity.value)


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
    begin = max(0, centre - AROUND) if len(line) > WIDEST else 0
    end = min(len(line), begin + WIDEST)
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
    beside = ordered[-1] if ordered[-1].end >= cursor else None
    yield row + (f" {paint(beside.text, style if beside.primary else 'other')}" if beside and beside.text else "")
    below = [mark for mark in ordered if mark.text and mark is not beside]
    while below:
        mark = below.pop()
        row, cursor = "", 0
        for left in sorted({other.start for other in below if other.start < mark.start}):
            row += " " * (left - cursor) + paint("|", "other")
            cursor = left + 1
        yield row + " " * (mark.start - cursor) + paint(mark.text, style if mark.primary else "other")
