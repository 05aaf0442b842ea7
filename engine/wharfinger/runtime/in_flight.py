"""What has happened while pods were being placed.

A pod that is being placed waits nowhere, so no event can wake it. What happens meanwhile is kept until the attempt ends; if it ends with a
rejection, the pod is held against what it has missed. Binding a volume takes minutes, in which a busy cluster changes a million times: only
the latest changes are kept, and a pod that has missed more than these is tried again whatever they were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from wharfinger.framework.cluster_event import Change

MOST_CHANGES = 4096
"""Changes that are kept: those of seconds in which a thousand pods are placed."""


class InFlight:
    """Pods being placed, by uid in the order in which they were taken, and the changes since the first of them was."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._changes: deque[Change] = deque()
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._since)

    @property
    def n_changes(self) -> int:
        """How many changes are kept."""
        return len(self._changes)

    def begin(self, uid: str) -> None:
        """An attempt at placing the pod begins."""
        self._since[uid] = self._dropped + len(self._changes)

    def happened(self, change: Change) -> None:
        """Keep a change if somebody may have missed it."""
        if self._since:
            self._changes.append(change)
            if len(self._changes) > MOST_CHANGES:
                self._changes.popleft()
                self._dropped += 1

    def has_lost(self, uid: str) -> bool:
        """Whether there were more changes since the attempt began than are kept."""
        return self._since[uid] < self._dropped

    def missed(self, uid: str) -> Iterator[Change]:
        """The changes since the attempt began, as far as they are kept; to be read at once."""
        return islice(self._changes, max(0, self._since[uid] - self._dropped), None)

    def end(self, uid: str) -> None:
        """The attempt has ended; changes that nobody else may have missed are forgotten."""
        del self._since[uid]
        if not self._since:
            self._dropped += len(self._changes)
            self._changes.clear()
            return
        oldest = next(iter(self._since.values()))
        while self._dropped < oldest:
            self._changes.popleft()
            self._dropped += 1
