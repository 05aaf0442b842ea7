"""One signal, asked for again and again until nobody needs it.

A failure changes nothing but the age of the samples: they stay until new ones come, and each metric says itself how old is too old.
Questions are spread in time, so that fifty signals of one interval do not arrive at the server together for ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.framework.ports import Clock
from wharfinger.signals.failure import Kind, SignalFailed
from wharfinger.signals.mapping import Mapped
from wharfinger.signals.ports import SignalObserver, Sink, Source
from wharfinger.signals.query import Query

SPREAD = 0.1
"""How much an interval may differ from what was asked for, as a part of it."""


@dataclass(slots=True, kw_only=True)
class Standing:
    """How a signal fares: what its last successful refresh found and when (monotonic), and what its last one failed with."""

    query: Query
    found: Mapped | None = None
    at: float | None = None
    seconds: float = 0.0
    failure: SignalFailed | None = None
    failures: int = 0
    attempts: int = 0


class Refresher:
    """Refreshes one signal."""

    def __init__(  # noqa: PLR0913, PLR0917 — what it asks, tells and waits with
        self, query: Query, source: Source, sink: Sink, clock: Clock, observer: SignalObserver, spread: Callable[[], float] = random.random
    ) -> None:
        self.standing = Standing(query=query)
        self._source = source
        self._sink = sink
        self._clock = clock
        self._observer = observer
        self._spread = spread

    @property
    def query(self) -> Query:
        """What is asked."""
        return self.standing.query

    def follow(self, query: Query) -> None:
        """None; from the next time on it is asked as often as this query of the same signal wants it."""
        self.standing.query = query

    async def run(self) -> None:
        """None, when cancelled: refreshes at once, and then at the interval."""
        while True:
            await self.refresh()
            await self._clock.sleep(self.query.refresh * (1 + SPREAD * (2 * self._spread() - 1)))

    async def refresh(self) -> None:
        """None, once there are new samples, or are not; both are told."""
        query, standing = self.query, self.standing
        began = self._clock.monotonic()
        try:
            found = await self._measured(query)
            self._sink.publish(query.key, found)
        except SignalFailed as error:
            self._failed(error, began)
        except Exception as error:  # noqa: BLE001 — whatever a source stumbles over, the next refresh comes
            self._failed(SignalFailed(Kind.ANSWER, f"{type(error).__name__}: {error}"), began)
        else:
            standing.found, standing.at, standing.failure = found, self._clock.monotonic(), None
            standing.seconds = standing.at - began
            standing.attempts += 1
            self._observer.refreshed(query, found, standing.seconds)

    async def _measured(self, query: Query) -> Mapped:
        if query.refused:
            raise SignalFailed(Kind.LIMIT, query.refused)
        return await self._source.measured(query, self._sink.nodes())

    def _failed(self, error: SignalFailed, began: float) -> None:
        standing = self.standing
        standing.failure = error
        standing.failures += 1
        standing.attempts += 1
        self._observer.refresh_failed(self.query, error, self._clock.monotonic() - began)
