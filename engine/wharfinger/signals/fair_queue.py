"""Fair sharing of a few places among many requesters: a queue, turns on the event loop, and worker threads.

The queue is start-time fair queueing, without a clock. A `Requester` is a group (the policies of tenants, one address on the network) and a
name in it; the settings call it an asker. Of the waiting groups, the one with the lowest `rank` comes first, then the one that has used
least so far; within it, the requester that has used least. Use is counted when a place is released (in seconds, for example). A requester
that did not wait for a while gets no credit: it starts at the level of those served last.

Source: Goyal, Vin and Cheng, "Start-time Fair Queueing" (1997), with groups as in its section on hierarchies, and with limits: one group,
and one requester, never use all places, so that a slow one does not block all others.

Worker threads wait for answers, so that the event loop does not. They are daemon threads: one that hangs in name resolution blocks neither
the others nor the end of the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

Item = TypeVar("Item")

MAX_REMEMBERED = 1024
"""Askers whose use is remembered while they neither wait nor hold a place."""


class Requester(NamedTuple):
    """The owner of a request: a name in a group. Groups of lower `rank` come first."""

    name: str
    group: str = ""
    rank: int = 0


class TooMany(Exception):
    """Too many wait already."""


class QueueLimits(Struct, frozen=True, kw_only=True):
    """The number of places, the shares of one group and one requester, and how many items may wait, for one requester and for all."""

    number: int
    of_group: int
    of_requester: int
    waiting: int
    waiting_of_requester: int


class FairQueue(Generic[Item]):
    """Things that wait for a place, by requester."""

    def __init__(self, places: QueueLimits) -> None:
        self._places = places
        self._waiting: dict[Requester, deque[Item]] = {}
        self._holding: dict[Requester, int] = {}
        self._used: OrderedDict[Requester | str, float] = OrderedDict()
        # the use of those whose turn came last: of the requesters of a group, of groups (None)
        self._reached: dict[str | None, float] = {}

    def __len__(self) -> int:
        """The number of waiting items."""
        return sum(map(len, self._waiting.values()))

    def put(self, requester: Requester, item: Item) -> None:
        """Add a waiting item; TooMany if the limits do not allow it."""
        if len(self) >= self._places.waiting or len(self._waiting.get(requester, ())) >= self._places.waiting_of_requester:
            raise TooMany
        present = self._present()
        if requester not in present:
            self._begin(requester, requester.group)
        if requester.group not in {other.group for other in present}:
            self._begin(requester.group, None)
        self._waiting.setdefault(requester, deque()).append(item)

    def take(self) -> tuple[Requester, Item] | None:
        """The next requester and its item, which now hold a place; None if no waiting requester may have one."""
        holding = list(self._holding.items())
        if sum(count for _, count in holding) >= self._places.number:
            return None
        of_group = {
            group: sum(count for requester, count in holding if requester.group == group)
            for group in {requester.group for requester in self._waiting}
        }
        able = [
            requester
            for requester in self._waiting
            if of_group[requester.group] < self._places.of_group and self._holding.get(requester, 0) < self._places.of_requester
        ]
        if not able:
            return None
        requester = min(able, key=lambda one: (one.rank, self._used[one.group], self._used[one]))  # of equals the first to wait
        waiting = self._waiting.pop(requester)
        item = waiting.popleft()
        if waiting:
            self._waiting[requester] = waiting  # behind the others that have used as much
        self._holding[requester] = self._holding.get(requester, 0) + 1
        self._reach(requester, requester.group)
        self._reach(requester.group, None)
        return requester, item

    def release(self, requester: Requester, used: float) -> None:
        """Free a place, and count what its requester used."""
        self._holding[requester] -= 1
        if not self._holding[requester]:
            del self._holding[requester]
        for key in (requester, requester.group):
            self._used[key] = self._used.pop(key, 0.0) + used
        self._forget()

    def withdraw(self, requester: Requester, item: Item) -> bool:
        """Remove a waiting item; True if it was waiting."""
        waiting = self._waiting.get(requester)
        if waiting is None or item not in waiting:
            return False
        waiting.remove(item)
        if not waiting:
            del self._waiting[requester]
        return True

    def _begin(self, key: Requester | str, level: str | None) -> None:
        self._used[key] = max(self._used.get(key, 0.0), self._reached.get(level, 0.0))

    def _reach(self, key: Requester | str, level: str | None) -> None:
        self._reached[level] = max(self._used[key], self._reached.get(level, 0.0))

    def _present(self) -> set[Requester]:
        return {*self._waiting, *self._holding}

    def _forget(self) -> None:
        present = self._present()
        needed: set[Requester | str] = {*present, *(requester.group for requester in present)}
        for key in list(self._idle(needed)):
            del self._used[key]
            if isinstance(key, str):
                self._reached.pop(key, None)

    def _idle(self, needed: set[Requester | str]) -> Iterator[Requester | str]:
        """The requesters beyond the limit of remembered ones, idle longest first."""
        idle = [key for key in self._used if key not in needed] if len(self._used) > MAX_REMEMBERED else []
        yield from idle[: max(0, len(self._used) - MAX_REMEMBERED)]


class FairTurns:
    """A limited number of contexts at a time; the next one depends on what each requester has used, in seconds of `monotonic`."""

    def __init__(self, places: QueueLimits, monotonic: Callable[[], float]) -> None:
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(places)
        self._monotonic = monotonic

    def __len__(self) -> int:
        """The number of waiting items."""
        return len(self._queue)

    @asynccontextmanager
    async def of(self, requester: Requester) -> AsyncIterator[None]:
        """A context that begins when it is the requester's turn; TooMany at once if too many wait already."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.put(requester, turn)
        self._next()
        try:
            await turn
        except asyncio.CancelledError:
            if not self._queue.withdraw(requester, turn):
                self._ended(requester, 0.0)
            raise
        began = self._monotonic()
        try:
            yield
        finally:
            self._ended(requester, self._monotonic() - began)

    def _ended(self, requester: Requester, seconds: float) -> None:
        self._queue.release(requester, seconds)
        self._next()

    def _next(self) -> None:
        while (found := self._queue.take()) is not None:
            _, turn = found
            if not turn.done():  # one that is cancelled gives its place back as soon as it runs
                turn.set_result(None)


Result = TypeVar("Result")

MAX_WAITING = 100_000
"""Far above what regular queries need: each waits once."""


class Workers:
    """A limited number of threads, started when first needed; one group of requesters never has all, one requester at most half."""

    def __init__(self, name: str, limit: int, monotonic: Callable[[], float]) -> None:
        self._name = name
        self._limit = limit
        self._started = 0
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        limits = QueueLimits(
            number=limit,
            of_group=max(1, limit - 1),
            of_requester=max(1, limit // 2),
            waiting=MAX_WAITING,
            waiting_of_requester=MAX_WAITING,
        )
        self._turns = FairTurns(limits, monotonic)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[], Result], requester: Requester) -> Result:
        """The result of `work`, called in one of the threads when it is the requester's turn; raises what it raises.

        After cancelling, the thread finishes by itself, and the turn ends then.
        """
        task = asyncio.get_running_loop().create_task(self._in_turn(work, requester))
        self._under_way.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may have ended; it has the exception already

    async def _in_turn(self, work: Callable[[], Result], requester: Requester) -> Result:
        async with self._turns.of(requester):
            return await self._run(work)

    async def _run(self, work: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()

        def done() -> None:
            result, error = _outcome(work)
            try:
                loop.call_soon_threadsafe(_resolve, answer, result, error)
            except RuntimeError:
                return  # the loop is closed, so nothing waits any more

        self._work.put(done)
        if self._started < self._limit:
            self._started += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._started}", daemon=True).start()
        return await answer

    def _serve(self) -> None:
        while True:
            self._work.get()()


def _outcome(work: Callable[[], Result]) -> tuple[Result | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 — it is raised again in the caller
        return None, error


def _resolve(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
