"""Candidates for a lease in this process, each in a thread with its own loop, so that one can pause while others continue."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.cluster.waiting import PATIENCE
from wharfinger.emit import Failed
from wharfinger.event_loop import SystemClock
from wharfinger.framework.ports import Clock
from wharfinger.kube.connection import Connection
from wharfinger.kube.credentials import Credentials
from wharfinger.kube.lease import LeaseElection, LeaseSettings

DURATION, DEADLINE, RETRY = 6.0, 4.0, 0.5  # short enough to wait for, long enough for a busy API server


class SkewedClock(SystemClock):
    """The machine's clock with another time of day; how far off it is can be changed while it is used."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead

    def now(self) -> float:
        """Seconds since 1970 by a clock that may be wrong."""
        return super().now() + self.ahead


class Candidate:
    """Runs for the lease `wharfinger` again and again while the context lasts. `reported` has what happened to it, with monotonic times."""

    def __init__(self, kubeconfig: Path, identity: str, clock: Clock | None = None, **settings: Any) -> None:
        self.identity = identity
        self.reported: list[tuple[float, str]] = []
        self.reports: list[str] = []
        self._kubeconfig = kubeconfig
        self._clock = clock or SystemClock()
        durations = {"lease_duration": DURATION, "renew_deadline": DEADLINE, "retry_period": RETRY}
        self._settings = LeaseSettings(identity=identity, **{**durations, **settings})
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name=identity, daemon=True)
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the candidate did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def is_leader(self) -> bool:
        """True if it may act; called from another thread."""
        return self._election.is_leader

    def end(self) -> None:
        """Ends it in an orderly way; twice does no harm."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"{self.identity} did not end"

    def stand_still(self, seconds: float) -> None:
        """Stops it for so long, as when its process is stopped; returns at once."""
        self._loop.call_soon_threadsafe(time.sleep, seconds)

    def when(self, what: str) -> float:
        """The moment of the last `started` or `stopped`."""
        return max(at for at, said in self.reported if said == what)

    def times(self, what: str) -> int:
        """The number of such reports."""
        return sum(said == what for _, said in self.reported)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with Connection(Credentials(str(self._kubeconfig), None, self._clock.monotonic)) as connection:
            self._election = LeaseElection(connection, self._settings, self._clock, self._hear)
            self._ready.set()
            running = asyncio.create_task(self._run())
            await self._stop.wait()
            running.cancel()
            await asyncio.wait([running])
        await asyncio.sleep(0.25)  # transports of TLS take some rounds of the loop to close

    async def _run(self) -> None:
        while True:
            await self._election.run(self._tell("started"), self._tell("stopped"))

    def _tell(self, what: str) -> Callable[[], None]:
        return lambda: self.reported.append((time.monotonic(), what))

    def _hear(self, event: Failed) -> None:
        self.reports.append(f"{event.where}: {event.error}")
