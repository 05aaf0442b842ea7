"""Strings as small integers.

A cluster repeats the same few hundred strings tens of thousands of times: zone names, label values, taint keys. Columns hold a code
instead, so that "which nodes carry this value" is one comparison of integers, and equal strings share one object.
"""

from __future__ import annotations

from typing import Final

ABSENT: Final = -1  # the code of a string that is not there; the empty string is a string and has a code of its own


class StringTable:
    """Codes 0, 1, 2, … given to strings in the order they are first seen; a code never changes its meaning.

    A table only grows. Texts that change all the time, such as an annotation with a time, would fill it with strings that nothing holds any
    more; so now and then a cluster goes over to a new table (`NodeTable.tidy`). Whoever keeps codes keeps the table beside them, and
    throws both away when the cluster's table is another one.
    """

    __slots__ = ("_codes", "_texts")

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"StringTable({len(self._texts)} strings)"

    def code(self, text: str | None) -> int:
        """The code of a string, which is given one if it has none yet; `ABSENT` for None."""
        if text is None:
            return ABSENT
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def find(self, text: str | None) -> int:
        """The code of a string that has been seen, else `ABSENT`: no column can hold it."""
        return self._codes.get(text, ABSENT) if text is not None else ABSENT

    def text(self, code: int) -> str | None:
        """The string of a code, None for `ABSENT`."""
        return self._texts[code] if code >= 0 else None
