"""What happens to a pod that an attempt did not place: it waits again, and is told why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.runtime import wording
from wharfinger.runtime.world import NOT_DECIDED, Decided, World, attempt

if TYPE_CHECKING:
    from wharfinger.errors import PluginFault
    from wharfinger.framework.extension import Plugin
    from wharfinger.model.pod import PodView
    from wharfinger.runtime.queue import SchedulingQueue
    from wharfinger.runtime.queued_pod import QueuedPod
    from wharfinger.runtime.status_writes import StatusWrites


class Failures:
    """Requeues, conditions and events of failed attempts."""

    def __init__(self, world: World, queue: SchedulingQueue, writes: StatusWrites) -> None:
        self._ports = world.ports
        self._queue = queue
        self._writes = writes

    def unschedulable(
        self, queued: QueuedPod, rejectors: frozenset[Plugin], decided: Decided, *, message: str = "", nominated: str | None = None
    ) -> None:
        """The pod waits for an event that may help it. `nominated`: the node to write into its status ("" for none, None as it is)."""
        self._queue.reject(queued, rejectors)
        message = message or decided.message
        self._tell(queued, result="unschedulable", reason=wording.UNSCHEDULABLE, decided=decided, message=message, nominated=nominated)

    def error(self, queued: QueuedPod, error: BaseException, decided: Decided = NOT_DECIDED) -> None:
        """The pod is tried again after the error backoff."""
        self._ports.observer.failed(f"pod {queued.pod.key}", error)
        self._queue.fail(queued)
        message = str(error) or type(error).__name__
        self._tell(queued, result="error", reason=wording.SCHEDULER_ERROR, decided=decided, message=message)

    def gate_failed(self, queued: QueuedPod, fault: PluginFault) -> None:
        """The pod waits because a plugin failed to say whether it may be tried; it is asked about again after the error backoff."""
        self._ports.observer.failed(f"pod {queued.pod.key}", fault)
        if self._ports.leadership.is_leader:
            self._say(queued.pod, wording.SCHEDULER_ERROR, str(fault), None)

    def vanished(self, queued: QueuedPod, error: BaseException, decided: Decided) -> None:
        """The pod is said to be gone. Nobody is told; should the watch never say so, the pod is tried again after the error backoff."""
        self._ports.observer.failed(f"pod {queued.pod.key}", error)
        self._queue.fail(queued)
        self._ports.observer.attempted(attempt(queued, "error", self._ports.clock.monotonic(), decided, str(error)))

    def unreadable(self, pod: PodView, error: BaseException) -> None:
        """The pod is not even queued; when it can be read it will be."""
        if self._ports.leadership.is_leader:
            self._say(pod, wording.SCHEDULER_ERROR, f"the pod cannot be read: {error}", None)

    def _say(self, pod: PodView, reason: str, message: str, nominated: str | None) -> None:
        self._writes.say(pod, wording.unscheduled(reason, message), nominated)
        self._ports.events.record(pod, wording.failed_scheduling(message))

    def _tell(  # noqa: PLR0913 — the pod, and what is said of it in three places
        self, queued: QueuedPod, *, result: str, reason: str, decided: Decided, message: str, nominated: str | None = None
    ) -> None:
        if queued.uid in self._queue:  # else it has gone meanwhile, or somebody else has bound it
            self._say(queued.pod, reason, message, nominated)
        self._ports.observer.attempted(attempt(queued, result, self._ports.clock.monotonic(), decided, message))
