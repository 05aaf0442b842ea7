"""Conditions and nominations of pods, written behind the decisions.

Deciding does not wait for the API server to take note that a pod fits nowhere. Each pod has one write at most under way and one waiting,
the newest; what would say the same again is not written. A pod about to be bound first waits for the write under way, so that an old
"Unschedulable" never comes after the binding.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from wharfinger.framework.ports import Condition, Leadership, Observer, PodWriter, WriteFailed
from wharfinger.model.pod import PodView


@dataclass(frozen=True, slots=True)
class Write:
    """What is to be said of a pod."""

    pod: PodView
    condition: Condition | None
    nominated_node: str | None


class StatusWrites:
    """Writes at most `most` statuses at a time."""

    def __init__(self, writer: PodWriter, leadership: Leadership, observer: Observer, most: int = 32) -> None:
        self._writer = writer
        self._leadership = leadership
        self._observer = observer
        self._most = most
        self._waiting: dict[str, Write] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._said: dict[str, tuple[Condition | None, str]] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def say(self, pod: PodView, condition: Condition | None, nominated_node: str | None = None) -> bool:
        """Whether there was anything new to write: a condition (None: as it is) and a nominated node (None: as it is)."""
        said, nominated = self._said.get(pod.uid) or (_standing(pod), pod.nominated_node)
        wanted = condition or said, nominated if nominated_node is None else nominated_node
        if wanted == (said, nominated):
            return False
        self._said[pod.uid] = wanted
        before = self._waiting.get(pod.uid)
        if before is not None:
            condition = condition or before.condition
            nominated_node = before.nominated_node if nominated_node is None else nominated_node
        self._waiting[pod.uid] = Write(pod, condition, nominated_node)
        self._start()
        return True

    def forget(self, uid: str) -> None:
        """Say nothing more about a pod that is bound or gone; what is under way is not stopped."""
        self._waiting.pop(uid, None)
        self._said.pop(uid, None)

    async def settled(self, uid: str) -> None:
        """None, once nothing is being written about a pod; what was waiting to be is dropped."""
        self._waiting.pop(uid, None)
        task = self._under_way.get(uid)
        if task is not None:
            self._said.pop(uid, None)
            await asyncio.wait({task})

    async def drain(self) -> None:
        """None, when all is written."""
        while self._under_way:
            await asyncio.wait(set(self._under_way.values()))

    def cancel(self) -> None:
        """Stop writing."""
        self._waiting.clear()
        for task in self._under_way.values():
            task.cancel()

    def _start(self) -> None:
        while len(self._under_way) < self._most:
            uid = next((uid for uid in self._waiting if uid not in self._under_way), None)
            if uid is None:
                return
            self._under_way[uid] = asyncio.ensure_future(self._write(uid, self._waiting.pop(uid)))

    async def _write(self, uid: str, write: Write) -> None:
        try:
            if self._leadership.is_leader:
                await self._writer.patch_status(write.pod, condition=write.condition, nominated_node=write.nominated_node)
        except WriteFailed as error:
            self._said.pop(uid, None)  # so that it is said again after the next attempt
            if not error.gone:
                self._observer.failed(f"status of pod {write.pod.key}", error)
        finally:
            del self._under_way[uid]
            self._start()


def _standing(pod: PodView) -> Condition | None:
    """The condition that the pod has already."""
    for condition in pod.object.status.conditions:
        if condition.type == "PodScheduled":
            return Condition(type=condition.type, status=condition.status, reason=condition.reason, message=condition.message)
    return None
