"""Who is told what of the process: log, metrics, traces, the decisions of the last while, and the log of all decisions."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from wharfinger.daemon.seeing import ToldToo, recorder_of, traces_of
from wharfinger.daemon.settings import Settings
from wharfinger.framework.ports import Clock, Observer
from wharfinger.model.cluster_state import ClusterState
from wharfinger.runtime.decision_log.recorder import DecisionRecorder
from wharfinger.runtime.scheduler import Scheduler
from wharfinger.telemetry import logs
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.observer import TelemetryObserver
from wharfinger.telemetry.recent_decisions import RecentDecisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Who is told; `recorder` only where all decisions are kept in a file."""

    log: Any
    metrics: Metrics
    observer: Observer
    telemetry: TelemetryObserver
    recent: RecentDecisions
    recorder: DecisionRecorder | None

    @property
    def state(self) -> ClusterState | None:
        """The state that the scheduler is to keep, if it matters which."""
        return None if self.recorder is None else self.recorder.state

    def watch(self, scheduler: Scheduler) -> None:
        """None; from now on every decision of the scheduler is told."""
        scheduler.show_decisions(self.recent.decided)
        self.telemetry.tell_rules_of(lambda: rules_of(scheduler))
        if self.recorder is not None:
            scheduler.show_decisions(self.recorder.decided)


def rules_of(scheduler: Scheduler) -> frozenset[tuple[str, str]]:
    """The rules that decide, by the names of policy and rule."""
    policies = {policy.name: policy for profile in scheduler.profiles for policy in profile.chain.policies}
    return frozenset((name, rule.name) for name, policy in policies.items() for rule in (*policy.filters, *policy.scores))


def telling_of(settings: Settings, clock: Clock, opened: AsyncExitStack) -> Telling:
    """What the settings want to be told, until the context ends; UsageError for a file that cannot be written."""
    metrics = Metrics(CollectorRegistry())
    log = _log(settings, metrics, opened)
    telemetry = TelemetryObserver(metrics, log, clock.monotonic)
    opened.callback(telemetry.close)
    recent = RecentDecisions(clock.now, clock.monotonic)
    observer = ToldToo(telemetry, recent.attempted, *traces_of(settings.tracing, telemetry, clock, opened))
    recorder = recorder_of(settings.decision_log, observer, opened)
    return Telling(log=log, metrics=metrics, observer=observer, telemetry=telemetry, recent=recent, recorder=recorder)


def _log(settings: Settings, metrics: Metrics, opened: AsyncExitStack) -> Any:
    written = logs.configure(settings.logging.format, settings.logging.level)
    opened.callback(written.close)
    metrics.read(Metric.LOG_LINES_LEFT_OUT, lambda: {("unread",): written.writer.left_out})
    log = logs.logger()
    return log.bind(dry_run=True) if settings.dry_run else log
