"""Errors that repeat: the first few of a kind are worth a line each, then it is enough to know how many there were."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Kind = tuple[str, str]
"""Where, and what kind of error."""


@dataclass(slots=True)
class _Window:
    """What came of one kind since `began`."""

    began: float
    let_through: int = 0
    held_back: int = 0


class Repeats:
    """Lets `most` of a kind through in `seconds`, and knows at most `kinds` kinds at a time."""

    def __init__(self, monotonic: Callable[[], float], *, most: int = 5, seconds: float = 10.0, kinds: int = 256) -> None:
        self._monotonic = monotonic
        self._most = most
        self._seconds = seconds
        self._kinds = kinds
        self._windows: OrderedDict[Kind, _Window] = OrderedDict()
        self._next_end = 0.0
        self.held_back = 0

    def admits(self, kind: Kind) -> bool:
        """Whether this one of its kind is to be told."""
        window = self._windows.get(kind)
        if window is None:
            if len(self._windows) >= self._kinds:
                self._windows.popitem(last=False)
            window = self._windows[kind] = _Window(self._monotonic())
        if window.let_through < self._most:
            window.let_through += 1
            return True
        window.held_back += 1
        self.held_back += 1
        return False

    def ended(self, *, all_of_them: bool = False) -> Iterator[tuple[Kind, int]]:
        """Kinds whose time is over (or all), each with how many were held back if any were; they begin anew."""
        now = self._monotonic()
        if now < self._next_end and not all_of_them:
            return
        self._next_end = now + self._seconds / 10
        for kind, window in list(self._windows.items()):
            if all_of_them or now - window.began >= self._seconds:
                del self._windows[kind]
                if window.held_back:
                    yield kind, window.held_back
