"""Text of others as it can be shown: it may end no line, and change nothing of the terminal that it is shown on."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text in one line: a space for whatever else is white, U+FFFD for every other character that cannot be seen."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def printable_lines(text: str) -> str:
    """The same, with the ends of its lines."""
    return "\n".join(map(printable, text.splitlines()))
