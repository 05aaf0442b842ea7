"""The expressions of the dashboard: over all replicas of the job that is chosen, or of the replica that leads."""

from __future__ import annotations

from functools import partial

from tests.monitoring import promql
from wharfinger.telemetry.declarations import Metric

JOB = 'job=~"$job"'
rate = partial(promql.rate, where=JOB)
quantile = partial(promql.quantile, where=JOB)
mean = partial(promql.mean, where=JOB)
series = partial(promql.series, where=JOB)

LEADS = f"({series(Metric.LEADER)} == 1)"
"""Gauges are shown of the replica that leads: the others know the cluster too, but do nothing about it."""


def leading(metric: Metric, *by: str, **equal: str) -> str:
    """A gauge of the replica that leads, by labels."""
    return promql.summed(f"{series(metric, **equal)} and on (instance) {LEADS}", *by)


def quantiles(metric: Metric, **equal: str) -> list[tuple[str, str]]:
    """P50, P90 and P99 of a histogram."""
    return [(quantile(share, metric, **equal), f"P{100 * share:.0f}") for share in (0.5, 0.9, 0.99)]
