"""Permit: placements that wait for something before they are bound, such as the rest of their group."""

from __future__ import annotations

import asyncio

from wharfinger.framework.extension import PermitPlugin, Placement
from wharfinger.framework.ports import Clock
from wharfinger.framework.verdict import Reason
from wharfinger.runtime.waiting import until


class Permits:
    """The placements that plugins are asked about, each until its binding cycle ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, Placement] = {}
        self._rejected: dict[str, Reason] = {}
        self._changed = asyncio.Event()

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    async def ask(self, placement: Placement, plugins: tuple[PermitPlugin, ...]) -> tuple[PermitPlugin, Reason] | None:
        """None once every plugin has approved; otherwise who did not, and why."""
        self._waiting[placement.pod.uid] = placement
        self._stir()
        for plugin in plugins:
            refusal = await self._ask(placement, plugin)
            if refusal is not None:
                return plugin, refusal
        return None

    def reject(self, uid: str, reason: Reason) -> bool:
        """Whether a placement was waiting, which is refused now."""
        if uid not in self._waiting:
            return False
        self._rejected[uid] = reason
        self._stir()
        return True

    def end(self, uid: str) -> None:
        """The placement's binding cycle has ended, one way or the other."""
        self._rejected.pop(uid, None)
        if self._waiting.pop(uid, None) is not None:
            self._stir()

    async def _ask(self, placement: Placement, plugin: PermitPlugin) -> Reason | None:
        uid = placement.pod.uid
        ends_at: float | None = None
        while uid not in self._rejected:
            others = [other for other in self._waiting.values() if other is not placement]
            permission = plugin.permit(placement, others)
            if permission.reason is not None or permission.approved:
                return permission.reason
            now = self._clock.monotonic()
            ends_at = now + permission.wait_seconds if ends_at is None else ends_at
            if now >= ends_at:
                return Reason(f'pod "{placement.pod.name}" rejected due to timeout after waiting at plugin "{plugin.name}"')
            await until(self._changed, self._clock, ends_at - now)
        return self._rejected[uid]

    def _stir(self) -> None:
        """Let everybody who waits ask again."""
        self._changed.set()
        self._changed = asyncio.Event()
