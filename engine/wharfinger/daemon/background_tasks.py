"""Background tasks that run until the end and whose failures are raised."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class Tasks:
    """Background tasks of a context: when it is left they are cancelled one after the other, the latest first."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._tasks:
            task = self._tasks.pop()
            task.cancel()
            await asyncio.wait({task})
            if error is None and not task.cancelled():
                _succeeded(task)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """The task that does the work from now on."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.append(task)
        return task

    async def until(self, *goals: asyncio.Event | asyncio.Future[Any]) -> None:
        """Waits until an event is set or a task has ended; raises the error of any background task that fails before that."""
        waiting: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(goal.wait()) if isinstance(goal, asyncio.Event) else goal for goal in goals
        ]
        try:
            while not any(goal.done() for goal in waiting):
                done, _ = await asyncio.wait({*waiting, *self._running()}, return_when=asyncio.FIRST_COMPLETED)
                for task in done & set(self._tasks):
                    _succeeded(task)
        finally:
            for wait, goal in zip(waiting, goals, strict=True):
                if isinstance(goal, asyncio.Event):
                    wait.cancel()

    def _running(self) -> set[asyncio.Task[Any]]:
        return {task for task in self._tasks if not task.done()}


def _succeeded(task: asyncio.Future[Any]) -> None:
    """Raises the error of a task; of a group of errors the first, as one sentence says more than all of them."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error
