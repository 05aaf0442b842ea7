"""All signals of the policies that decide: one refresher each, started and stopped as policies come and go."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence

from cachetools import TTLCache

from wharfinger.framework.policy_status import MetricStatus
from wharfinger.framework.ports import Clock
from wharfinger.language import typed
from wharfinger.signals.mapping import Mapped
from wharfinger.signals.ports import SignalObserver, SilentSignalObserver, Sink, Source
from wharfinger.signals.query import queries_of
from wharfinger.signals.refresher import Refresher, Standing
from wharfinger.signals.settings import SignalLimits
from wharfinger.signals.suspension import Suspension, Suspensions

LOOK = 1.0
"""Seconds between two looks at how fresh the samples are."""

KEPT = 600.0
"""Seconds that answers are kept of signals nobody asks for any more: a policy that is put back has its samples at once."""

MOST_KEPT = 256


class Signals:
    """The signals of a process. `sources` are by the name that metrics call them."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        sink: Sink,
        clock: Clock,
        observer: SignalObserver | None = None,
        *,
        limits: SignalLimits | None = None,
    ) -> None:
        self._sources = sources
        self._sink = sink
        self._clock = clock
        self._observer = observer or SilentSignalObserver()
        self._limits = limits or SignalLimits()
        self._policies: Sequence[typed.Policy] = ()
        self._refreshers: dict[str, Refresher] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._answers: TTLCache[str, Mapped] = TTLCache(MOST_KEPT, KEPT, timer=clock.monotonic)
        self._suspensions = Suspensions()
        self._running = False

    @property
    def standings(self) -> Sequence[Standing]:
        """How each signal fares."""
        return [refresher.standing for refresher in self._refreshers.values()]

    @property
    def suspensions(self) -> Sequence[Suspension]:
        """How each metric of each policy fared at the last look; those that no answer has come for yet are not among them."""
        return tuple(self._suspensions.known.values())

    @property
    def metrics(self) -> Sequence[MetricStatus]:
        """How every metric of the policies fares, as of the last look."""
        return [self._fares(policy.name, metric) for policy in self._policies for metric in policy.metrics]

    def _fares(self, policy: str, metric: typed.Metric) -> MetricStatus:
        standing = self._refreshers[metric.signal].standing
        query, failure = standing.query, standing.failure
        slower = metric.refresh < query.refresh
        note = f"asked for every {query.refresh:g} s, not every {metric.refresh:g} s (signals.minRefresh)" if slower else ""
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
        """None; these are the policies from now on."""
        self._policies = tuple(policies)
        queries = queries_of(self._policies, self._limits)
        for key in self._refreshers.keys() - queries.keys():
            self._leave(key)
        for key, query in queries.items():
            if key in self._refreshers:
                self._refreshers[key].follow(query)
                continue
            self._refreshers[key] = Refresher(query, self._sources[query.source], self._sink, self._clock, self._observer)
            if key in self._answers:
                self._sink.publish(key, self._answers[key])
            if self._running:
                self._start(key)
        self._observer.followed(queries)

    async def run(self) -> None:
        """None, when cancelled: refreshes, and looks how fresh the samples are."""
        self._running = True
        try:
            for key in self._refreshers:
                self._start(key)
            while True:
                await self._clock.sleep(LOOK)
                self.look()
        finally:
            self._running = False
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()

    def look(self) -> None:
        """None; tells which metrics have been suspended or resumed since the last look."""
        heard = frozenset(key for key, refresher in self._refreshers.items() if refresher.standing.attempts)
        changed = self._suspensions.look(self._policies, self._sink.snapshot(), heard)
        for found in changed:
            (self._observer.suspended if found.is_one else self._observer.resumed)(found)
        if changed:
            self._sink.stir()

    def _start(self, key: str) -> None:
        self._tasks[key] = asyncio.get_running_loop().create_task(self._refreshers[key].run(), name=f"signal {key}")

    def _leave(self, key: str) -> None:
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
        found = self._refreshers.pop(key).standing.found
        if found is not None:
            self._answers[key] = found
        self._sink.drop(key)
