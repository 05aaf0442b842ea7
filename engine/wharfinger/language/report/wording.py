"""Words of messages: the name that an author most likely meant, lists of names, counts with their nouns, columns and numbers.

A wrong suggestion costs more than none, so there is one suggestion at most, and only a close one. A word may be short for a name: its
beginning (`mem` for `memory`), or its letters with some left out (`cnt` for `count`). Otherwise the distance is Damerau-Levenshtein (a swap
of two neighbouring letters is one step), and a third of the word may differ.

Columns and numbers come out the same on every machine: nothing here reads the terminal's width, the locale or the time. A column is as wide
as its widest cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from wharfinger.errors import printable

_DIGITS = re.compile(r"([0-9]+)")
MAX_WORD_LENGTH = 80
MAX_LETTERS_COMPARED = 300_000  # compared in one search for a name; a third of a second


class LetterBudget(msgspec.Struct):
    """The number of letters that may still be compared in the search for similar names. There are no more suggestions at 0."""

    letters: int = MAX_LETTERS_COMPARED


def closest(word: str, candidates: Iterable[str], budget: LetterBudget | None = None) -> str | None:
    """The candidate nearest to `word`, or None when none is near; the same letters in another case or with other separators are."""
    if len(word) > MAX_WORD_LENGTH:
        return None
    best: tuple[int, int, str] | None = None
    shortened: list[str] = []
    plain, lower, limit = _plain(word), word.lower(), max_distance(word)
    for order, candidate in enumerate(candidates):
        if candidate == word or len(candidate) > MAX_WORD_LENGTH:
            continue
        if budget is not None:
            if budget.letters < 0:
                return None
            budget.letters -= len(word) * len(candidate) if abs(len(candidate) - len(word)) <= limit else len(word)
            budget.letters -= len(candidate) if candidate[:1].lower() == lower[:1] else 0
        if is_short_for(lower, candidate.lower()):
            shortened.append(candidate)
        steps = 0 if _plain(candidate) == plain else distance(lower, candidate.lower(), limit)
        if steps <= limit and (best is None or (steps, order) < best[:2]):
            best = (steps, order, candidate)
    typing_error = best is not None and best[0] * LETTERS_FOR_ERROR <= len(word)
    full = None if typing_error else _full(lower, shortened)
    return full or (best[2] if best else None)


def is_short_for(word: str, name: str) -> bool:
    """True if a word of three letters or more abbreviates a name: its beginning, or the name without at most half of its letters."""
    if len(word) < MIN_ABBREVIATION or len(word) >= len(name) or word[0] != name[0] or word.count(".") != name.count("."):
        return False
    if name.startswith(word):
        return True
    letters = iter(name)
    return 2 * len(word) > len(name) - 1 and all(letter in letters for letter in word)


MIN_ABBREVIATION = 3  # letters of an abbreviation
LETTERS_FOR_ERROR = 6
"""The length from which a word with one wrong letter counts as mistyped and not as an abbreviation."""


def _full(word: str, names: Sequence[str]) -> str | None:
    """The name that a word is short for; one that it begins comes first. None if there are several such names."""
    begun = [name for name in names if name.lower().startswith(word)] or names
    return begun[0] if len(begun) == 1 else None


def max_distance(word: str) -> int:
    """The number of letters of a word that may be wrong: a third, at least one; none of a word of one or two letters."""
    return max(1, len(word) // 3) if len(word) > 2 else 0


def distance(a: str, b: str, limit: int) -> int:
    """The Damerau-Levenshtein distance (optimal string alignment) of two words, or `limit` + 1 when it is larger."""
    if abs(len(a) - len(b)) > limit or len(set(a) - set(b)) > limit:
        return limit + 1  # known from the letters, without the table
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        above, before = before, row
        row = [i]
        for j, right in enumerate(b, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Names for a help sentence, sorted and capped: "`a`, `b` and 3 more"."""
    return capped([f"`{name}`" for name in sorted(names)], limit)


def capped(names: Sequence[str], limit: int) -> str:
    """The first names in the order given, and how many there are more: "a, b and 3 more"."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit:,} more" if len(names) > limit else "")


@lru_cache(maxsize=1024)
def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def natural(text: str) -> tuple[tuple[object, ...], str]:
    """A sort key for texts that orders the numbers in them by their values: `9 GPUs` before `10 GPUs`."""
    parts = _DIGITS.split(text)  # every second part is a number
    values = ((len(part.lstrip("0")), part.lstrip("0")) if place % 2 else part for place, part in enumerate(parts))
    return tuple(values), text


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """(text, count) pairs, the highest count first; of equal counts in `natural` order of the texts."""
    return sorted(counts.items(), key=lambda item: (-item[1], natural(item[0])))


def counted(counts: Mapping[str, int]) -> str:
    """The texts with their counts, as `most_first` orders them: `5 Insufficient cpu, 3 Insufficient memory`; "" without any."""
    return ", ".join(f"{number} {text}" for text, number in most_first(counts))


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: `1 pod`, `1,523 nodes`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


GAP = "  "


def columns(rows: Iterable[Sequence[str]], *, right: frozenset[int] = frozenset(), indent: str = "") -> str:
    """The rows as aligned columns, one line each; columns in `right` are flush right, and the last is never padded.

    Cells may be texts of users, such as the name of a group from an annotation: they are made printable.
    """
    table = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "".join(indent + _line(row, widths, right).rstrip() + "\n" for row in table)


def lines(found: Iterable[str]) -> str:
    """The lines as text, each with its newline. Lines may contain texts of users: each is made printable, and stays one line."""
    return "".join(f"{printable(line)}\n" for line in found)


def _line(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    return GAP.join(cell.rjust(width) if i in right else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True)))


def number(value: float) -> str:
    """A number with at most two decimals and no trailing zeros: 412, 97.5, 33.33."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(fraction: float) -> str:
    """A fraction as a percentage with one decimal: 0.6071 is `60.7 %`."""
    return f"{100 * fraction:.1f} %"


def amount(resource: str, value: float) -> str:
    """An amount of a resource in the unit people use: CPUs with two decimals, bytes as GiB, anything else as it is."""
    if resource == "cpu":
        return f"{value / 1000:,.2f}"
    if resource in ("memory", "ephemeral-storage"):
        return f"{value / 2**30:,.1f}Gi"
    return f"{value:,.0f}"
