"""Who is next where many ask for a few places: start-time fair queueing, without a clock.

Whoever waits has an `Asker`: a group (the policies of tenants, one address on the network) and a name in it. Of the groups that wait the
one with the lower `rank` comes first, then the one that has used least so far, and within it the asker that has used least. What is used
is counted by whoever gives a place back (seconds, for example). Who has been away gets no credit for that: it begins where those are whose
turn it was last.

The source is Goyal, Vin and Cheng, "Start-time Fair Queueing" (1997), with groups as in its section on hierarchies, and with limits: one
group, and one asker, never hold all places, so that somebody who holds them for long is never waited for by all.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Thing = TypeVar("Thing")

REMEMBERED = 1024
"""Askers whose use is remembered although they neither wait nor hold a place."""


class Asker(NamedTuple):
    """Who asks: a name in a group. Groups of lower `rank` come first."""

    name: str
    group: str = ""
    rank: int = 0


class TooMany(Exception):
    """So many wait already that nobody else may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How many there are, how many of them one group and one asker may hold, and how many things may wait, of one asker and of all."""

    number: int
    of_group: int
    of_asker: int
    waiting: int
    waiting_of_asker: int


class FairQueue(Generic[Thing]):
    """Things that wait for a place, by who asks."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._waiting: dict[Asker, deque[Thing]] = {}
        self._holding: dict[Asker, int] = {}
        self._used: OrderedDict[Asker | str, float] = OrderedDict()
        self._reached: dict[str | None, float] = {}  # what those had used whose turn came last: of the askers of a group, of groups (None)

    def __len__(self) -> int:
        """How many things wait."""
        return sum(map(len, self._waiting.values()))

    def put(self, asker: Asker, thing: Thing) -> None:
        """The thing waits from now on; TooMany when it may not."""
        if len(self) >= self._places.waiting or len(self._waiting.get(asker, ())) >= self._places.waiting_of_asker:
            raise TooMany
        present = self._present()
        if asker not in present:
            self._begin(asker, asker.group)
        if asker.group not in {other.group for other in present}:
            self._begin(asker.group, None)
        self._waiting.setdefault(asker, deque()).append(thing)

    def take(self) -> tuple[Asker, Thing] | None:
        """Who is next, who holds a place from now on; None where nobody waits who may have one."""
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
        asker = min(able, key=lambda one: (one.rank, self._used[one.group], self._used[one]))  # of equals the one that came first
        waiting = self._waiting.pop(asker)
        thing = waiting.popleft()
        if waiting:
            self._waiting[asker] = waiting  # behind the others that have used as much
        self._holding[asker] = self._holding.get(asker, 0) + 1
        self._reach(asker, asker.group)
        self._reach(asker.group, None)
        return asker, thing

    def give_back(self, asker: Asker, used: float) -> None:
        """The place is free again, and the asker has used so much."""
        self._holding[asker] -= 1
        if not self._holding[asker]:
            del self._holding[asker]
        for key in (asker, asker.group):
            self._used[key] = self._used.pop(key, 0.0) + used
        self._forget()

    def withdraw(self, asker: Asker, thing: Thing) -> bool:
        """Whether the thing waited; it does not any more."""
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
        """Those that are too many to remember, of whom nobody has heard for longest."""
        idle = [key for key in self._used if key not in needed] if len(self._used) > REMEMBERED else []
        yield from idle[: max(0, len(self._used) - REMEMBERED)]
