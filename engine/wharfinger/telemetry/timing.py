"""Measures how long the event loop is blocked, and how long decisions take.

Everything happens on one event loop, in steps: while one runs, nothing is watched, bound or answered, and the Lease is not renewed. A timer
that is due every few milliseconds is late by the length of the step that delays it.

Decisions from scratch look at every node and are all measured. Updates after a placement look at one or two nodes and come by the
thousand: one of ten, chosen at random, is measured and counts ten times in sums of seconds. Histograms observe one of ten of both kinds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from wharfinger.framework.extension import Plugin
from wharfinger.framework.plugin_calls import NO_TIMER, CallTimer, DecisionTimer, RuleStatistics
from wharfinger.framework.rules.policy_rules import PolicyFilter, PolicyScore
from wharfinger.telemetry.declarations import ALL_RULES, Metric
from wharfinger.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy

TICK_SECONDS = 0.01
"""Seconds between two ticks of the timer: shorter steps may be missed, and longer ones are measured too short by at most this."""
WINDOW_SECONDS = 60.0
"""Seconds for which the longest step is reported, at least."""

SAMPLE_EVERY = 10
"""Of how many decisions one is measured, as kube-scheduler measures its plugins (schedule_one.go, `pluginMetricsSamplePercent`)."""


class EventLoopLag:
    """Measures how late a periodic timer of the event loop is; `timer` gives the seconds since any fixed moment.

    The timer is a callback, which costs less than a task that sleeps: an idle process does little else.
    """

    def __init__(self, metrics: Metrics, timer: Callable[[], float] = time.perf_counter) -> None:
        self._timer = timer
        self._next: asyncio.TimerHandle | None = None
        self._steps = metrics.histogram(Metric.LOOP_STEPS)
        self._longest = self._longest_before = 0.0
        self._since = timer()
        metrics.read(Metric.LOOP_LONGEST_STEP, lambda: {(): self.longest})

    @property
    def longest(self) -> float:
        """The longest step of the last minute or two, in seconds."""
        self._begin_next_window()
        return max(self._longest, self._longest_before)

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        self._wait(loop)
        try:
            await loop.create_future()
        finally:
            if self._next is not None:
                self._next.cancel()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + TICK_SECONDS
        self._next = loop.call_at(due, self._on_tick, loop, due)

    def _on_tick(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.record_delay(max(0.0, loop.time() - due))
        self._wait(loop)

    def record_delay(self, seconds: float) -> None:
        """Record by how many seconds the timer was late."""
        self._steps.observe(seconds)
        self._begin_next_window()
        self._longest = max(self._longest, seconds)

    def _begin_next_window(self) -> None:
        """Begin the next minute when one is over; values older than two minutes are removed."""
        elapsed = self._timer() - self._since
        if elapsed >= WINDOW_SECONDS:
            self._longest_before = self._longest if elapsed < 2 * WINDOW_SECONDS else 0.0
            self._longest = 0.0
            self._since += elapsed


def rule_labels(policy: CompiledPolicy, rule: str) -> tuple[str, str]:
    """The labels of the metrics of a rule: policy and rule.

    The rules of a policy of a namespace are counted together: their authors could fill the memory of Prometheus with series.
    """
    return policy.name, rule if policy.authority.namespace is None else ALL_RULES


class StatisticsOfRules:
    """The work of the rules of policies so far, by the labels of their metrics, over all profiles and reloads.

    `present` are those of existing rules: when metrics are read, the others are forgotten, as policies and their rules come and go.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._of: dict[tuple[str, str], RuleStatistics] = {}
        self.present: Callable[[], Container[tuple[str, str]]] | None = None
        metrics.read(Metric.RULE_EVALUATIONS, lambda: self._read("evaluated"))
        metrics.read(Metric.RULE_REJECTIONS, lambda: self._read("rejected"))
        metrics.read(Metric.RULE_SECONDS, lambda: self._read("seconds"))

    def of(self, labels: tuple[str, str]) -> RuleStatistics:
        """The statistics of the rules with these labels."""
        return self._of.setdefault(labels, RuleStatistics())

    def _read(self, part: str) -> Mapping[tuple[str, ...], float]:
        if self.present is not None:
            present = self.present()
            self._of = {rule: statistics for rule, statistics in self._of.items() if rule in present}
        return {rule: getattr(statistics, part) for rule, statistics in self._of.items()}


class DecisionStopwatch:
    """The `Stopwatch` of one profile; `chance` gives numbers in [0, 1)."""

    def __init__(
        self,
        metrics: Metrics,
        statistics: StatisticsOfRules,
        profile: str,
        *,
        clock: Callable[[], float] = time.perf_counter,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._statistics = statistics
        self._profile = profile
        self._clock = clock
        self._chance = chance
        self._points = cache(metrics.histogram(Metric.POINT_DURATION).labels)
        self._plugins = cache(metrics.histogram(Metric.PLUGIN_DURATION).labels)

    def statistics_of(self, plugin: Plugin) -> RuleStatistics | None:
        """The statistics of a policy's rule, which the caller updates; None for plugins of other kinds."""
        if not isinstance(plugin, PolicyFilter | PolicyScore):
            return None
        return self._statistics.of(rule_labels(plugin.policy, plugin.origin[1]))

    def begin_precomputing(self) -> CallTimer:
        """Nothing is measured."""
        return NO_TIMER

    def begin(self, *, whole: bool, policies: Sequence[str], precomputed: CallTimer = NO_TIMER) -> CallTimer:  # noqa: ARG002 — policies do not matter
        """The timer of a decision that begins now."""
        shown = self._chance() * SAMPLE_EVERY < 1
        return SampledTimer(self._clock, whole=whole, shown=shown) if whole or shown else NO_TIMER

    def ended(self, call_timer: CallTimer, status: str) -> None:
        """Add up the seconds of rules, and observes the histograms for decisions that are shown."""
        if not isinstance(call_timer, SampledTimer):
            return
        stands_for = 1 if call_timer.whole else SAMPLE_EVERY
        for _, slot, seconds in call_timer.calls:
            if slot.statistics is not None:
                slot.statistics.seconds += seconds * stands_for
        if call_timer.shown:
            self._show(call_timer, status)

    def _show(self, call_timer: DecisionTimer, status: str) -> None:
        for point, seconds in call_timer.points.items():
            self._points(point, status, self._profile).observe(seconds)
        for point, slot, seconds in call_timer.calls:
            if slot.statistics is None:  # a histogram for each of a hundred rules would be most of what Prometheus has to read
                self._plugins(slot.plugin.name, point, status).observe(seconds)


class SampledTimer(DecisionTimer):
    """The times of a measured decision; those that are `shown` go into the histograms."""

    __slots__ = ("shown",)

    def __init__(self, clock: Callable[[], float], *, whole: bool, shown: bool) -> None:
        super().__init__(clock, whole=whole)
        self.shown = shown
