"""Counts with their nouns, as every message has them."""

from __future__ import annotations


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: `1 pod`, `1,523 nodes`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
