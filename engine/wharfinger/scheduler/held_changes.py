"""Changes of the cluster that wait while a decision is concluded in steps.

Policies that govern a pod may together take longer than one step of the event loop may. Such a decision is made in steps, of which the
results belong together: they are those of one state of the cluster. So watch events and metric samples wait until it is made, and are
applied in the order in which they came. kube-scheduler's decisions are as old: it takes a snapshot before each of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wharfinger.errors import InvalidObject
    from wharfinger.scheduler.event_handlers import EventHandlers
    from wharfinger.scheduler.ports import LiveCluster


class HeldChanges:
    """The `ClusterSink` of the scheduler, which passes changes on to its event handlers, or holds them back.

    While they are held back, the time of `cluster` stands still too. One decision at a time, the `holder`, has them held back.
    """

    def __init__(self, cluster: LiveCluster, handlers: EventHandlers, wake: Callable[[], None]) -> None:
        self._cluster = cluster
        self._handlers = handlers
        self._wake = wake
        self._waiting: deque[Callable[[], object]] = deque()
        self.holder: object | None = None

    def hold(self, holder: object) -> None:
        """Hold changes back until `release` is called by the same holder."""
        if self.holder is None:
            self.holder = holder
            self._cluster.hold_time()

    def release(self, holder: object) -> None:
        """Let changes be applied again; nothing happens if another decision holds them back, or none."""
        if holder is not None and self.holder is holder:
            self.holder = None
            self._cluster.release_time()
            self._wake()

    def apply(self, is_over: Callable[[], bool]) -> bool:
        """Apply changes that wait until `is_over` or none is left; True if some are left that may be applied."""
        while self._waiting and self.holder is None:
            self._waiting.popleft()()
            if is_over():
                break
        return bool(self._waiting) and self.holder is None

    def put(self, change: Callable[[], object]) -> None:
        """Apply a change, or let it wait behind those that came before it."""
        if self._is_blocked:
            self._waiting.append(change)
        else:
            change()

    @property
    def _is_blocked(self) -> bool:
        return self.holder is not None or bool(self._waiting)

    # ── ClusterSink ──

    def upsert(self, kind: str, obj: Any) -> None:
        """Apply an object that was added or changed."""
        self.put(partial(self._handlers.upsert, kind, obj))

    def delete(self, kind: str, obj: Any) -> None:
        """Apply the deletion of an object."""
        self.put(partial(self._handlers.delete, kind, obj))

    def unreadable(self, kind: str, obj: Any, error: InvalidObject, *, listed: bool) -> None:
        """Apply an object that cannot be read."""
        self.put(partial(self._handlers.unreadable, kind, obj, error, listed=listed))

    def synced(self, kind: str) -> None:
        """Mark the kind as synced."""
        self.put(partial(self._handlers.synced, kind))

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Replace all objects of a kind by these."""
        self.put(partial(self._handlers.replace, kind, objs))

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """The steps of `replace`; they do nothing while changes are held back."""
        while self._is_blocked:
            yield
        for _ in self._handlers.replacing(kind, objs):
            yield
            while self.holder is not None:
                yield

    def listing(self, kind: str, objs: Sequence[Any]) -> None:
        """Apply placed pods of a list that is being read."""
        self.put(partial(self._handlers.listing, kind, objs))
