"""A heap of queued pods from which any can be taken out.

What was taken out, or put in again under another key, leaves a dead entry behind that is skipped when it surfaces; once most entries are
dead the heap is rebuilt, so that it never holds more than twice the pods that are in it.
"""

from __future__ import annotations

import heapq
from typing import Any

from wharfinger.runtime.queued_pod import QueuedPod

_FEW = 64


class ReadyHeap:
    """Pods by key, the smallest first."""

    def __init__(self) -> None:
        self._entries: list[tuple[Any, int, QueuedPod]] = []
        self._live: dict[str, int] = {}  # uid → ticket of the entry that counts
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._live)

    def push(self, queued: QueuedPod, key: Any) -> None:
        """Put a pod in; if it is in already, under this key instead."""
        self._tickets += 1
        self._live[queued.uid] = self._tickets
        heapq.heappush(self._entries, (key, self._tickets, queued))
        if len(self._entries) > 2 * len(self._live) + _FEW:
            self._entries = [entry for entry in self._entries if self._live.get(entry[2].uid) == entry[1]]
            heapq.heapify(self._entries)

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod out that is in."""
        del self._live[queued.uid]

    def first(self) -> QueuedPod | None:
        """The pod with the smallest key, which stays in; None if the heap is empty."""
        entries = self._entries
        while entries:
            _, ticket, queued = entries[0]
            if self._live.get(queued.uid) == ticket:
                return queued
            heapq.heappop(entries)
        return None

    def pop(self) -> QueuedPod | None:
        """The pod with the smallest key, which is taken out; None if the heap is empty."""
        queued = self.first()
        if queued is not None:
            heapq.heappop(self._entries)
            del self._live[queued.uid]
        return queued
