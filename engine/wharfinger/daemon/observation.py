"""Log, metrics, traces, recent decisions and the decision log of the process, built from the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

import wharfinger
from wharfinger.daemon.compose import identity
from wharfinger.daemon.pages import Health
from wharfinger.daemon.settings import MEBIBYTE, DecisionLogSettings, Settings, TracingSettings
from wharfinger.errors import WharfingerError
from wharfinger.framework.ports import Attempt, Clock, Observer
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler.decision_log.recorder import DecisionRecorder
from wharfinger.scheduler.decision_log.writer import LogWriter
from wharfinger.scheduler.live_explanation import LiveExplanations
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.telemetry import logs, tracing
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.logs import Log
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.recent_decisions import RecentDecisions
from wharfinger.telemetry.scheduling import TelemetryObserver
from wharfinger.web import decisions as pages
from wharfinger.web.decisions import Decisions


def decisions_shown(recent: RecentDecisions, health: Health, clock: Clock, *, to_anybody: bool = False) -> Decisions:
    """The data of the pages about decisions."""
    explanations = LiveExplanations(clock)

    async def explain(pod: str, nodes: list[str]) -> tuple[Mapping[str, Any], str]:
        daemon = health.daemon
        if daemon is None or daemon.scheduler.missing_kinds:
            raise WharfingerError("the cluster is not known yet")
        found = await explanations.of(daemon.scheduler, pod, nodes)
        last = next(recent.latest(pod=pod), None)
        if last is None:
            return {**found.plain(), "lastDecision": None}, str(found)
        return {
            **found.plain(),
            "lastDecision": {**pages.plain(last), **pages.details(last)},
        }, f"last decision: {pages.text(last)}\n{found}"

    return Decisions(recent=recent, explain=explain, to_anybody=to_anybody)


def recorder_of(settings: DecisionLogSettings | None, observer: Observer, opened: AsyncExitStack) -> DecisionRecorder | None:
    """The recorder of decisions until the context ends, None without settings; UsageError for a file that cannot be written."""
    if settings is None:
        return None
    writer = LogWriter(
        settings.path,
        most_bytes=settings.max_mebibytes * MEBIBYTE,
        most_files=settings.max_files,
        failed=_on_loop(observer, "decision log"),
    )
    opened.callback(writer.close)
    return DecisionRecorder(writer)


def traces_of(
    settings: TracingSettings | None, observer: Observer, clock: Clock, opened: AsyncExitStack
) -> Iterator[Callable[[Attempt], None]]:
    """The function that traces attempts until the context ends, if tracing is on."""
    if settings is not None:
        exporter = tracing.exporter_of(settings.endpoint, _on_loop(observer, "traces"))
        provider = tracing.provider_of(exporter, wharfinger.__version__, identity())
        traces = tracing.PodTraces(provider, settings.sampling_ratio, clock.now, clock.monotonic)
        opened.callback(traces.close)
        yield traces.attempted


def _on_loop(observer: Observer, where: str) -> Callable[[BaseException], None]:
    """A function for other threads that reports an error to the observer on the event loop."""
    loop = asyncio.get_running_loop()

    def failed(error: BaseException) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(observer.failed, where, error)

    return failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that observes the process; `recorder` only with a decision log."""

    log: Log
    metrics: Metrics
    observer: TelemetryObserver
    recent: RecentDecisions
    recorder: DecisionRecorder | None

    @property
    def state(self) -> ClusterState | None:
        """The state that the scheduler has to use, None for its own."""
        return None if self.recorder is None else self.recorder.state

    def watch(self, scheduler: Scheduler) -> None:
        """Observes every decision of the scheduler from now on."""
        scheduler.show_decisions(self.recent.decided)
        self.observer.tell_rules_of(lambda: rules_of(scheduler))
        if self.recorder is not None:
            scheduler.show_decisions(self.recorder.decided)


def rules_of(scheduler: Scheduler) -> frozenset[tuple[str, str]]:
    """The rules that decide, by the names of policy and rule."""
    policies = {policy.name: policy for profile in scheduler.profiles for policy in profile.chain.policies}
    return frozenset((name, rule.name) for name, policy in policies.items() for rule in (*policy.filters, *policy.scores))


def observation_of(settings: Settings, clock: Clock, opened: AsyncExitStack) -> Observation:
    """The observation that the settings ask for, until the context ends; UsageError for a file that cannot be written."""
    metrics = Metrics(CollectorRegistry())
    log = _log(settings, metrics, opened)
    telemetry = TelemetryObserver(metrics, log, clock.monotonic)
    opened.callback(telemetry.close)
    recent = RecentDecisions(clock.now, clock.monotonic)
    telemetry.on_attempt(recent.attempted)
    for traced in traces_of(settings.tracing, telemetry, clock, opened):
        telemetry.on_attempt(traced)
    recorder = recorder_of(settings.decision_log, telemetry, opened)
    return Observation(log=log, metrics=metrics, observer=telemetry, recent=recent, recorder=recorder)


def _log(settings: Settings, metrics: Metrics, opened: AsyncExitStack) -> Log:
    written = logs.configure(settings.logging.format, settings.logging.level)
    opened.callback(written.close)
    metrics.read(Metric.LOG_LINES_LEFT_OUT, lambda: {("unread",): written.writer.dropped})
    log = logs.log()
    return log.bind(dry_run=True) if settings.dry_run else log
