"""What a completion offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class BegunWord(Protocol):
    """The characters of the word that has been begun."""

    @property
    def start(self) -> int:
        """The first character."""

    @property
    def end(self) -> int:
        """Behind the last character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One thing that may be written: characters `start` to `end` are replaced by `insert`, which is the label unless given.

    `kind` is field, function, value, subject, keyword, word, type, unit, key, label, object, rule, plugin or annotation. In a `snippet`,
    `$1` and `${1:text}` are where the author goes on, as in the Language Server Protocol. Offers of a lower `rank` come first.
    """

    label: str
    kind: str
    start: int
    end: int
    insert: str = ""
    snippet: bool = False
    detail: str = ""
    doc: str = ""
    rank: int = 1

    @classmethod
    def word(cls, place: BegunWord, label: str, kind: str, **more: object) -> Offer:
        """An offer in place of the word that has been begun."""
        return cls(label=label, kind=kind, start=place.start, end=place.end, **more)  # type: ignore[arg-type]  # its own fields

    @property
    def written(self) -> str:
        """What is put in place."""
        return self.insert or self.label
