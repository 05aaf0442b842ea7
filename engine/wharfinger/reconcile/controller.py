"""Controllers: workers that take keys from a queue and bring the objects behind them where they should be.

Only the leader's workers work. Whatever goes wrong with one object keeps the others going: the key comes back, later each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from wharfinger.framework.ports import Clock, Leadership, Observer, WriteFailed
from wharfinger.kube import refusals
from wharfinger.reconcile.workqueue import QueueObserver, SilentQueueObserver, WorkQueue

_LOOK_AGAIN = 0.25  # seconds between two looks whether this process leads
_PASSING = (refusals.Conflict, refusals.NotFound, refusals.TooManyRequests)
"""What is to be expected: somebody else has written, or the object has gone. The next attempt sees it as it is then."""


class ReconcileObserver(QueueObserver, Protocol):
    """Told what controllers do, too."""

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        """None; a reconcile took so long and ended in `success`, `requeue`, `conflict` or `error`."""


class SilentReconcileObserver(SilentQueueObserver):
    """An observer that makes nothing of it."""

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        """None."""


class Reconciler(Protocol):
    """Brings one object where it should be. Doing it twice does no harm."""

    async def reconcile(self, key: str) -> float | None:
        """Seconds after which to look again although nothing has changed, or None."""


class Controller:
    """A queue, and the workers on it."""

    def __init__(  # noqa: PLR0913 — what the workers need
        self,
        name: str,
        reconciler: Reconciler,
        known: Callable[[], Iterable[str]],
        *,
        clock: Clock,
        leadership: Leadership,
        failures: Observer,
        observer: ReconcileObserver | None = None,
        workers: int = 2,
    ) -> None:
        self.name = name
        self._reconciler = reconciler
        self._known = known
        self._clock = clock
        self._leadership = leadership
        self._failures = failures
        self._observer = observer or SilentReconcileObserver()
        self._workers = workers
        self.queue = WorkQueue(name, clock, self._observer)

    async def run(self) -> None:
        """None, after `stop`, once the workers are done; works while this process leads."""
        async with asyncio.TaskGroup() as group:
            for index in range(self._workers):
                group.create_task(self._work(), name=f"{self.name} {index}")

    def resume(self) -> None:
        """None; every known object is looked at, as a new leader does."""
        for key in self._known():
            self.queue.add(key)

    def stop(self) -> None:
        """None; what is being worked on is finished, nothing else is begun."""
        self.queue.stop()

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            try:
                if self._leadership.is_leader:
                    await self._reconcile(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: str) -> None:
        began = self._clock.monotonic()
        try:
            again = await self._reconciler.reconcile(key)
        except (*_PASSING, WriteFailed):
            result = "conflict"
            self.queue.retry(key)
        except Exception as error:  # noqa: BLE001 — one object's trouble must not become that of the others
            result = "error"
            self._failures.failed(f"reconciling {self.name} {key}", error)
            self.queue.retry(key)
        else:
            result = "success" if again is None else "requeue"
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)
        self._observer.reconciled(self.name, result, self._clock.monotonic() - began)


async def run_all(controllers: Iterable[Controller], clock: Clock, leadership: Leadership) -> None:
    """None, when cancelled or all controllers have stopped; each time this process begins to lead, everything is looked at."""
    controllers = tuple(controllers)
    async with asyncio.TaskGroup() as group:
        resuming = group.create_task(_resume_as_leader(controllers, clock, leadership))
        await asyncio.gather(*(group.create_task(controller.run(), name=controller.name) for controller in controllers))
        resuming.cancel()


async def _resume_as_leader(controllers: Iterable[Controller], clock: Clock, leadership: Leadership) -> None:
    led = False
    while True:
        leads = leadership.is_leader
        if leads and not led:
            for controller in controllers:
                controller.resume()
        led = leads
        await clock.sleep(_LOOK_AGAIN)
