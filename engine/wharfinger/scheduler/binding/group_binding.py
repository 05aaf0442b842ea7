"""The binding of a group: its members wait for each other between PreBind and Bind.

Permits can take minutes, and so can PreBind, and both can fail. So no member is bound before as many as the group needs may be bound.
Meanwhile nodes may change; a member whose node does not take it any more is not bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

from wharfinger.event_loop import until
from wharfinger.framework.ports import Clock
from wharfinger.language.report.wording import capped, count

MAX_NAMED = 3
"""Members that are named in a message."""
DELETED = "a member was deleted while the group was being bound"
STOPPED = "placing the group was stopped before the bindings of all its members had begun"

T = TypeVar("T")


class PlacementReleased(Exception):
    """Raised for a placement whose group cannot be bound, so that its resources are released."""


class GroupBinding:
    """Members of a group, their names by uid: none is bound before `needed` of them can be; they wait `timeout` seconds at most.

    They are those of one attempt, and those that are placed while these wait. `misfit_reason` returns why one of some members does not fit
    its node any more, "" if all do.

    If a member is deleted or refused, and too few are left, all members that are not bound are released: `release` is called with the uid
    of each member that is not ready, and the reason. Members that are bound stay: they count as placed when the group is tried again.
    """

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        key: str,
        names: Mapping[str, str],
        needed: int,
        timeout: float,
        clock: Clock,
        *,
        release: Callable[[str, str], object],
        misfit_reason: Callable[[Collection[str]], str],
    ) -> None:
        self._key = key
        self._there = dict(names)
        self._ready: set[str] = set()
        self._needed = needed
        self._timeout = timeout
        self._clock = clock
        self._ends_at = clock.monotonic() + timeout
        self._release = release
        self._misfit_reason = misfit_reason
        self._answered = asyncio.Event()
        self._preparing: dict[str, tuple[str, asyncio.Event]] = {}  # the step of each member, and what is set when it ends or must end
        self._misfits: dict[str, str] = {}  # members that came when the others were bound already, and why they are not
        self.failure = ""  # why too few members are left, once they are
        if needed <= 0:
            self._answered.set()

    @property
    def is_open(self) -> bool:
        """True while it is not known whether enough members can be bound."""
        return not self._answered.is_set()

    def join(self, names: Mapping[str, str]) -> None:
        """Add members that are placed while the others wait, their names by uid."""
        self._there.update(names)

    def arrived(self, uid: str) -> bool:
        """True if enough members can be bound, counting this one, or if that has become impossible."""
        late = self._answered.is_set()
        if uid not in self._ready:
            self._ready.add(uid)
            if late:
                if not self.failure and (why := self._misfit_reason((uid,))):
                    self._misfits[uid] = why
            elif len(self._ready) >= self._needed:
                if why := self._misfit_reason(self._ready):
                    self._fail(why)
                self._answered.set()
                return True
        return late

    async def ready(self, uid: str) -> None:
        """Return once enough members can be bound; raises `PlacementReleased` if that has become impossible."""
        self.arrived(uid)
        if not await until(self._answered, self._clock, self._ends_at - self._clock.monotonic()):
            self._fail(self._too_late)
        self.check(uid)

    async def in_time(self, uid: str, step: str, call: Coroutine[Any, Any, T], stuck: Callable[[str], object]) -> T:
        """The result of a step of a member before its binding; `PlacementReleased` if the group cannot be bound, or its time is over.

        The step is cancelled then. While a cancelled step does not end, the member keeps its place; `stuck` is called with the reason.
        """
        running, changed = asyncio.ensure_future(call), asyncio.Event()
        running.add_done_callback(lambda _: changed.set())
        self._preparing[uid] = step, changed
        try:
            await until(changed, self._clock, self._ends_at - self._clock.monotonic())
            if running.done():
                return running.result()
            if self.is_open:
                self._fail(self._too_late)
            why = self.failure or f"{step} has not ended within {count(round(self._timeout), 'second')}"
        finally:
            running.cancel()
            del self._preparing[uid]
        await self._clock.sleep(0)  # for the step to see that it is cancelled
        if not running.done():
            stuck(f"{step} was cancelled and has not ended; the group is tried again after that")
            await asyncio.wait({running})
        self.lost(uid, why)
        raise PlacementReleased(f"group {self._key}: {why}")

    def check(self, uid: str) -> None:
        """Raise `PlacementReleased` if too few members are left, or this one does not fit its node any more."""
        if self.failure:
            raise PlacementReleased(self._message)
        if uid in self._misfits:
            raise PlacementReleased(f"group {self._key}: {self._misfits[uid]}")

    def lost(self, uid: str, why: str) -> None:
        """Remove a member that is not bound in this attempt."""
        self._there.pop(uid, None)
        self._ready.discard(uid)
        if len(self._there) < self._needed:
            self._fail(why)

    def _fail(self, why: str) -> None:
        if not self.failure:
            self.failure = why
            for uid in self._there.keys() - self._ready:
                self._release(uid, self._message)
            for _, changed in self._preparing.values():
                changed.set()
        self._answered.set()

    @property
    def _too_late(self) -> str:
        late = capped(sorted(self._doing(uid) for uid in self._there if uid not in self._ready), MAX_NAMED)
        return f"only {len(self._ready)} of the {self._needed} members that are needed could be bound in time, without {late}"

    def _doing(self, uid: str) -> str:
        """The name of a member, and the step that it has not ended."""
        step = self._preparing.get(uid)
        return self._there[uid] if step is None else f"{self._there[uid]} ({step[0]})"

    @property
    def _message(self) -> str:
        return f"group {self._key}: {self.failure}"
