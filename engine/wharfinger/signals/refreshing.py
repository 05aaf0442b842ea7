"""All signals of the policies in force: one refresher each, from its source to the state that decisions read.

Refreshers are started and stopped with the policies that use them. `Source` and `Sink` are the two ports. A source raises `SignalFailed` if
a signal could not be refreshed.

A failure changes only the age of the samples: they stay until new ones arrive, and each metric has a maximum age. Refreshes are spread in
time, so that fifty signals of one interval do not reach the server together.

Once a second, metrics with too few fresh samples are looked for. The rules that use them are suspended, which is reported, and the pods
that these rules rejected are tried again.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec
import numpy as np
from cachetools import TTLCache
from msgspec import Struct
from msgspec.structs import replace

from wharfinger.compiler import metrics
from wharfinger.emit import Emit, ignore
from wharfinger.errors import WharfingerError, on_one_line
from wharfinger.framework.policy_status import MetricStatus
from wharfinger.framework.ports import Clock
from wharfinger.language.report.wording import count
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.signals.mapping import Mapped, NodeNames
from wharfinger.signals.query import Query, SignalLimits, queries_of

JITTER = 0.1
"""Largest random deviation of an interval, as a share of it."""

POLL_SECONDS = 1.0
"""Seconds between two checks of how fresh the samples are."""

KEPT_SECONDS = 600.0
"""Seconds that answers of signals no longer in use are kept: a policy that is restored has its samples at once."""

MAX_KEPT = 256
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of decoding an answer: no JSON or another shape, no UTF-8, too deep nesting."""


class Kind(Enum):
    """The kinds of failure of a refresh."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    CREDENTIALS = "credentials"  # refused, or not to be read from their file
    QUERY = "query"  # the server does not understand it, or it exceeds a limit
    OVERLOADED = "overloaded"
    SERVER = "server"
    ANSWER = "answer"  # an unexpected response: not JSON, a string, a range, too long
    SETTINGS = "settings"  # the settings do not name that server
    LIMIT = "limit"  # it is not sent, because there are too many queries


class SignalFailed(WharfingerError):
    """A failed refresh. Servers write a part of its text, so it is kept to one line."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(on_one_line(message))
        self.kind = kind


class Source(Protocol):
    """Answers the queries of one source of metrics."""

    async def measured(self, query: Query, nodes: NodeNames) -> Mapped:
        """The samples by node; SignalFailed when there are none. Slow work happens in threads."""


class Sink(Protocol):
    """The state that decisions read. All calls happen on its event loop."""

    def nodes(self) -> NodeNames:
        """The nodes as they are now."""

    def publish(self, key: str, found: Mapped) -> None:
        """Give decisions these samples of a signal."""

    def drop(self, key: str) -> None:
        """Remove a signal that no policy reads any more."""

    def retry_rejected(self) -> None:
        """Announce that decisions may change without new samples: some have become too old."""

    def snapshot(self) -> Snapshot:
        """The cluster as decisions see it now."""


class Suspension(Struct, frozen=True, kw_only=True):
    """A metric of a policy, the fraction of nodes with a fresh sample, and the age of the newest sample in seconds (inf: none).

    `oldest` are those since its oldest one; `since` is when it was first seen to lack samples (seconds since 1970), None where it does not.
    `authority` is whose policy it is.
    """

    policy: str
    metric: typed.Metric
    coverage: float
    n_nodes: int
    age: float
    oldest: float = math.inf
    since: float | None = None
    authority: Authority = CLUSTER

    @property
    def fresh(self) -> int:
        """The number of nodes with a fresh sample."""
        return round(self.coverage * self.n_nodes)

    @property
    def in_effect(self) -> bool:
        """True if the rules that use the metric have no effect."""
        return self.coverage < self.metric.min_coverage

    def __str__(self) -> str:
        wanted = f"{100 * self.metric.min_coverage:g} %"
        return (
            f"metric `{self.metric.name}` of policy {self.policy} is fresh on {self.fresh} of {count(self.n_nodes, 'node')} "
            f"({'fewer than' if self.in_effect else 'at least'} {wanted})"
        )


class SignalsFollowed(Struct, frozen=True):
    """The set of signals has changed to these, by key; others are no longer refreshed."""

    queries: Mapping[str, Query]


class SignalRefreshed(Struct, frozen=True):
    """New samples are published."""

    query: Query
    found: Mapped
    seconds: float


class RefreshFailed(Struct, frozen=True):
    """A refresh has failed; the samples from before are kept."""

    query: Query
    error: SignalFailed
    seconds: float


class MetricSuspended(Struct, frozen=True):
    """Too few nodes have a fresh sample of a policy's metric: the rules that use it are left out from now on."""

    suspension: Suspension


class MetricResumed(Struct, frozen=True):
    """Enough nodes have a fresh sample again."""

    suspension: Suspension


class Suspensions:
    """The metrics of some policies, and which of them are suspended."""

    def __init__(self) -> None:
        self.known: Mapping[tuple[str, str, str], Suspension] = {}

    def check_in_steps(
        self, policies: Iterable[typed.Policy], snapshot: Callable[[], Snapshot], answered: frozenset[str]
    ) -> Generator[None, None, list[Suspension]]:
        """A generator of steps that returns the metrics that were suspended or resumed since the last check.

        Only metrics whose signal is among `answered` are checked: the others wait for their first answer.
        """
        before, now = self.known, dict[tuple[str, str, str], Suspension]()
        for policy in policies:
            seen = snapshot()
            for metric in policy.metrics:
                if metric.signal in answered:
                    key = policy.name, metric.name, metric.signal
                    found = replace(suspension_of(policy.name, metric, seen), authority=policy.authority)
                    now[key] = replace(found, since=_since(found, before.get(key), seen.now))
            yield
        self.known = now
        return [found for key, found in now.items() if found.in_effect != (key in before and before[key].in_effect)]


def _since(found: Suspension, before: Suspension | None, now: float) -> float | None:
    if not found.in_effect:
        return None
    return now if before is None or before.since is None else before.since


def suspension_of(policy: str, metric: typed.Metric, snapshot: Snapshot) -> Suspension:
    """The coverage of a metric on the nodes."""
    samples = snapshot.metric(*metric.key.names)
    newest = -math.inf if samples is None else float(np.max(samples.times, where=samples.present, initial=-math.inf))
    oldest = math.inf if samples is None else float(np.min(samples.times, where=samples.present, initial=math.inf))
    return Suspension(
        policy=policy,
        metric=metric,
        coverage=metrics.coverage(snapshot, metric),
        n_nodes=snapshot.n_nodes,
        age=snapshot.now - newest,
        oldest=snapshot.now - oldest if math.isfinite(oldest) else math.inf,
    )


class SignalState(Struct, kw_only=True):
    """State of a signal: what its last successful refresh found and when (monotonic), and the error of the last failed one."""

    query: Query
    found: Mapped | None = None
    at: float | None = None
    seconds: float = 0.0
    failure: SignalFailed | None = None
    failures: int = 0
    attempts: int = 0


class Refresher:
    """Refreshes one signal."""

    def __init__(self, query: Query, source: Source, sink: Sink, clock: Clock, emit: Emit) -> None:
        self.state = SignalState(query=query)
        self._source = source
        self._sink = sink
        self._clock = clock
        self._emit = emit

    @property
    def query(self) -> Query:
        """The query of the signal."""
        return self.state.query

    def follow(self, query: Query) -> None:
        """Use the interval of this query of the same signal from the next refresh on."""
        self.state.query = query

    async def run(self) -> None:
        """Refresh at once and then at the interval, until cancelled."""
        while True:
            await self.refresh()
            await self._clock.sleep(self.query.refresh * random.uniform(1 - JITTER, 1 + JITTER))

    async def refresh(self) -> None:
        """Send the query once and publish the samples; emit success or failure."""
        query, state = self.query, self.state
        began = self._clock.monotonic()
        try:
            found = await self._measured(query)
            self._sink.publish(query.key, found)
        except SignalFailed as error:
            self._failed(error, began)
        except Exception as error:  # noqa: BLE001 — a bug in a source must not end the refreshing
            self._failed(SignalFailed(Kind.ANSWER, f"{type(error).__name__}: {error}"), began)
        else:
            state.found, state.at, state.failure = found, self._clock.monotonic(), None
            state.seconds = state.at - began
            state.attempts += 1
            self._emit(SignalRefreshed(query, found, state.seconds))

    async def _measured(self, query: Query) -> Mapped:
        if query.refused:
            raise SignalFailed(Kind.LIMIT, query.refused)
        return await self._source.measured(query, self._sink.nodes())

    def _failed(self, error: SignalFailed, began: float) -> None:
        state = self.state
        state.failure = error
        state.failures += 1
        state.attempts += 1
        self._emit(RefreshFailed(self.query, error, self._clock.monotonic() - began))


class Signals:
    """The signals of a process. `sources` are by their names in policies."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        sink: Sink,
        clock: Clock,
        emit: Emit = ignore,
        *,
        limits: SignalLimits | None = None,
    ) -> None:
        self._sources = sources
        self._sink = sink
        self._clock = clock
        self._emit = emit
        self._limits = limits or SignalLimits()
        self._policies: Sequence[typed.Policy] = ()
        self._refreshers: dict[str, Refresher] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._answers: TTLCache[str, Mapped] = TTLCache(MAX_KEPT, KEPT_SECONDS, timer=clock.monotonic)
        self._suspensions = Suspensions()
        self._running = False

    @property
    def states(self) -> Sequence[SignalState]:
        """The state of each signal."""
        return [refresher.state for refresher in self._refreshers.values()]

    @property
    def suspensions(self) -> Sequence[Suspension]:
        """The coverage of each metric of each policy at the last check; metrics without an answer yet are not included."""
        return tuple(self._suspensions.known.values())

    @property
    def metrics(self) -> Sequence[MetricStatus]:
        """The status of every metric of the policies, as of the last check."""
        return [self._metric_status(policy.name, metric) for policy in self._policies for metric in policy.metrics]

    def metrics_of(self, policy: str) -> Sequence[MetricStatus]:
        """The status of every metric of the policies of one name, as of the last check."""
        return [self._metric_status(policy, metric) for each in self._policies if each.name == policy for metric in each.metrics]

    def _metric_status(self, policy: str, metric: typed.Metric) -> MetricStatus:
        state = self._refreshers[metric.signal].state
        query, failure = state.query, state.failure
        slower = metric.refresh < query.refresh
        note = f"queried every {query.refresh:g} s, not every {metric.refresh:g} s (signals.minRefresh)" if slower else ""
        found = self._suspensions.known.get((policy, metric.name, metric.signal))
        if found is None:
            return MetricStatus(policy=policy, name=metric.name, asked=False, note=note)
        return MetricStatus(
            policy=policy,
            name=metric.name,
            asked=True,
            fresh=found.fresh,
            nodes=found.n_nodes,
            wanted=metric.min_coverage,
            youngest=found.age if math.isfinite(found.age) else None,
            oldest=found.oldest if math.isfinite(found.oldest) else None,
            suspended_since=found.since,
            failure="" if failure is None else f"the last refresh failed: {failure}",
            note=note,
        )

    def follow(self, policies: Iterable[typed.Policy]) -> None:
        """Start and stop refreshers so that these policies have their signals."""
        self._policies = tuple(policies)
        queries = queries_of(self._policies, self._limits)
        for key in self._refreshers.keys() - queries.keys():
            self._stop(key)
        for key, query in queries.items():
            if key in self._refreshers:
                self._refreshers[key].follow(query)
                continue
            self._refreshers[key] = Refresher(query, self._sources[query.source], self._sink, self._clock, self._emit)
            if key in self._answers:
                self._sink.publish(key, self._answers[key])
            if self._running:
                self._start(key)
        self._emit(SignalsFollowed(queries))

    async def run(self) -> None:
        """Refresh the signals and check how fresh the samples are, until cancelled."""
        self._running = True
        try:
            for key in self._refreshers:
                self._start(key)
            while True:
                await self._clock.sleep(POLL_SECONDS)
                for _ in self.check_in_steps():
                    await self._clock.sleep(0)
        finally:
            self._running = False
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()

    def check_in_steps(self) -> Generator[None, None, None]:
        """The steps of reporting the metrics that have been suspended or resumed since the last check."""
        answered = frozenset(key for key, refresher in self._refreshers.items() if refresher.state.attempts)
        changed = yield from self._suspensions.check_in_steps(self._policies, self._sink.snapshot, answered)
        for found in changed:
            self._emit(MetricSuspended(found) if found.in_effect else MetricResumed(found))
            yield
        if changed:
            self._sink.retry_rejected()

    def _start(self, key: str) -> None:
        self._tasks[key] = asyncio.get_running_loop().create_task(self._refreshers[key].run(), name=f"signal {key}")

    def _stop(self, key: str) -> None:
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
        found = self._refreshers.pop(key).state.found
        if found is not None:
            self._answers[key] = found
        self._sink.drop(key)
