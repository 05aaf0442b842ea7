"""Threads that wait for answers, so that the event loop does not.

They are daemons: one that hangs in a name server keeps neither the others waiting nor the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class Workers:
    """So many threads, started when first needed; what is asked of them beyond that waits for its turn."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._started = 0
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()

    async def run(self, work: Callable[[], Result]) -> Result:
        """What `work` returns or raises, called in one of the threads. Cancelling leaves the thread to finish by itself."""
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
