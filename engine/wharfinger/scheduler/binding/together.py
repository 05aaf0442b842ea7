"""The binding of a group: no member is bound before as many as the group needs may be bound.

Permit and PreBind can take minutes and can fail. So the members of an attempt wait for each other between PreBind and Bind. If a member
falls out, deleted or refused, and the others are too few without it, all that are not bound are given back. Members that are bound stay:
they count as placed when the group is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from wharfinger.event_loop import until
from wharfinger.framework.ports import Clock

DELETED = "a member was deleted while the group was being bound"
STOPPED = "placing the group was stopped before the bindings of all its members had begun"


class GivenBack(Exception):
    """A placement is given back, because its group cannot be bound with it."""


class BindTogether:
    """Members of one attempt, by uid: none is bound before `needed` of them may be, for which each waits `timeout` seconds at most.

    `refuse` is called with the uid of each member that is not ready, and the reason, when too few are left.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — what holds for the attempt
        self, key: str, uids: Iterable[str], needed: int, timeout: float, clock: Clock, refuse: Callable[[str, str], object]
    ) -> None:
        self._key = key
        self._there = set(uids)
        self._ready: set[str] = set()
        self._needed = needed
        self._clock = clock
        self._ends_at = clock.monotonic() + timeout
        self._refuse = refuse
        self._answered = asyncio.Event()
        self.failure = ""  # why too few members are left, once they are
        if needed <= 0:
            self._answered.set()

    def arrived(self, uid: str) -> bool:
        """True if enough members may be bound, with this one, or that cannot be any more."""
        self._ready.add(uid)
        if len(self._ready) >= self._needed:
            self._answered.set()
        return self._answered.is_set()

    async def ready(self, uid: str) -> None:
        """Return once enough members may be bound; `GivenBack` if that cannot be any more."""
        self.arrived(uid)
        if not await until(self._answered, self._clock, self._ends_at - self._clock.monotonic()):
            self._fail(f"only {len(self._ready)} of the {self._needed} members that are needed could be bound in time")
        self.check()

    def check(self) -> None:
        """Raise `GivenBack` if too few members are left."""
        if self.failure:
            raise GivenBack(self._message)

    def lost(self, uid: str, why: str) -> None:
        """Note that a member is not bound in this attempt."""
        self._there.discard(uid)
        self._ready.discard(uid)
        if len(self._there) < self._needed:
            self._fail(why)

    def _fail(self, why: str) -> None:
        if not self.failure:
            self.failure = why
            for uid in self._there - self._ready:
                self._refuse(uid, self._message)
        self._answered.set()

    @property
    def _message(self) -> str:
        return f"group {self._key}: {self.failure}"
