"""Faults that a proxy can inject, and the requests that get them."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A failure in place of the API server's answer. `in_stream` gives it as a watch does: status 200 and an event of type ERROR."""

    status: int
    reason: str = ""
    retry_after: int | None = None
    in_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The request is passed on after that many seconds; with `after` it is the answer that comes so late."""

    seconds: float
    after: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lose:
    """The request is done, and the connection breaks before its answer."""


class Hold:
    """The request waits until `let_go`; it has not reached the API server yet."""

    def __init__(self) -> None:
        self._caught = threading.Event()
        self._over = threading.Event()

    def catch(self, within: float = 120.0) -> None:
        """Returns when a request is held."""
        assert self._caught.wait(within), "no such request came"

    def let_go(self) -> None:
        """The requests held continue, and no more are held."""
        self._over.set()

    async def wait(self) -> None:
        """Holds a request."""
        self._caught.set()
        while not self._over.is_set():  # noqa: ASYNC110 — it is set in another thread
            await asyncio.sleep(0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The answer comes line by line, each as `line` makes it: of a watch these are its events."""

    line: Callable[[bytes], bytes]


Action = Answer | Delay | Lose | Hold | Rewrite


@dataclass(slots=True, kw_only=True)
class Fault:
    """An action and the requests it happens to: of these every n-th, and at most `times`."""

    action: Action
    method: str | None = None
    path: re.Pattern[str] = field(default_factory=lambda: re.compile(""))
    watch: bool | None = None
    every: int = 1
    times: int | None = None
    met: int = 0
    done: int = 0

    def strikes(self, method: str, path: str, watch: bool) -> bool:
        """True if it happens to this request, which is counted."""
        if self.method not in (None, method) or self.watch not in (None, watch) or not self.path.search(path):
            return False
        self.met += 1
        if self.met % self.every or (self.times is not None and self.done >= self.times):
            return False
        self.done += 1
        return True
