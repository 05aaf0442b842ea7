r"""Places as editors count them: lines and UTF-16 code units, as the Language Server Protocol and JavaScript do.

Everywhere else a place is an offset in characters. A character beyond U+FFFF takes two code units; few texts have one, and those that have
none take a short way. Lines end with `\n`, `\r\n` or `\r`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\n|\r")
_WIDEST = "\uffff"


def units(text: str) -> int:
    """The number of UTF-16 code units of a text."""
    return len(text) if text.isascii() else len(text) + sum(char > _WIDEST for char in text)


class Positions:
    """The places of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._narrow = text.isascii() or max(text) <= _WIDEST

    @cached_property
    def line_starts(self) -> list[int]:
        """The offsets in characters at which lines begin; the first is 0."""
        return [0, *(end.end() for end in _LINE_END.finditer(self.text))]

    def at(self, offset: int) -> tuple[int, int]:
        """The line, from 0, and the code unit in it, from 0, of an offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.line_starts, offset) - 1
        start = self.line_starts[line]
        return line, offset - start if self._narrow else units(self.text[start:offset])

    def offset(self, line: int, unit: int) -> int:
        """The offset of a code unit in a line; a unit after the end of a line is its end, a line after the text is the end of the text."""
        if line < 0:
            return 0
        if line >= len(self.line_starts):
            return len(self.text)
        start, end = self.line_starts[line], self._line_end(line)
        return min(start + max(0, unit), end) if self._narrow else start + _characters(self.text[start:end], unit)

    def to_units(self, offset: int) -> int:
        """The code units before an offset."""
        return offset if self._narrow else units(self.text[:offset])

    def from_units(self, unit: int) -> int:
        """The offset after a number of code units."""
        return max(0, min(unit, len(self.text))) if self._narrow else _characters(self.text, unit)

    def _line_end(self, line: int) -> int:
        end = self.line_starts[line + 1] if line + 1 < len(self.line_starts) else len(self.text)
        start = self.line_starts[line]
        return start + len(self.text[start:end].rstrip("\r\n"))


def _characters(text: str, unit: int) -> int:
    """The number of characters in a number of code units; a place inside of a character is before it."""
    seen = 0
    for index, char in enumerate(text):
        seen += 2 if char > _WIDEST else 1
        if seen > unit:
            return index
    return len(text)
