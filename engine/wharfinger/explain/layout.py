"""Text for people: columns, numbers and percentages that come out the same on every machine.

Nothing here asks for the terminal's width, the locale or the time; a column is as wide as its widest cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wharfinger.language.report.wording import count as count  # noqa: PLC0414 — offered here with the other formats

GAP = "  "


def columns(rows: Iterable[Sequence[str]], *, right: frozenset[int] = frozenset(), indent: str = "") -> str:
    """The rows as aligned columns, one line each; columns in `right` are flush right, and the last is never padded."""
    table = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "".join(indent + _line(row, widths, right).rstrip() + "\n" for row in table)


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
