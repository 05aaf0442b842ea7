"""`wharf run` that tells nobody: no metrics of decisions, no log lines, no decisions kept. What telling costs is what it saves.

python -m tests.bench_cluster --only basic-1000 --contender wharfinger untold --rounds 5
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
from wharfinger.framework.ports import Clock, Observer
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.telemetry import logs
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.recent_decisions import RecentDecisions


class Untold(Observation):
    """Keeps everything to itself."""

    def watch(self, scheduler: Scheduler) -> None:
        """None; nothing is told of any decision."""


def untold(settings: Settings, clock: Clock, opened: AsyncExitStack) -> Observation:
    """What there must be, with nothing in it."""
    opened.callback(logs.configure("json", "error").close)
    metrics, recent = Metrics(CollectorRegistry()), RecentDecisions(clock.now, clock.monotonic)
    return Untold(log=logs.log(), metrics=metrics, observer=Observer(), recent=recent, recorder=None)


if __name__ == "__main__":
    with patch.object(serve, "observation_of", untold):
        sys.exit(main())
