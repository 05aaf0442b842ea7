"""Whether the API server answers, as of now.

Every request tells: an answer is one even if it refuses, unless it says that the server itself has failed (5xx), as proxies do for servers
that are away. Who only watches may hear nothing for minutes, so a process that has not been answered for a while asks for the version.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from wharfinger.kube import refusals

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock
    from wharfinger.kube.connection import Connection

LONGEST = 15.0
"""Seconds without an answer after which the server is taken for away."""
ASK = 5.0
"""Seconds without an answer after which the server is asked; also how long it may take to answer that."""


class Contact:
    """When the API server last answered, and what became of requests since."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._answered_at = monotonic()
        self._failure = ""

    def told(self, status: int, failure: str = "") -> None:
        """Takes in a request's end: its HTTP status, or 0 and what went wrong."""
        if 0 < status < 500:
            self._answered_at, self._failure = self._monotonic(), ""
        else:
            self._failure = failure or f"HTTP status {status}"

    @property
    def silence(self) -> float:
        """Seconds since the last answer."""
        return self._monotonic() - self._answered_at

    @property
    def trouble(self) -> str | None:
        """Why the server is taken for away, None while it is not."""
        if self.silence < LONGEST:
            return None
        return f"no answer for {self.silence:.0f} s{self._failure and ': '}{self._failure}"


async def keep_asking(connection: Connection, clock: Clock) -> None:
    """Never returns: asks a server that nobody else has had an answer from lately."""
    while True:
        await clock.sleep(max(ASK - connection.contact.silence, 1.0))
        if connection.contact.silence >= ASK:
            try:
                await connection.request("GET", "/version", timeout=ASK, urgent=True)
            except refusals.ApiError:
                continue  # the contact was told
