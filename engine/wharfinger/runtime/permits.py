"""Permit: placements that wait for something before they are bound, such as the rest of their group.

Whenever a placement comes or goes, all that wait are asked about again at once, so that those of a group see each other: whoever completes
the group is still among them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from wharfinger.framework.extension import PermitPlugin, Placement
from wharfinger.framework.ports import Clock
from wharfinger.framework.verdict import Reason
from wharfinger.runtime.waiting import until


@dataclass(slots=True, eq=False)
class _Question:
    """A placement that waits for one plugin's answer."""

    placement: Placement
    plugin: PermitPlugin
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: Reason | None = None
    error: Exception | None = None
    wait_seconds: float = 0.0


class Permits:
    """The placements that plugins are asked about, each until its binding cycle ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, Placement] = {}
        self._questions: dict[str, _Question] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    async def ask(self, placement: Placement, plugins: tuple[PermitPlugin, ...]) -> tuple[PermitPlugin, Reason] | None:
        """None once every plugin has approved; otherwise who did not, and why."""
        self._waiting[placement.pod.uid] = placement
        for plugin in plugins:
            refusal = await self._answer(_Question(placement, plugin))
            if refusal is not None:
                return plugin, refusal
        return None

    def reject(self, uid: str, reason: Reason) -> bool:
        """Whether a placement was waiting for an answer, which is no."""
        question = self._questions.get(uid)
        if question is None or question.answered.is_set():
            return False
        question.refusal = reason
        question.answered.set()
        return True

    def end(self, uid: str) -> None:
        """The placement's binding cycle has ended, one way or the other."""
        if self._waiting.pop(uid, None) is not None:
            self._ask_all()

    async def _answer(self, question: _Question) -> Reason | None:
        uid = question.placement.pod.uid
        self._questions[uid] = question
        try:
            self._ask_all()
            if not await until(question.answered, self._clock, question.wait_seconds):
                name, plugin = question.placement.pod.name, question.plugin.name
                return Reason(f'pod "{name}" rejected due to timeout after waiting at plugin "{plugin}"')
        finally:
            del self._questions[uid]
        if question.error is not None:
            raise question.error
        return question.refusal

    def _ask_all(self) -> None:
        for question in list(self._questions.values()):
            if not question.answered.is_set():
                self._ask(question)

    def _ask(self, question: _Question) -> None:
        others = [other for other in self._waiting.values() if other is not question.placement]
        try:
            permission = question.plugin.permit(question.placement, others)
            question.wait_seconds = float(permission.wait_seconds)
        except Exception as error:  # noqa: BLE001 — raised again where the placement is being bound, not where another one is
            question.error = error
            question.answered.set()
            return
        if permission.approved or permission.reason is not None:
            question.refusal = permission.reason
            question.answered.set()
