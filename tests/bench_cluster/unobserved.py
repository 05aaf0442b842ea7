"""`wharf run` without observation: no metrics of decisions, no log lines, no decisions kept. The difference is what observation costs.

python -m tests.bench_cluster --only basic-1000 --contender wharfinger unobserved --rounds 5
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from unittest.mock import patch

from prometheus_client import CollectorRegistry

from wharfinger.cli import main
from wharfinger.daemon import serve
from wharfinger.daemon.observation import Observation
from wharfinger.daemon.settings import Settings
from wharfinger.emit import Subscribers
from wharfinger.framework.ports import Clock
from wharfinger.telemetry import logs
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.policies import ReloadHistory
from wharfinger.telemetry.recent_decisions import RecentDecisions, SchedulingHistory
from wharfinger.telemetry.scheduling import SchedulingTelemetry


class Unmeasured(SchedulingTelemetry):
    """Measures no decisions."""

    def stopwatch(self, profile: str) -> None:
        """Returns no stopwatch."""


def unobserved(settings: Settings, clock: Clock, opened: AsyncExitStack) -> Observation:
    """The objects that a process must have, without subscribers."""
    opened.callback(logs.configure("json", "error").close)
    metrics = Metrics(CollectorRegistry())
    recent = RecentDecisions(clock.now, clock.monotonic)
    return Observation(
        log=logs.log(),
        metrics=metrics,
        subscribers=Subscribers(),
        scheduling=Unmeasured(metrics, logs.log(), clock.monotonic),
        recent=recent,
        history=SchedulingHistory(recent, clock),
        reloads=ReloadHistory(clock.now),
        recorder=None,
    )


if __name__ == "__main__":
    with patch.object(serve, "observation_of", unobserved):
        sys.exit(main())
