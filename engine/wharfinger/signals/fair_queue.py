"""Fair sharing of a few places among many askers: a queue, turns on the event loop, and worker threads.

The queue is start-time fair queueing, without a clock. An `Asker` is a group (the policies of tenants, one address on the network) and a
name in it. Of the waiting groups the one with the lower `rank` comes first, then the one that has used least so far, and within it the
asker that has used least. Use is counted when a place is given back (in seconds, for example). An asker that was away gets no credit: it
starts at the level of the latest ones served.

Source: Goyal, Vin and Cheng, "Start-time Fair Queueing" (1997), with groups as in its section on hierarchies, and with limits: one group,
and one asker, never use all places, so that a slow one does not block all others.

Worker threads wait for answers, so that the event loop does not. They are daemon threads: one that hangs in name resolution blocks neither
the others nor the end of the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

Thing = TypeVar("Thing")

MAX_REMEMBERED = 1024
"""Askers whose use is remembered while they neither wait nor hold a place."""


class Asker(NamedTuple):
    """The owner of a request: a name in a group. Groups of lower `rank` come first."""

    name: str
    group: str = ""
    rank: int = 0


class TooMany(Exception):
    """Too many wait already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The number of places, the shares of one group and one asker, and how many things may wait, for one asker and for all."""

    number: int
    of_group: int
    of_asker: int
    waiting: int
    waiting_of_asker: int


class FairQueue(Generic[Thing]):
    """Things that wait for a place, by asker."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._waiting: dict[Asker, deque[Thing]] = {}
        self._holding: dict[Asker, int] = {}
        self._used: OrderedDict[Asker | str, float] = OrderedDict()
        self._reached: dict[str | None, float] = {}  # what those had used whose turn came last: of the askers of a group, of groups (None)

    def __len__(self) -> int:
        """The number of waiting things."""
        return sum(map(len, self._waiting.values()))

    def put(self, asker: Asker, thing: Thing) -> None:
        """Adds a waiting thing; TooMany if the limits do not allow it."""
        if len(self) >= self._places.waiting or len(self._waiting.get(asker, ())) >= self._places.waiting_of_asker:
            raise TooMany
        present = self._present()
        if asker not in present:
            self._begin(asker, asker.group)
        if asker.group not in {other.group for other in present}:
            self._begin(asker.group, None)
        self._waiting.setdefault(asker, deque()).append(thing)

    def take(self) -> tuple[Asker, Thing] | None:
        """The next asker and its thing, which now hold a place; None if none is waiting that may have one."""
        holding = list(self._holding.items())
        if sum(count for _, count in holding) >= self._places.number:
            return None
        of_group = {
            group: sum(count for asker, count in holding if asker.group == group) for group in {asker.group for asker in self._waiting}
        }
        able = [
            asker
            for asker in self._waiting
            if of_group[asker.group] < self._places.of_group and self._holding.get(asker, 0) < self._places.of_asker
        ]
        if not able:
            return None
        asker = min(able, key=lambda one: (one.rank, self._used[one.group], self._used[one]))  # of equals the first to wait
        waiting = self._waiting.pop(asker)
        thing = waiting.popleft()
        if waiting:
            self._waiting[asker] = waiting  # behind the others that have used as much
        self._holding[asker] = self._holding.get(asker, 0) + 1
        self._reach(asker, asker.group)
        self._reach(asker.group, None)
        return asker, thing

    def give_back(self, asker: Asker, used: float) -> None:
        """Frees a place, and counts what its asker used."""
        self._holding[asker] -= 1
        if not self._holding[asker]:
            del self._holding[asker]
        for key in (asker, asker.group):
            self._used[key] = self._used.pop(key, 0.0) + used
        self._forget()

    def withdraw(self, asker: Asker, thing: Thing) -> bool:
        """Removes a waiting thing; True if it was waiting."""
        waiting = self._waiting.get(asker)
        if waiting is None or thing not in waiting:
            return False
        waiting.remove(thing)
        if not waiting:
            del self._waiting[asker]
        return True

    def _begin(self, key: Asker | str, level: str | None) -> None:
        self._used[key] = max(self._used.get(key, 0.0), self._reached.get(level, 0.0))

    def _reach(self, key: Asker | str, level: str | None) -> None:
        self._reached[level] = max(self._used[key], self._reached.get(level, 0.0))

    def _present(self) -> set[Asker]:
        return {*self._waiting, *self._holding}

    def _forget(self) -> None:
        present = self._present()
        needed: set[Asker | str] = {*present, *(asker.group for asker in present)}
        for key in list(self._idle(needed)):
            del self._used[key]
            if isinstance(key, str):
                self._reached.pop(key, None)

    def _idle(self, needed: set[Asker | str]) -> Iterator[Asker | str]:
        """The askers beyond the limit of remembered ones, idle longest first."""
        idle = [key for key in self._used if key not in needed] if len(self._used) > MAX_REMEMBERED else []
        yield from idle[: max(0, len(self._used) - MAX_REMEMBERED)]


class Turns:
    """A limited number of contexts at a time; the next one depends on what each asker has used, in seconds of `monotonic`."""

    def __init__(self, places: Places, monotonic: Callable[[], float]) -> None:
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(places)
        self._monotonic = monotonic

    def __len__(self) -> int:
        """The number of waiting things."""
        return len(self._queue)

    @asynccontextmanager
    async def of(self, asker: Asker) -> AsyncIterator[None]:
        """A context that begins when it is the asker's turn; TooMany at once if too many wait already."""
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


Result = TypeVar("Result")

MAX_WAITING = 100_000
"""Far above what regular queries need: each waits once."""


class Workers:
    """A limited number of threads, started when first needed; one group of askers never has all, one asker at most half."""

    def __init__(self, name: str, most: int, monotonic: Callable[[], float]) -> None:
        self._name = name
        self._most = most
        self._started = 0
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        limits = Places(
            number=most,
            of_group=max(1, most - 1),
            of_asker=max(1, most // 2),
            waiting=MAX_WAITING,
            waiting_of_asker=MAX_WAITING,
        )
        self._turns = Turns(limits, monotonic)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[], Result], asker: Asker) -> Result:
        """The result of `work`, called in one of the threads when it is the asker's turn; raises what it raises.

        After cancelling, the thread finishes by itself, and the turn ends then.
        """
        task = asyncio.get_running_loop().create_task(self._in_turn(work, asker))
        self._under_way.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may have ended; it has the exception already

    async def _in_turn(self, work: Callable[[], Result], asker: Asker) -> Result:
        async with self._turns.of(asker):
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
    except BaseException as error:  # noqa: BLE001 — it is raised again in the caller
        return None, error


def _resolve(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
