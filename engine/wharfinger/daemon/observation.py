"""Log, metrics, traces, recent decisions and the decision log of the process, built from the settings.

Values that exist already, such as queue lengths and revisions, are gauges computed at scrape time.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from prometheus_client import CollectorRegistry

import wharfinger
from wharfinger.daemon.compose import identity
from wharfinger.daemon.pages import Health
from wharfinger.daemon.settings import MEBIBYTE, DecisionLogSettings, Settings, TracingSettings
from wharfinger.emit import Emit, Failed, Subscribers
from wharfinger.errors import WharfingerError
from wharfinger.framework.ports import Clock
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler.decision_log.files import LogWriter
from wharfinger.scheduler.decision_log.recorder import DecisionRecorder
from wharfinger.scheduler.live_answers import LiveExplanations
from wharfinger.scheduler.queued_pods import Place
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.signals.refreshing import Suspension
from wharfinger.telemetry import logs, tracing
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.logs import Log
from wharfinger.telemetry.metrics import Metrics, reconcile_handlers
from wharfinger.telemetry.policies import PolicyTelemetry, ReloadHistory, SignalTelemetry
from wharfinger.telemetry.recent_decisions import RecentDecisions, SchedulingHistory
from wharfinger.telemetry.scheduling import SchedulingTelemetry
from wharfinger.telemetry.timing import rule_labels
from wharfinger.telemetry.tracing import PodTraces
from wharfinger.web import decisions as pages
from wharfinger.web.decisions import Decisions, Evaluations
from wharfinger.what_if.live_evaluation import EvaluationAnswer, EvaluationRequest, LiveEvaluations

if TYPE_CHECKING:
    from wharfinger.daemon.compose import Daemon

Values = Mapping[tuple[str, ...], float]


def read_from(daemon: Daemon, metrics: Metrics, lease: str) -> None:
    """Register the values of this daemon that are read at scrape time; `lease` is the name of the lease of its leader."""
    scheduler = daemon.scheduler
    metrics.read(Metric.PENDING_PODS, lambda: _pending(daemon))
    metrics.read(Metric.WAITING_GROUPS, lambda: _waiting_groups(daemon))
    metrics.read(Metric.UNSCHEDULABLE_PODS, lambda: _unschedulable(daemon))
    metrics.read(Metric.CACHE_SIZE, lambda: _sizes(daemon))
    metrics.read(Metric.UNDER_WAY, lambda: {("binding",): scheduler.n_binding, ("status",): scheduler.n_writing})
    recorder = daemon.server.recorder
    metrics.read(Metric.EVENT_AGE, lambda: {(): recorder.oldest})
    metrics.read(Metric.EVENTS_LEFT_OUT, lambda: {(): recorder.dropped})
    metrics.read(Metric.LEADER, lambda: {(lease,): float(daemon.leads)})
    metrics.read(Metric.POLICY_ACTIVE, lambda: _policies(daemon))
    metrics.read(Metric.POLICY_LAST_SUCCESS, lambda: _last_success(daemon))
    metrics.read(Metric.POLICY_STATE, lambda: Counter((status.state,) for status in daemon.policies.statuses))
    metrics.read(Metric.POLICY_SOURCE_LOST, lambda: {(source.name,): float(bool(source.lost)) for source in daemon.policies.sources})
    metrics.read(Metric.SHADOW_DECISIONS, lambda: _shadows(daemon))
    if daemon.custom is not None:
        metrics.read(Metric.WORKQUEUE_DEPTH, daemon.custom.depths)
    metrics.read(Metric.SIGNAL_AGE, lambda: _of_metrics(daemon, lambda found: found.age))
    metrics.read(Metric.SIGNAL_COVERAGE, lambda: _of_metrics(daemon, lambda found: found.coverage))
    metrics.read(Metric.SIGNAL_SUSPENDED, lambda: _of_metrics(daemon, lambda found: float(found.in_effect)))
    metrics.read(Metric.SIGNAL_SERIES, lambda: _series(daemon))
    metrics.read(Metric.STATE_REVISION, lambda: {(): scheduler.state.revision})
    metrics.read(Metric.BUILD, lambda: {(wharfinger.__version__,): 1})


def _pending(daemon: Daemon) -> Values:
    depths = daemon.scheduler.queue.depths
    return {(queue,): depths[queue] for queue in ("active", "backoff", "unschedulable", "gated")}


def _waiting_groups(daemon: Daemon) -> Values:
    counts = dict.fromkeys(("active", "backoff", "unschedulable", "gated", "in_flight"), 0)
    names = {Place.ERROR_BACKOFF: "backoff", Place.IN_FLIGHT: "in_flight"}
    for entry in daemon.scheduler.queue.groups:
        counts[names.get(entry.place, entry.place.value)] += 1
    return {(queue,): count for queue, count in counts.items()}


def _unschedulable(daemon: Daemon) -> Values:
    queue = daemon.scheduler.queue
    alike = Counter([(queued.rejectors, queued.profile) for queued in queue if queued.place is Place.UNSCHEDULABLE])
    for entry in queue.groups:
        if entry.place is Place.UNSCHEDULABLE:
            alike[entry.rejectors, entry.profile] += len(entry.members)
    counts: dict[tuple[str, ...], float] = defaultdict(float)
    for (rejectors, profile), number in alike.items():
        for plugin in rejectors:
            counts[plugin.name, profile.name] += number
    return counts


def _sizes(daemon: Daemon) -> Values:
    placed, assumed = daemon.scheduler.state.n_placements
    nodes = daemon.scheduler.state.snapshot().n_nodes
    return {("nodes",): nodes, ("pods",): placed, ("assumed_pods",): assumed}


def _policies(daemon: Daemon) -> Values:
    return {(policy.name, policy.revision[:12]): 1 for profile in daemon.scheduler.profiles for policy in profile.chain.policies}


def _last_success(daemon: Daemon) -> Values:
    return {(status.name,): status.since for status in daemon.policies.statuses if status.since is not None and status.name is not None}


def _shadows(daemon: Daemon) -> Values:
    found = daemon.shadows.reports.values()
    counts = {"agree": "agreed", "disagree": "disagreed", "error": "errors", "unseen": "unseen"}
    return {(report.policy, result): getattr(report, count) for report in found for result, count in counts.items()}


def _of_metrics(daemon: Daemon, read: Callable[[Suspension], float]) -> Values:
    return {(found.policy, found.metric.name): read(found) for found in daemon.signals.suspensions}


def _series(daemon: Daemon) -> Values:
    values: dict[tuple[str, ...], float] = {}
    for signal_state in daemon.signals.states:
        found = signal_state.found
        if found is None:
            continue
        for user in signal_state.query.users:
            values[user, "matched"] = len(found.samples)
            for state in ("unlabelled", "unmatched", "doubled", "invalid"):
                values[user, state] = getattr(found, state).count
    return values


def decision_pages(recent: RecentDecisions, health: Health, explanations: LiveExplanations, *, public: bool = False) -> Decisions:
    """The data of the pages about decisions."""

    async def explain(pod: str, nodes: list[str]) -> tuple[Mapping[str, Any], str]:
        found = await explanations.of(_scheduler(health), pod, nodes)
        last = next(recent.latest(pod=pod), None)
        if last is None:
            return {**found.plain(), "lastDecision": None}, str(found)
        return {
            **found.plain(),
            "lastDecision": {**pages.plain(last), **pages.details(last)},
        }, f"last decision: {pages.text(last)}\n{found}"

    async def explain_group(group: str) -> tuple[Mapping[str, Any], str]:
        found = await explanations.of_group(_scheduler(health), group)
        return found.plain(), str(found)

    return Decisions(recent=recent, explain=explain, explain_group=explain_group, public=public)


def evaluations_of(health: Health, clock: Clock, *, public: bool = False) -> Evaluations:
    """The answers of `/evaluate`."""
    evaluations = LiveEvaluations(clock)

    async def evaluate(request: EvaluationRequest) -> EvaluationAnswer:
        return await evaluations.of(_scheduler(health), request)

    return Evaluations(evaluate=evaluate, public=public)


def _scheduler(health: Health) -> Scheduler:
    """The scheduler of the process; WharfingerError before it knows the cluster."""
    daemon = health.daemon
    if daemon is None or daemon.scheduler.missing_kinds:
        raise WharfingerError("the cluster is not known yet")
    return daemon.scheduler


def recorder_of(settings: DecisionLogSettings | None, emit: Emit, opened: AsyncExitStack) -> DecisionRecorder | None:
    """The recorder of decisions until the context ends, None without settings; UsageError for a file that cannot be written."""
    if settings is None:
        return None
    writer = LogWriter(
        settings.path,
        max_bytes=settings.max_mebibytes * MEBIBYTE,
        max_files=settings.max_files,
        failed=_on_loop(emit, "decision log"),
    )
    opened.callback(writer.close)
    return DecisionRecorder(writer)


def traces_of(settings: TracingSettings | None, emit: Emit, clock: Clock, opened: AsyncExitStack) -> PodTraces | None:
    """The traces of attempts until the context ends; None if tracing is off."""
    if settings is None:
        return None
    exporter = tracing.exporter_of(settings.endpoint, _on_loop(emit, "traces"))
    provider = tracing.provider_of(exporter, wharfinger.__version__, identity())
    traces = PodTraces(provider, settings.sampling_ratio, clock.now, clock.monotonic)
    opened.callback(traces.close)
    return traces


def _on_loop(emit: Emit, where: str) -> Callable[[BaseException], None]:
    """A function for other threads that emits an error on the event loop."""
    loop = asyncio.get_running_loop()

    def failed(error: BaseException) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(emit, Failed(where, error))

    return failed


class Observation(Struct, frozen=True, kw_only=True):
    """Everything that observes the process, subscribed to its events; `recorder` only with a decision log."""

    log: Log
    metrics: Metrics
    subscribers: Subscribers
    scheduling: SchedulingTelemetry
    recent: RecentDecisions
    history: SchedulingHistory
    reloads: ReloadHistory
    recorder: DecisionRecorder | None

    @property
    def state(self) -> ClusterState | None:
        """The state that the scheduler has to use, None for its own."""
        return None if self.recorder is None else self.recorder.state


def rules_of(scheduler: Scheduler) -> frozenset[tuple[str, str]]:
    """The labels of the metrics of the rules that decide."""
    policies = {policy.name: policy for profile in scheduler.profiles for policy in profile.chain.policies}
    return frozenset(rule_labels(policy, rule.name) for policy in policies.values() for rule in (*policy.filters, *policy.scores))


def observation_of(settings: Settings, clock: Clock, opened: AsyncExitStack) -> Observation:
    """The observation that the settings ask for, until the context ends; UsageError for a file that cannot be written."""
    metrics = Metrics(CollectorRegistry())
    log = _log(settings, metrics, opened)
    subscribers = Subscribers()
    scheduling = SchedulingTelemetry(metrics, log, clock.monotonic)
    opened.callback(scheduling.close)
    recent, reloads = RecentDecisions(clock.now, clock.monotonic), ReloadHistory(clock.now)
    traces = traces_of(settings.tracing, subscribers.emit, clock, opened)
    recorder = recorder_of(settings.decision_log, subscribers.emit, opened)
    for subscriber in (scheduling, recent, traces, recorder, PolicyTelemetry(metrics, log), SignalTelemetry(metrics, log), reloads):
        if subscriber is not None:
            subscribers.subscribe(subscriber.handlers)
    subscribers.subscribe(reconcile_handlers(metrics, log))
    return Observation(
        log=log,
        metrics=metrics,
        subscribers=subscribers,
        scheduling=scheduling,
        recent=recent,
        history=SchedulingHistory(recent, clock),
        reloads=reloads,
        recorder=recorder,
    )


def _log(settings: Settings, metrics: Metrics, opened: AsyncExitStack) -> Log:
    written = logs.configure(settings.logging.format, settings.logging.level)
    opened.callback(written.close)
    metrics.read(Metric.LOG_LINES_LEFT_OUT, lambda: {("unread",): written.writer.dropped})
    log = logs.log()
    return log.bind(dry_run=True) if settings.dry_run else log
