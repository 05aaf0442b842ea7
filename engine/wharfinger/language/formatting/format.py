"""The formatter: syntax tree to text in one style.

Comments are not in the tree. They are taken from the text in order, each once, by the statement that they belong to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from wharfinger.language.formatting.expressions import STEP
from wharfinger.language.formatting.statements import Statement, statements
from wharfinger.language.parse import tokens
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, Source, Span
from wharfinger.language.syntax import ast


@dataclass(slots=True)
class Margin:
    """The comments of a file that have not been written yet."""

    source: Source
    waiting: deque[Span]

    @classmethod
    def of(cls, source: Source) -> Margin:
        """All comments of a file."""
        return cls(source, deque(tokens.comments(source)))

    def before(self, offset: int) -> list[Span]:
        """The comments that begin before a place."""
        taken = []
        while self.waiting and self.waiting[0].start < offset:
            taken.append(self.waiting.popleft())
        return taken

    def beside(self, offset: int) -> Span | None:
        """The comment that follows a place on its line, with at most a comma between."""
        if self.waiting and not self.source.text[offset : self.waiting[0].start].strip(" \t,"):
            return self.waiting.popleft()
        return None

    def blank_between(self, start: int, end: int) -> bool:
        """True if a blank line separates two places."""
        return self.source.text.count("\n", start, end) > 1


def format_file(file: ast.File) -> str:
    """The formatted text of a file, comments kept; formatting it again changes nothing."""
    return _Page(file.span.source, Margin.of(file.span.source)).written(statements(file))


def canonical(file: ast.File) -> str:
    """The formatted text of a file without comments."""
    return _Page(file.span.source, None).written(statements(file))


def format_source(source: Source, diagnostics: Diagnostics) -> str | None:
    """The formatted text of a source, or None with findings where it does not parse.

    The result is parsed again and compared, so that formatting can never change what a policy says.
    """
    found = Diagnostics()  # apart, because findings about other files are no reason to leave this one alone
    file = parse(source, found)
    for diagnostic in found:
        diagnostics.add(diagnostic)
    if file is None or found.has_errors:
        return None
    text = format_file(file)
    again = parse(Source(name=source.name, text=text), Diagnostics())
    if again is None or ast.without_places(again) != ast.without_places(file):
        raise AssertionError(f"formatting {source.name} would change what it says; its text is left alone")
    return text


class _Page:
    """Text as it grows: lines, and where in the source the last thing written ended."""

    def __init__(self, source: Source, margin: Margin | None) -> None:
        self.source = source
        self.margin = margin
        self.lines: list[str] = []
        self.last_end = 0

    def written(self, found: Sequence[Statement]) -> str:
        """The whole text."""
        before: Statement | None = None
        for statement in found:
            self._statement(statement, "", blank=before is not None and _apart(before, statement), first=before is None)
            before = statement
        self._comments(len(self.source.text), "", first=not self.lines)
        return "\n".join(self.lines) + "\n" if self.lines else ""

    def _statement(self, statement: Statement, indent: str, *, blank: bool, first: bool) -> None:
        content_end = statement.end if statement.body is None else statement.head_end
        if blank:
            self._blank()
        commented = self._comments(content_end, indent, first=first)
        if (commented or not first) and self._blank_before(statement.start):
            self._blank()
        self.lines += [f"{indent}{line}" for line in statement.text.split("\n")]
        self._beside(content_end)
        if statement.body is not None:
            self._body(statement, indent)

    def _body(self, statement: Statement, indent: str) -> None:
        first = True
        for inner in statement.body or ():
            self._statement(inner, indent + STEP, blank=False, first=first)
            first = False
        self._comments(statement.end, indent + STEP, first=first)
        self.lines.append(f"{indent}}}")
        self._beside(statement.end)

    def _comments(self, offset: int, indent: str, *, first: bool) -> bool:
        """True if comments stood before a place. They are written on lines of their own, with the blank lines between them."""
        begun = len(self.lines)
        for comment in self.margin.before(offset) if self.margin else ():
            if not first and self._blank_before(comment.start):
                self._blank()
            self.lines.append(f"{indent}{comment.text}")
            self.last_end = comment.end
            first = False
        return len(self.lines) > begun

    def _beside(self, offset: int) -> None:
        """Write the comment behind a place on its line."""
        comment: Span | None = self.margin.beside(offset) if self.margin else None
        if comment:
            self.lines[-1] += f"  {comment.text}"
        self.last_end = max(self.last_end, comment.end if comment else offset)

    def _blank(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def _blank_before(self, offset: int) -> bool:
        return self.margin is not None and self.margin.blank_between(self.last_end, offset)


def _apart(before: Statement, statement: Statement) -> bool:
    """True if a blank line always stands between two statements of a file: around bodies, and where the kind of item changes."""
    if before.annotates or before.group == statement.group == "policy":
        return False
    return before.group != statement.group or before.body is not None or statement.body is not None
