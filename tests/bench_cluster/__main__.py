"""Compares Wharfinger with kube-scheduler on a real API server: prints a table and writes JSON.

Both use the same API server, one at a time in alternating order, one process each; kube-scheduler without leader election and with 5,000
requests a second, so that neither waits for its own limit. All pods are created first and then the scheduler is started; the rate counts
from the first to the last binding as a third client's watch sees them. CPU seconds are those of the whole process from its start until its
events are written; memory is the most it had.

There are no kubelets, no kwok and no controllers: 5,000 nodes' heartbeats and pods' statuses would be most of the work on a small
machine, and another part of it for each scheduler. Nodes are created once with the condition Ready, and pods are deleted after each run.
Where pods have claims of templates, the controller that makes them runs until all are made, and not while a scheduler is measured.
"""

from __future__ import annotations

import argparse
import compileall
import json
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.bench_cluster.contenders import KUBE_SCHEDULER, ROOT, UNOBSERVED, WHARF_RUN, WHARFINGER, contenders
from tests.bench_cluster.load import Refused
from tests.bench_cluster.measure import BARE, Bench, Run
from tests.bench_cluster.table import Table
from tests.bench_cluster.workloads import WORKLOADS, Workload
from tests.cluster.control_plane import ControlPlane

NAMES = [workload.name for workload in WORKLOADS]


def arguments() -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="WORKLOAD", help=f"some of: {' '.join(NAMES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="nodes and pods, times this")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured; the medians are shown")
    parser.add_argument("--contender", nargs="+", choices=(KUBE_SCHEDULER, WHARFINGER, UNOBSERVED), default=(KUBE_SCHEDULER, WHARFINGER))
    parser.add_argument("--product", default=WHARF_RUN, metavar="COMMAND", help="in the place of 'wharf run': under a profiler, say")
    parser.add_argument("--json", type=Path, default=Path("build/bench-cluster.json"), metavar="FILE", help="where every run is written")
    return parser.parse_args()


def runs(asked: argparse.Namespace, workloads: Iterable[Workload], bench: Bench) -> Iterator[Run]:
    """Everything measured, as it is measured; a run that fails is reported and left out."""
    for workload in workloads:
        turns = [each for each in contenders(asked.product) if each.name in asked.contender]
        for number in range(asked.rounds):
            for contender in (None,) if workload.bare else turns[:: -1 if number % 2 else 1]:
                try:
                    yield bench.bare(workload) if contender is None else bench.measure(workload, contender)
                except (AssertionError, Refused, OSError, ExceptionGroup) as error:
                    print(f"{workload.name}: {contender.name if contender else BARE}: {error!r}", file=sys.stderr, flush=True)


def main() -> int:
    """Measures and prints; every run is written as soon as it is known."""
    asked = arguments()
    began = time.monotonic()
    done: list[Run] = []
    workloads = [each.scaled(asked.scale) for each in WORKLOADS if each.name in asked.only]
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    compileall.compile_dir(ROOT / "engine", quiet=1)  # as whatever installs a package does; a source tree may be started without bytecode
    with ControlPlane() as cluster:
        for run in runs(asked, workloads, Bench(cluster)):
            done.append(run)
            print(f"{time.monotonic() - began:6.0f} s  {_one_line(run)}", file=sys.stderr, flush=True)
            written = {"taken": _taken(), "scale": asked.scale, "runs": [asdict(run) for run in done]}
            asked.json.write_text(json.dumps(written, indent=1) + "\n")
    for line in Table(workloads, done).lines():
        print(line)
    return 0


def _taken() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, {platform.machine()}"


def _one_line(run: Run) -> str:
    latency = "" if run.p99 is None else f"  p50 {run.p50 * 1000:.0f} ms  p99 {run.p99 * 1000:.0f} ms"
    server = f"  server {run.server_cpu_seconds * 1000 / max(1, run.bound):.2f}" if run.server_cpu_seconds else ""
    burst = f" (burst {run.burst_cpu_seconds * 1000 / max(1, run.bound):.2f})" if run.burst_cpu_seconds else ""
    used = "" if run.contender == BARE else f"  {run.cpu_per_thousand:.2f} CPU s/1,000{burst}  {run.megabytes:.0f} MB  {run.events} events"
    first = "" if run.first is None else f"  first after {run.first:.1f} s"
    return f"{run.workload:14} {run.contender:15} {run.bound} of {run.pods} bound  {run.rate:.0f} pods/s{first}{latency}{used}{server}"


if __name__ == "__main__":
    sys.exit(main())
