"""Events of `events.k8s.io/v1`, written in the background at a low priority.

Recording only takes a place in a bounded queue. An event costs the API server as much as a binding, so while bindings are in flight few
are written at a time: one at first, and more the longer the oldest has waited. Most events of a burst follow its last binding.

An event that happens once to an object is named after the object's uid. The next leader can record it again after this process was killed:
the API server refuses it if it exists.

Leadership is not checked before an event is sent, as it is before all other writes: the event is about what this process decided or did
while it led, which stays true, and nothing acts upon it.

Repetitions (the same type, reason and action about the same pod) become a series. Its count is patched at the first repetition and then at
most every few minutes, as client-go's recorder does (tools/events/event_broadcaster.go, Kubernetes 1.36). The note stays that of the first
event, because the API server does not allow changes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wharfinger.emit import Emit, Failed
from wharfinger.event_loop import LATE_AFTER, writers_behind_bindings
from wharfinger.framework.ports import WARNING, Clock, Event, Reference, pod_reference
from wharfinger.kube import api_errors
from wharfinger.kube.api_errors import RequestBackoff
from wharfinger.kube.connection import MERGE_PATCH, Connection
from wharfinger.model.objects.metadata import micro_time
from wharfinger.model.objects.pod_view import PodView

_MAX_NOTE_LENGTH = 1024


class Series(Struct, kw_only=True):
    """An event to be written, and how often it has happened. Thousands may wait, so the API object is made only when it is written."""

    namespace: str
    name: str
    event_time: float
    about: Reference
    event: Event
    reporter: str
    queued_at: float = 0.0
    count: int = 1
    written_count: int = 0
    written_at: float = 0.0
    queued: bool = True

    def body(self, instance: str) -> dict[str, Any]:
        """The Event of its first occurrence."""
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": micro_time(self.event_time),
            "reportingInstance": instance[:128],
            "regarding": _reference(self.about),
            "reportingController": self.reporter,
            "type": self.event.type,
            "reason": self.event.reason,
            "action": self.event.action,
            "note": self.event.note,
        }
        if self.event.related is not None:
            body["related"] = _reference(self.event.related)
        return body


def cut(note: str) -> str:
    """A note of at most 1,024 bytes (truncateMessage, pkg/scheduler/schedule_one.go, Kubernetes 1.36)."""
    raw = note.encode()
    return note if len(raw) <= _MAX_NOTE_LENGTH else raw[: _MAX_NOTE_LENGTH - 4].decode(errors="ignore") + " ..."


def _reference(reference: Reference) -> dict[str, str]:
    fields = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "namespace": reference.namespace,
        "uid": reference.uid,
    }
    return {name: value for name, value in fields.items() if value}


_ATTEMPTS = 3
_POLL = 0.05  # seconds between checks whether more may be written


class EventSettings(Struct, frozen=True, kw_only=True):
    """The default reporter, how many events may wait, how many are written at a time, and how often a series is written.

    `series_interval` is in seconds. While bindings are in flight, one writer runs at first. Their number grows with the wait of the oldest
    event: to `writers` after `LATE_AFTER` seconds, and to `max_writers` at most.
    """

    controller: str
    instance: str
    max_waiting: int = 50_000
    max_series: int = 4096
    writers: int = 12
    max_writers: int = 48
    series_interval: float = 360.0


class EventRecorder:
    """An EventSink; `run` writes. `busy` is true while something more urgent is being written."""

    def __init__(
        self, connection: Connection, settings: EventSettings, clock: Clock, emit: Emit, busy: Callable[[], bool] = lambda: False
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._busy = busy
        self._waiting: deque[Series] = deque()
        self._warnings: deque[Series] = deque()
        self._series: OrderedDict[tuple[str, ...], Series] = OrderedDict()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writers = 0
        self._writing = 0
        self._draining = False
        self.dropped = 0

    def record(self, regarding: PodView, event: Event) -> None:
        """Queue an event; count it in `dropped` if too many wait."""
        self._record(pod_reference(regarding), event, event.reporter or regarding.object.spec.scheduler_name)

    def record_about(self, about: Reference, event: Event, *, distinct: str = "") -> None:
        """Queue an event about any object. Events with different `distinct` are not repetitions, even if all else is equal."""
        self._record(about, event, event.reporter, distinct)

    def _record(self, about: Reference, event: Event, reporter: str, distinct: str = "") -> None:
        place = about.uid or f"{about.kind}/{about.namespace}/{about.name}"
        key = (place, event.type, event.reason, event.action, event.related.name if event.related else "", distinct)
        known = self._series.get(key)
        if known is not None:
            self._series.move_to_end(key)
            if not event.once:
                self._repeat(known)
            return
        note = cut(event.note)
        short = event if note is event.note else replace(event, note=note)
        series = self._new(about, short, reporter or self._settings.controller)
        if self._enqueue(series):
            self._series[key] = series
            if len(self._series) > self._settings.max_series:
                self._series.popitem(last=False)

    @property
    def n_waiting(self) -> int:
        """The number of events that wait to be written."""
        return len(self._waiting) + len(self._warnings)

    @property
    def oldest(self) -> float:
        """The seconds that the oldest waiting event has waited; 0 when none waits."""
        since = [queue[0].queued_at for queue in (self._warnings, self._waiting) if queue]
        return max(0.0, self._clock.monotonic() - min(since)) if since else 0.0

    async def run(self) -> None:
        """Write the recorded events; never returns."""
        async with asyncio.TaskGroup() as writers:
            while True:
                await self._work.wait()
                if not self.n_waiting:
                    self._work.clear()
                    continue
                for _ in range(self._writers, min(self._parallel_writes(), self._writers + self.n_waiting)):
                    self._writers += 1
                    writers.create_task(self._write_in_parallel(), name="events")
                await self._clock.sleep(_POLL)

    async def drain(self) -> None:
        """Wait until everything recorded so far is written or dropped; `run` must be running."""
        self._draining = True
        try:
            await self._idle.wait()
        finally:
            self._draining = False

    def _new(self, about: Reference, event: Event, reporter: str) -> Series:
        now = self._clock.now()
        suffix = f"{about.uid}.{event.reason.lower()}" if event.once and about.uid else f"{int(now * 1e9):x}{self.n_waiting:x}"
        name = f"{about.name[:200]}.{suffix}"
        namespace = about.namespace or "default"
        return Series(namespace=namespace, name=name, event_time=now, about=about, event=event, reporter=reporter)

    def _repeat(self, series: Series) -> None:
        series.count += 1
        due = self._clock.monotonic() - series.written_at >= self._settings.series_interval
        if not series.queued and (series.written_count <= 1 or due):
            self._enqueue(series)

    def _enqueue(self, series: Series) -> bool:
        if self.n_waiting >= self._settings.max_waiting:
            self.dropped += 1
            return False
        series.queued = True
        series.queued_at = self._clock.monotonic()
        (self._warnings if series.event.type == WARNING else self._waiting).append(series)
        self._work.set()
        self._idle.clear()
        return True

    async def _write_in_parallel(self) -> None:
        try:
            while self.n_waiting and self._writers <= self._parallel_writes():
                await self._write_next()
        finally:
            self._writers -= 1

    def _parallel_writes(self) -> int:
        """The number of events to write at a time: one while bindings are in flight, more the longer the oldest has waited."""
        settings = self._settings
        if self._draining or not self._busy():
            return settings.writers
        return writers_behind_bindings(self.oldest, settings.writers, settings.max_writers)

    def _next(self) -> Series:
        """The next event: warnings first, unless another one has waited too long."""
        if self._warnings and self._waiting:
            first, other = self._warnings[0], self._waiting[0]
            overdue = self._clock.monotonic() - other.queued_at >= LATE_AFTER
            return (self._waiting if overdue and other.queued_at < first.queued_at else self._warnings).popleft()
        return (self._warnings or self._waiting).popleft()

    async def _write_next(self) -> None:
        series = self._next()
        self._writing += 1
        try:
            await self._write(series)
        finally:
            self._writing -= 1
            series.queued = False
            if not self.n_waiting and not self._writing:
                self._idle.set()

    async def _write(self, series: Series) -> None:
        waits = RequestBackoff()
        for _ in range(_ATTEMPTS):
            try:
                await self._send(series)
            except (api_errors.TooManyRequests, api_errors.ServerError, api_errors.Unreachable) as error:
                failure: api_errors.ApiError = error
                await self._clock.sleep(waits.after(error))
            except api_errors.NotFound as error:
                if not series.written_count:  # the namespace is deleted
                    failure = error
                    break
                series.written_count = 0  # events expire after an hour; begin a new one
                failure = error
            except api_errors.ApiError as error:
                failure = error
                break
            else:
                return
        self.dropped += 1
        self._emit(Failed("event", failure))

    async def _send(self, series: Series) -> None:
        count = series.count
        path = f"/apis/events.k8s.io/v1/namespaces/{series.namespace}/events"
        last = {"count": count, "lastObservedTime": micro_time(self._clock.now())}
        if series.written_count and count > 1:
            body = msgspec.json.encode({"series": last})
            await self._connection.request("PATCH", f"{path}/{series.name}", body=body, content_type=MERGE_PATCH, urgent=True)
        else:
            first = series.body(self._settings.instance)
            await self._post(path, {**first, "series": last} if count > 1 else first)
        series.written_count, series.written_at = count, self._clock.monotonic()

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        try:
            await self._connection.request("POST", path, body=msgspec.json.encode(body), urgent=True)
        except api_errors.Conflict:
            return  # the previous attempt wrote it and its answer was lost, or a former leader wrote it
