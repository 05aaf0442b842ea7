"""Threads that wait for answers, so that the event loop does not.

They are daemons: one that hangs in a name server keeps neither the others waiting nor the process from ending. Whoever asks takes turns
with others, by the time that their questions have taken, and nobody has all threads: slow questions of one do not keep others waiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from wharfinger.signals.fair_queue import Asker, Places
from wharfinger.signals.turns import Turns

Result = TypeVar("Result")

MOST_WAITING = 100_000
"""Nothing that is asked for regularly comes near it: each query waits once."""


class Workers:
    """So many threads, started when first needed; one group of askers never has all of them, one asker half of them at most."""

    def __init__(self, name: str, most: int, monotonic: Callable[[], float]) -> None:
        self._name = name
        self._most = most
        self._started = 0
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        limits = Places(
            number=most,
            of_group=max(1, most - 1),
            of_asker=max(1, most // 2),
            waiting=MOST_WAITING,
            waiting_of_asker=MOST_WAITING,
        )
        self._turns = Turns(limits, monotonic)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[], Result], asker: Asker) -> Result:
        """What `work` returns or raises, called in one of the threads when it is the asker's turn.

        Cancelling leaves the thread to finish by itself, and until then the turn is not over.
        """
        task = asyncio.get_running_loop().create_task(self._in_turn(work, asker))
        self._under_way.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may have gone, and has been told otherwise

    async def _in_turn(self, work: Callable[[], Result], asker: Asker) -> Result:
        async with self._turns.of(asker):
            return await self._run(work)

    async def _run(self, work: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()

        def done() -> None:
            result, error = _outcome(work)
            try:
                loop.call_soon_threadsafe(_tell, answer, result, error)
            except RuntimeError:
                return  # the loop has closed; nobody waits any more

        self._work.put(done)
        if self._started < self._most:
            self._started += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._started}", daemon=True).start()
        return await answer

    def _serve(self) -> None:
        while True:
            self._work.get()()


def _outcome(work: Callable[[], Result]) -> tuple[Result | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 — it is raised where the work was asked for
        return None, error


def _tell(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
