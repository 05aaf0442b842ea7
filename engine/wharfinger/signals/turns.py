"""A fair queue to wait in, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from wharfinger.signals.fair_queue import Asker, FairQueue, Places


class Turns:
    """So many contexts at a time; who comes next is a matter of what each asker has used, in seconds of `monotonic`."""

    def __init__(self, places: Places, monotonic: Callable[[], float]) -> None:
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(places)
        self._monotonic = monotonic

    def __len__(self) -> int:
        """How many wait."""
        return len(self._queue)

    @asynccontextmanager
    async def of(self, asker: Asker) -> AsyncIterator[None]:
        """A context that begins when it is the asker's turn; TooMany at once where too many wait already."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.put(asker, turn)
        self._next()
        try:
            await turn
        except asyncio.CancelledError:
            if not self._queue.withdraw(asker, turn):
                self._ended(asker, 0.0)
            raise
        began = self._monotonic()
        try:
            yield
        finally:
            self._ended(asker, self._monotonic() - began)

    def _ended(self, asker: Asker, seconds: float) -> None:
        self._queue.give_back(asker, seconds)
        self._next()

    def _next(self) -> None:
        while (found := self._queue.take()) is not None:
            _, turn = found
            if not turn.done():  # one that is cancelled gives its place back as soon as it runs
                turn.set_result(None)
