r"""Places as editors count them: lines and UTF-16 code units, as the Language Server Protocol and JavaScript do.

Everywhere else a place is an offset in characters. A character beyond U+FFFF takes two code units. So the code units before an offset are
the characters before it and the wide ones among them, which are looked up in a sorted list. Lines end with `\n`, `\r\n` or `\r`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\n|\r")
_WIDE = re.compile("[^\u0000-\uffff]")


class Positions:
    """The places of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def line_starts(self) -> list[int]:
        """The offsets in characters at which lines begin; the first is 0."""
        return [0, *(end.end() for end in _LINE_END.finditer(self.text))]

    @cached_property
    def _wide(self) -> list[int]:
        """The offsets of the characters that take two code units."""
        return [] if self.text.isascii() else [found.start() for found in _WIDE.finditer(self.text)]

    @cached_property
    def _wide_units(self) -> list[int]:
        """The code units before each of these characters."""
        return [offset + number for number, offset in enumerate(self._wide)]

    def at(self, offset: int) -> tuple[int, int]:
        """The line, from 0, and the code unit in it, from 0, of an offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.line_starts, offset) - 1
        return line, self.to_units(offset) - self.to_units(self.line_starts[line])

    def offset(self, line: int, unit: int) -> int:
        """The offset of a code unit in a line; a unit after the end of a line is its end, a line after the text is the end of the text."""
        if line < 0:
            return 0
        if line >= len(self.line_starts):
            return len(self.text)
        start = self.line_starts[line]
        return min(self.from_units(self.to_units(start) + max(0, unit)), self._line_end(line))

    def to_units(self, offset: int) -> int:
        """The code units before an offset."""
        return offset + bisect_left(self._wide, offset)

    def from_units(self, unit: int) -> int:
        """The offset after a number of code units; a place inside of a character is before it."""
        return max(0, min(unit - bisect_left(self._wide_units, unit), len(self.text)))

    def _line_end(self, line: int) -> int:
        end = self.line_starts[line + 1] if line + 1 < len(self.line_starts) else len(self.text)
        start = self.line_starts[line]
        return start + len(self.text[start:end].rstrip("\r\n"))
