"""Events of `events.k8s.io/v1`, written when there is time.

Recording costs nothing but a place in a bounded queue. An event costs the API server as much as a binding, so while bindings are under
way only warnings are written, one at a time, and what has waited too long; otherwise several. What repeats (the same type, reason and
action about the same pod) becomes a series, of which the count is patched at the first repetition and then at most every few minutes, as
client-go's recorder does (tools/events/event_broadcaster.go, Kubernetes 1.36); the note stays that of the first, because the API server
lets nobody change it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from wharfinger.framework.ports import WARNING, Clock, Event, Reference, pod_reference
from wharfinger.kube import refusals
from wharfinger.kube.connection import MERGE_PATCH, Connection
from wharfinger.kube.event_series import Series, cut
from wharfinger.kube.waits import Backoff
from wharfinger.model.pod import PodView
from wharfinger.model.timestamps import micro_time

Report = Callable[[str, BaseException], None]

_ATTEMPTS = 3
_POLL = 0.02  # seconds between looks whether the bindings are done


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """Who reports where no profile does, how many events may wait, how many are written at once, and how often a series is written.

    `series_interval` and `patience` are seconds; the latter is how long an event waits for a pause of the bindings.
    """

    controller: str
    instance: str
    most_waiting: int = 50_000
    most_series: int = 4096
    writers: int = 8
    series_interval: float = 360.0
    patience: float = 15.0


class EventRecorder:
    """An EventSink; `run` writes. `busy` says whether something more urgent is being written."""

    def __init__(
        self, connection: Connection, settings: EventSettings, clock: Clock, report: Report, busy: Callable[[], bool] = lambda: False
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._report = report
        self._busy = busy
        self._waiting: deque[Series] = deque()
        self._warnings: deque[Series] = deque()
        self._series: OrderedDict[tuple[str, ...], Series] = OrderedDict()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing = 0
        self._draining = False
        self.dropped = 0

    def record(self, regarding: PodView, event: Event) -> None:
        """None, at once; counted in `dropped` when too many wait."""
        reporter = event.reporter or regarding.object.spec.scheduler_name
        self.record_about(pod_reference(regarding), replace(event, reporter=reporter))

    def record_about(self, about: Reference, event: Event, *, distinct: str = "") -> None:
        """None, at once: the same about any object. Events of another `distinct` are no repetitions, though all else is alike."""
        place = about.uid or f"{about.kind}/{about.namespace}/{about.name}"
        key = (place, event.type, event.reason, event.action, event.related.name if event.related else "", distinct)
        known = self._series.get(key)
        if known is not None:
            self._series.move_to_end(key)
            self._repeat(known)
            return
        series = self._new(about, replace(event, reporter=event.reporter or self._settings.controller, note=cut(event.note)))
        if self._enqueue(series):
            self._series[key] = series
            if len(self._series) > self._settings.most_series:
                self._series.popitem(last=False)

    @property
    def n_waiting(self) -> int:
        """How many events wait to be written."""
        return len(self._waiting) + len(self._warnings)

    async def run(self) -> None:
        """None, when cancelled: writes what is recorded."""
        async with asyncio.TaskGroup() as writers:
            for index in range(self._settings.writers):
                writers.create_task(self._write_forever(first=index == 0), name=f"events {index}")

    async def drain(self) -> None:
        """None, once everything recorded so far is written or given up; needs `run` to be running."""
        self._draining = True
        try:
            await self._idle.wait()
        finally:
            self._draining = False

    def _new(self, about: Reference, event: Event) -> Series:
        now = self._clock.now()
        name = f"{about.name[:200]}.{int(now * 1e9):x}{self.n_waiting:x}"
        namespace = about.namespace or "default"
        return Series(namespace=namespace, name=name, event_time=now, about=about, event=event)

    def _repeat(self, series: Series) -> None:
        series.count += 1
        due = self._clock.monotonic() - series.written_at >= self._settings.series_interval
        if not series.queued and (series.written_count <= 1 or due):
            self._enqueue(series)

    def _enqueue(self, series: Series) -> bool:
        if self.n_waiting >= self._settings.most_waiting:
            self.dropped += 1
            return False
        series.queued = True
        series.queued_at = self._clock.monotonic()
        (self._warnings if series.event.type == WARNING else self._waiting).append(series)
        self._work.set()
        self._idle.clear()
        return True

    async def _write_forever(self, *, first: bool) -> None:
        while True:
            await self._work.wait()
            if not self._draining and self._busy() and not (first and self._is_pressing()):
                await self._clock.sleep(_POLL)
                continue
            if not self.n_waiting:
                self._work.clear()
                continue
            await self._write_next()

    def _is_pressing(self) -> bool:
        """Whether an event should be written between bindings."""
        if self._warnings:
            return True
        return bool(self._waiting) and self._clock.monotonic() - self._waiting[0].queued_at >= self._settings.patience

    async def _write_next(self) -> None:
        series = (self._warnings or self._waiting).popleft()
        self._writing += 1
        try:
            await self._write(series)
        finally:
            self._writing -= 1
            series.queued = False
            if not self.n_waiting and not self._writing:
                self._idle.set()

    async def _write(self, series: Series) -> None:
        waits = Backoff()
        for _ in range(_ATTEMPTS):
            try:
                await self._send(series)
            except (refusals.TooManyRequests, refusals.ServerError, refusals.Unreachable) as error:
                failure: refusals.ApiError = error
                await self._clock.sleep(waits.after(error))
            except refusals.NotFound as error:
                if not series.written_count:  # the namespace is gone, and whoever might have asked with it
                    failure = error
                    break
                series.written_count = 0  # events expire after an hour; begin a new one
                failure = error
            except refusals.ApiError as error:
                failure = error
                break
            else:
                return
        self.dropped += 1
        self._report("event", failure)

    async def _send(self, series: Series) -> None:
        count = series.count
        path = f"/apis/events.k8s.io/v1/namespaces/{series.namespace}/events"
        last = {"count": count, "lastObservedTime": micro_time(self._clock.now())}
        if series.written_count and count > 1:
            body = msgspec.json.encode({"series": last})
            await self._connection.request("PATCH", f"{path}/{series.name}", body=body, content_type=MERGE_PATCH)
        else:
            first = series.body(self._settings.instance)
            await self._post(path, {**first, "series": last} if count > 1 else first)
        series.written_count, series.written_at = count, self._clock.monotonic()

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        try:
            await self._connection.request("POST", path, body=msgspec.json.encode(body))
        except refusals.Conflict:
            return  # written by the attempt before, whose answer was lost
