"""The product's scheduler in this process, against the API server of a test: the code of `wharf run`, in a thread with its own loop."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Self, TypeVar
from unittest.mock import Mock

from msgspec.structs import replace

from tests.cluster.waiting import PATIENCE
from tests.observed import subscribed
from wharfinger.daemon.compose import Daemon, connection_of
from wharfinger.daemon.serve import wait_for_server
from wharfinger.daemon.settings import ClientConnection, LeaderElection, Settings
from wharfinger.emit import Failed, Handlers
from wharfinger.event_loop import SystemClock
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.ports import Clock
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.events import AttemptEnded
from wharfinger.scheduler.scheduler import Scheduler

NAME = "wharfinger"
T = TypeVar("T")


class Complaints:
    """Counts what went wrong, by where and what, and how often each pod was tried."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.handlers: Handlers = {AttemptEnded: self._attempted, Failed: self._failed}

    def _attempted(self, attempt: AttemptEnded) -> None:
        self.attempts[attempt.pod.key] += 1

    def _failed(self, event: Failed) -> None:
        self.counts[f"{event.where}: {type(event.error).__name__}: {str(event.error)[:120]}"] += 1


class LiveScheduler:
    """Schedules the pods of schedulerName `wharfinger` while the context lasts."""

    def __init__(self, kubeconfig: Path, chain: Chain | None = None, clock: Clock | None = None, silence: float | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._clock = clock or SystemClock()
        self._silence = silence
        self._chain = chain or assemble()
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self.complaints = Complaints()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the scheduler did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the scheduler did not stop"
        if self._error is not None:
            raise self._error

    def assumed(self) -> list[str]:
        """Pods that it has decided about and not seen bound."""
        return self._ask(lambda pods: [placement.pod.key for placement in pods if placement.assumed])

    def placed(self) -> int:
        """The number of pods that it has seen bound."""
        return self._ask(lambda pods: sum(not placement.assumed for placement in pods))

    def running(self) -> int:
        """The number of pods that it has seen running: only then it knows since when."""
        return self._ask(lambda pods: sum(placement.pod.object.status.phase == "Running" for placement in pods))

    def waiting(self) -> dict[str, str]:
        """The pods in its queue, by key, with the place in which they are."""
        return self.ask(lambda scheduler: {queued.pod.key: queued.place.value for queued in scheduler.queue})

    def _ask(self, question: Callable[[Collection[Any]], T]) -> T:
        return self.ask(lambda scheduler: question(scheduler.state._tables.pods.by_uid.values()))

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        """The answer of the scheduler to a question, between two of its steps."""

        async def ask() -> T:
            return question(self._scheduler)

        assert self._thread.is_alive(), f"the scheduler has died: {self._error!r}"
        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result(PATIENCE)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 — raised again where the test is
            self._error = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._stop, clock = asyncio.get_running_loop(), asyncio.Event(), self._clock
        settings = Settings(
            client_connection=ClientConnection(kubeconfig=str(self._kubeconfig)), leader_election=LeaderElection(leader_elect=False)
        )
        async with connection_of(settings, clock) as connection:
            if self._silence is not None:
                connection.limits = replace(connection.limits, watch_silence=self._silence)
            version = await wait_for_server(connection, clock, Mock())
            subscribers = subscribed(self.complaints.handlers)
            policies = PolicyStore((), {NAME: self._chain}, clock, emit=subscribers.emit)
            daemon = Daemon(settings, policies, connection, version, subscribers=subscribers, clock=clock, log=Mock())
            self._scheduler = daemon.scheduler
            self._ready.set()
            await daemon.run(self._stop)
