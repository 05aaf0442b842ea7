"""Gauges computed at scrape time from the running scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import wharfinger
from wharfinger.scheduler.queued_pods import Place
from wharfinger.signals.suspension import Suspension
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from wharfinger.daemon.compose import Daemon

Values = Mapping[tuple[str, ...], float]


def read_from(daemon: Daemon, metrics: Metrics, lease: str) -> None:
    """Lets the metrics read this daemon, whose leader is elected by the lease of that name."""
    scheduler = daemon.scheduler
    metrics.read(Metric.PENDING_PODS, lambda: _pending(daemon))
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
    metrics.read(Metric.SIGNAL_SUSPENDED, lambda: _of_metrics(daemon, lambda found: float(found.is_one)))
    metrics.read(Metric.SIGNAL_SERIES, lambda: _series(daemon))
    metrics.read(Metric.STATE_REVISION, lambda: {(): scheduler.state.revision})
    metrics.read(Metric.BUILD, lambda: {(wharfinger.__version__,): 1})


def _pending(daemon: Daemon) -> Values:
    depths = daemon.scheduler.queue.depths
    return {(queue,): depths[queue] for queue in ("active", "backoff", "unschedulable", "gated")}


def _unschedulable(daemon: Daemon) -> Values:
    return Counter(
        (plugin.name, queued.profile.name)
        for queued in daemon.scheduler.queue
        if queued.place is Place.UNSCHEDULABLE
        for plugin in queued.rejectors
    )


def _sizes(daemon: Daemon) -> Values:
    assumed = Counter(assumed for _, assumed in daemon.scheduler.state.placements())
    nodes = daemon.scheduler.state.snapshot().n_nodes
    return {("nodes",): nodes, ("pods",): assumed[False], ("assumed_pods",): assumed[True]}


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
    for standing in daemon.signals.standings:
        found = standing.found
        if found is None:
            continue
        for user in standing.query.users:
            values[user, "matched"] = len(found.samples)
            for state in ("unlabelled", "unmatched", "doubled", "invalid"):
                values[user, state] = getattr(found, state).count
    return values
