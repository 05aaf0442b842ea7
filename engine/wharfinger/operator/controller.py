"""Controllers: the objects that they know, work queues of keys, and workers that reconcile the objects of the keys.

Only the leader's workers work. A failed key is requeued with exponential backoff and does not delay the others. The queue follows
client-go's workqueue (util/workqueue/queue.go, Kubernetes 1.36): a key that is added while it waits occurs once; one that is added
while a worker has it is queued again when the worker is done. So no two workers have the same key, and no change is missed. Keys of objects
that have changed, or failed, are taken before keys that are only requeued after an interval, as in controller-runtime's priorityqueue.

          add                    get                     done
    (absent) ──▶ waiting (dirty) ──▶ being worked on ──▶ (absent)
                     ▲                   │ add: dirty again
                     └──────── done ─────┘

The conditions of a status are built here too; each keeps the time of its last transition.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct
from pydantic import ValidationError

from wharfinger.crd import APP_LABEL
from wharfinger.crd.models import Condition
from wharfinger.emit import Emit, Failed, ignore
from wharfinger.errors import InvalidObject, on_one_line
from wharfinger.event_loop import until
from wharfinger.framework.ports import Clock, Leadership, WriteFailed
from wharfinger.kube import api_errors
from wharfinger.model.objects.metadata import ObjectMeta, time_text

_POLL_SECONDS = 0.25  # seconds between two checks whether this process leads
_EXPECTED = (api_errors.Conflict, api_errors.NotFound, api_errors.TooManyRequests)
"""Expected errors: another writer was first, or the object is deleted. The next attempt sees the new state."""

CHANGED_IN_A_ROW = 4
"""The maximum number of keys of changed objects that are taken in a row while a requeued key waits."""

OBJECTS_PER_STEP = 500
"""Pods of a list that are looked at in one step: below a millisecond."""

_MAX_MESSAGE_LENGTH = 4000
_MAX_SUMMARY_LENGTH = 160


Changed = Callable[[Any], None]


class KeyAdded(Struct, frozen=True):
    """A key was added to a work queue."""

    queue: str


class KeyTaken(Struct, frozen=True):
    """A key was taken from a work queue after it had waited for `seconds`."""

    queue: str
    waited: float


class KeyRetried(Struct, frozen=True):
    """A key is requeued after a failure."""

    queue: str


class Reconciled(Struct, frozen=True):
    """A reconcile took so long and ended in `success`, `requeue`, `conflict` or `error`."""

    controller: str
    result: str
    seconds: float


class RetryLimits(Struct, frozen=True, kw_only=True):
    """The first and the longest wait after failures, in seconds; the first is that of client-go."""

    first: float = 0.005
    longest: float = 60.0


class WorkQueue:
    """A queue on one event loop. After `stop`, `get` returns None, so each worker ends when its key is done."""

    def __init__(self, name: str, clock: Clock, emit: Emit = ignore, limits: RetryLimits | None = None) -> None:
        self.name = name
        self._clock = clock
        self._emit = emit
        self._limits = limits or RetryLimits()
        self._waiting: OrderedDict[str, float] = OrderedDict()  # in order of arrival, with the time of it
        self._requeued: OrderedDict[str, float] = OrderedDict()  # the same for keys that are requeued after an interval
        self._in_a_row = 0
        self._working: set[str] = set()
        self._dirty: set[str] = set()  # added while being worked on
        self._failures: dict[str, int] = {}
        self._later: list[tuple[float, int, str]] = []
        self._due: dict[str, tuple[float, bool]] = {}  # the time, and whether the key is only requeued
        self._order = itertools.count()
        self._changed = asyncio.Event()
        self._stopped = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._requeued)

    @property
    def idle(self) -> bool:
        """True if no key waits or is worked on; keys that are due later do not count."""
        return not (self._waiting or self._requeued or self._working)

    def add(self, key: str) -> None:
        """Add the key, unless it waits already."""
        self._add(key, self._waiting)

    def _add(self, key: str, among: OrderedDict[str, float]) -> None:
        if self._stopped or key in self._waiting or key in self._dirty or key in among:
            return
        if key in self._working:
            self._dirty.add(key)
        else:
            among[key] = self._requeued.pop(key, self._clock.monotonic())
            self._changed.set()
        self._emit(KeyAdded(self.name))

    def add_after(self, key: str, seconds: float, *, requeued: bool = False) -> None:
        """Add the key after a delay in seconds, or at an earlier time set before. With `requeued`, changed keys go first."""
        due = self._clock.monotonic() + seconds
        if seconds <= 0:
            self._add(key, self._requeued if requeued else self._waiting)
        elif not self._stopped and due < self._due.get(key, (math.inf,))[0]:
            self._due[key] = due, requeued
            heapq.heappush(self._later, (due, next(self._order), key))
            self._changed.set()

    def retry(self, key: str, at_least: float = 0.0) -> float:
        """Requeue the key after a failure; return the seconds until then, `at_least` so many. Each failure in a row doubles them."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = max(at_least, min(self._limits.first * 2.0 ** min(failures, 60), self._limits.longest))
        self._emit(KeyRetried(self.name))
        self.add_after(key, wait)
        return wait

    def forget(self, key: str) -> None:
        """Forget the failures of the key."""
        self._failures.pop(key, None)

    async def get(self) -> str | None:
        """A key to work on, for which `done` is to be called; None after `stop`."""
        while True:
            self._add_due()
            if self._stopped:
                return None
            if self._waiting or self._requeued:
                key, since = self._next().popitem(last=False)
                self._working.add(key)
                self._emit(KeyTaken(self.name, self._clock.monotonic() - since))
                return key
            await self._changed_or(self._later[0][0] if self._later else None)

    def _next(self) -> OrderedDict[str, float]:
        """The keys of which the next is taken; some wait."""
        if self._waiting and (not self._requeued or self._in_a_row < CHANGED_IN_A_ROW):
            self._in_a_row += 1
            return self._waiting
        self._in_a_row = 0
        return self._requeued

    def done(self, key: str) -> None:
        """Mark the key as done; it waits again if it was added meanwhile."""
        self._working.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            if not self._stopped:
                self._waiting[key] = self._clock.monotonic()
        self._changed.set()

    def stop(self) -> None:
        """Accept and return no more keys; those that wait are dropped."""
        self._stopped = True
        self._waiting.clear()
        self._requeued.clear()
        self._changed.set()

    async def drained(self) -> None:
        """Wait until no key is being worked on."""
        while self._working:
            await self._changed_or(None)

    def _add_due(self) -> None:
        now = self._clock.monotonic()
        while self._later and self._later[0][0] <= now:
            due, _, key = heapq.heappop(self._later)
            known, requeued = self._due.get(key, (math.inf, False))
            if known == due:
                del self._due[key]
                self._add(key, self._requeued if requeued else self._waiting)

    async def _changed_or(self, moment: float | None) -> None:
        """Wait until a key was added or finished, or the moment has come."""
        self._changed.clear()
        if moment is None:
            await self._changed.wait()
            return
        await until(self._changed, self._clock, moment - self._clock.monotonic())


class Postponed(float):
    """Seconds until the next reconcile of an object for which nothing was tried: it is no success, so former failures still count."""


class Reconciler(Protocol):
    """Brings one object to its desired state. It is idempotent."""

    async def reconcile(self, key: str) -> float | None:
        """Seconds until the next reconcile even if nothing changes; None for no such reconcile."""


class Controller:
    """A queue, and the workers on it."""

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        name: str,
        reconciler: Reconciler,
        known: Callable[[], Iterable[str]],
        *,
        clock: Clock,
        leadership: Leadership,
        emit: Emit,
        workers: int = 2,
    ) -> None:
        self.name = name
        self._reconciler = reconciler
        self._known = known
        self._clock = clock
        self._leadership = leadership
        self._emit = emit
        self._workers = workers
        self.has_skipped = False
        """True if a key was dropped since the last `resume`, because this process did not lead."""
        self.queue = WorkQueue(name, clock, emit)

    async def run(self) -> None:
        """Work while this process leads, until `stop` and the end of work in progress."""
        async with asyncio.TaskGroup() as group:
            for index in range(self._workers):
                group.create_task(self._work(), name=f"{self.name} {index}")

    def resume(self) -> None:
        """Add every known object, as a new leader does."""
        self.has_skipped = False
        for key in self._known():
            self.queue.add(key)

    def stop(self) -> None:
        """Begin no more work; work in progress is finished."""
        self.queue.stop()

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            try:
                if self._leadership.is_leader:
                    await self._reconcile(key)
                else:
                    self.has_skipped = True
            finally:
                self.queue.done(key)
            await self._clock.sleep(0)  # many keys that have nothing to wait for are no single step of the event loop

    async def _reconcile(self, key: str) -> None:
        began = self._clock.monotonic()
        try:
            again = await self._reconciler.reconcile(key)
        except Exception as error:  # noqa: BLE001 — an error of one object must not stop the others
            expected = isinstance(error, (*_EXPECTED, WriteFailed))
            result = "conflict" if expected else "error"
            if not expected:
                self._emit(Failed(f"reconciling {self.name} {key}", error))
            self.queue.retry(key, at_least=api_errors.asked_wait(error))
        else:
            result = "success" if again is None else "requeue"
            if not isinstance(again, Postponed):
                self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again, requeued=True)
        self._emit(Reconciled(self.name, result, self._clock.monotonic() - began))


async def run_all(controllers: Iterable[Controller], clock: Clock, leadership: Leadership) -> None:
    """Run until cancelled or all controllers have stopped; every object is reconciled each time this process begins to lead."""
    controllers = tuple(controllers)
    async with asyncio.TaskGroup() as group:
        resuming = group.create_task(_resume_as_leader(controllers, clock, leadership))
        await asyncio.gather(*(group.create_task(controller.run(), name=controller.name) for controller in controllers))
        resuming.cancel()


async def _resume_as_leader(controllers: Iterable[Controller], clock: Clock, leadership: Leadership) -> None:
    led = False
    while True:
        leads = leadership.is_leader
        for controller in controllers if leads else ():
            if not led or controller.has_skipped:  # the lease may have been lost and renewed between two looks
                controller.resume()
        led = leads
        await clock.sleep(_POLL_SECONDS)


def condition(kind: str, holds: bool | None, reason: str, message: str = "") -> Condition:
    """A condition without its times; `holds` None is the status Unknown."""
    status = {True: "True", False: "False", None: "Unknown"}[holds]
    return Condition.model_validate({"type": kind, "status": status, "reason": reason, "message": cut(message, _MAX_MESSAGE_LENGTH)})


def ready(holds: bool | None, reason: str, message: str = "") -> Condition:
    """The condition `Ready`, with the most important message in one short line; kubectl shows its reason and message."""
    lines = message.splitlines()
    return condition("Ready", holds, reason, cut(lines[0], _MAX_SUMMARY_LENGTH) if lines else "")


def with_transition_times(wanted: Sequence[Condition], before: Mapping[str, Any], generation: int, now: float) -> list[dict[str, Any]]:
    """The conditions as they are written: each keeps the time of its last transition while its status stays the same."""
    known = {each["type"]: each for each in conditions_in(before)}
    written = []
    for each in wanted:
        old = known.get(each.type, {})
        since = old.get("lastTransitionTime") if old.get("status") == each.status else None
        readable = seconds_of(since) is not None
        written.append({**each.plain(), "observedGeneration": generation, "lastTransitionTime": since if readable else time_text(now)})
    return written


def invalid_field(error: ValidationError) -> str:
    """The first field of a spec that cannot be read, and why. The field may be a key that a user has chosen."""
    first = error.errors()[0]
    return f"spec.{on_one_line('.'.join(map(str, first['loc'])), _MAX_SUMMARY_LENGTH)}: {first['msg']}"


def conditions_in(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The conditions in a status. What is no condition is left out: the status may be that of another version of the definition."""
    found = status.get("conditions")
    each_of = found if isinstance(found, list) else []
    return [each for each in each_of if isinstance(each, Mapping) and isinstance(each.get("type"), str)]


def cut(text: str, limit: int) -> str:
    """The text, cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def seconds_of(text: Any) -> float | None:
    """Seconds since 1970 of a time in ISO 8601; None for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None


class HasMetadata(Protocol):
    """Any object."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""


def key_of(obj: HasMetadata) -> str:
    """`namespace/name`, or `name` for an object without a namespace."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class ObjectCache:
    """A `ClusterSink` that stores objects. Handlers get the object, or the last known one if it is deleted."""

    def __init__(self, kinds: Collection[str]) -> None:
        self._by_kind: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
        self._handlers: dict[str, list[Changed]] = defaultdict(list)
        self._syncs: dict[str, list[Callable[[], None]]] = defaultdict(list)
        self._unreadable: dict[str, set[str]] = defaultdict(set)  # keys of the next list of a kind
        self.synced_kinds: set[str] = set()

    def watch(self, kind: str, handler: Changed) -> None:
        """Call the handler on every change of an object of the kind."""
        self._handlers[kind].append(handler)

    def when_synced(self, kind: str, handler: Callable[[], None]) -> None:
        """Call the handler as soon as the kind is synced."""
        self._syncs[kind].append(handler)

    def get(self, kind: str, key: str) -> Any | None:
        """The object of that key, or None."""
        return self._by_kind[kind].get(key)

    def all(self, kind: str) -> list[Any]:
        """All objects of the kind, sorted by key."""
        found = self._by_kind[kind]
        return [found[key] for key in sorted(found)]

    def upsert(self, kind: str, obj: Any) -> None:
        """Store the object, and call the handlers if it is new or has changed."""
        if kind in self._by_kind:
            key = key_of(obj)
            known = self._by_kind[kind].get(key)
            self._by_kind[kind][key] = obj
            if known is None or known.metadata.resource_version != obj.metadata.resource_version:
                self._notify(kind, obj)

    def delete(self, kind: str, obj: Any) -> None:
        """Remove the object, and call the handlers if it was known."""
        known = self._by_kind.get(kind, {}).pop(key_of(obj), None)
        if known is not None:
            self._notify(kind, known)

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Replace all objects of the kind."""
        if kind in self._by_kind:
            listed = {key_of(obj) for obj in objs} | self._unreadable.pop(kind, set())
            for gone in [obj for key, obj in self._by_kind[kind].items() if key not in listed]:
                self.delete(kind, gone)
            for obj in objs:
                self.upsert(kind, obj)

    def unreadable(self, kind: str, obj: Any, error: InvalidObject, *, listed: bool) -> None:  # noqa: ARG002 — the reflector reports it
        """Keep the last state of an object that cannot be read any more."""
        if listed:
            self._unreadable[kind].add(key_of(obj))

    def synced(self, kind: str) -> None:
        """Mark the kind as synced: all its objects have been listed."""
        self.synced_kinds.add(kind)
        for handler in self._syncs[kind]:
            handler()

    def _notify(self, kind: str, obj: Any) -> None:
        for handler in self._handlers[kind]:
            handler(obj)


class AppPods:
    """A `ClusterSink` that stores the pods of PolicyApps only. `changed` is called with the key of the app."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._pods: dict[str, dict[str, Any]] = {}
        self._app_of: dict[str, str] = {}
        self._changed = changed

    def of(self, app: str) -> list[Any]:
        """The pods of an app that are not terminating, sorted by name."""
        found = self._pods.get(app, {})
        return [found[key] for key in sorted(found) if found[key].metadata.deletion_timestamp is None]

    def upsert(self, kind: str, obj: Any) -> None:
        """Store the object if it is a pod of an app."""
        if kind != "Pod":
            return
        key, name = key_of(obj), obj.metadata.labels.get(APP_LABEL)
        app = f"{obj.metadata.namespace}/{name}" if name else None
        if self._app_of.get(key) != app:
            self.delete(kind, obj)
        if app is not None:
            self._app_of[key] = app
            self._pods.setdefault(app, {})[key] = obj
            self._changed(app)

    def delete(self, kind: str, obj: Any) -> None:
        """Remove the object."""
        app = self._app_of.pop(key_of(obj), None) if kind == "Pod" else None
        if app is not None:
            del self._pods[app][key_of(obj)]
            if not self._pods[app]:
                del self._pods[app]
            self._changed(app)

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Replace all objects of the kind."""
        for _ in self.replacing(kind, objs):
            pass

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """The steps of `replace`."""
        if kind != "Pod":
            return
        listed = set()
        for number, obj in enumerate(objs):
            self.upsert(kind, obj)
            listed.add(key_of(obj))
            if number % OBJECTS_PER_STEP == 0:
                yield
        for key in self._app_of.keys() - listed:
            self.delete(kind, self._pods[self._app_of[key]][key])

    def synced(self, kind: str) -> None:
        """Ignored: pods are not waited for."""
