"""Wharfinger beside kube-scheduler on a real API server: prints a table and writes JSON.

Both face the same API server, one after the other in alternating order, one process each; kube-scheduler without leader election and with
5,000 requests a second, so that neither waits for a limit of its own. All pods are created first and then the scheduler is started; the
rate counts from the first to the last binding as a third client's watch sees them. CPU seconds are those of the whole process from its
start until its events are written; memory is the most it had.

There are no kubelets, no kwok and no controllers: 5,000 nodes' heartbeats and pods' statuses would be most of the work on a small
machine, and another part of it for each scheduler. Nodes are created once with the condition Ready, and pods are deleted after each run.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.bench_cluster.contenders import KUBE_SCHEDULER, WHARF_RUN, WHARFINGER, Contender, contenders
from tests.bench_cluster.measure import BARE, Bench, Run
from tests.bench_cluster.workloads import WORKLOADS, Workload
from tests.cluster.control_plane import ControlPlane

NAMES = [workload.name for workload in WORKLOADS]


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="WORKLOAD", help=f"some of: {' '.join(NAMES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="nodes and pods, times this")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured; the medians are shown")
    parser.add_argument("--contender", nargs="+", choices=(KUBE_SCHEDULER, WHARFINGER), default=(KUBE_SCHEDULER, WHARFINGER))
    parser.add_argument("--product", default=WHARF_RUN, metavar="COMMAND", help="in the place of 'wharf run': under a profiler, say")
    parser.add_argument("--json", type=Path, default=Path("build/bench-cluster.json"), metavar="FILE", help="where every run is written")
    return parser.parse_args()


def runs(asked: argparse.Namespace, bench: Bench) -> Iterator[Run]:
    """Everything measured, as it is measured."""
    for workload in (each.scaled(asked.scale) for each in WORKLOADS if each.name in asked.only):
        turns = [each for each in contenders(asked.product) if each.name in asked.contender]
        for number in range(asked.rounds):
            yield from _one_round(bench, workload, turns if number % 2 == 0 else turns[::-1])


def _one_round(bench: Bench, workload: Workload, turns: list[Contender]) -> Iterator[Run]:
    if workload.bare:
        yield bench.bare(workload)
    else:
        for contender in turns:
            yield bench.measure(workload, contender)


def main() -> int:
    """Measures and prints."""
    asked = arguments()
    began = time.monotonic()
    done: list[Run] = []
    with ControlPlane() as cluster:
        for run in runs(asked, Bench(cluster)):
            done.append(run)
            print(f"{time.monotonic() - began:6.0f} s  {_one_line(run)}", file=sys.stderr, flush=True)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps({"taken": _taken(), "scale": asked.scale, "runs": [asdict(run) for run in done]}, indent=1) + "\n")
    for line in _table(done):
        print(line)
    return 0


def _taken() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, {platform.machine()}"


def _one_line(run: Run) -> str:
    latency = "" if run.p99 is None else f"  p50 {run.p50 * 1000:.0f} ms  p99 {run.p99 * 1000:.0f} ms"
    server = f"  server {run.server_cpu_seconds * 1000 / max(1, run.bound):.2f}" if run.server_cpu_seconds else ""
    burst = f" (burst {run.burst_cpu_seconds * 1000 / max(1, run.bound):.2f})" if run.burst_cpu_seconds else ""
    used = "" if run.contender == BARE else f"  {run.cpu_per_thousand:.2f} CPU s/1,000{burst}  {run.megabytes:.0f} MB  {run.events} events"
    return f"{run.workload:14} {run.contender:15} {run.bound} of {run.pods} bound  {run.rate:.0f} pods/s{latency}{used}{server}"


# ── the table ──


def _table(done: list[Run]) -> Iterator[str]:
    bare = _median(done, BARE, BARE, "rate")
    yield "| workload | pods/s | kube-scheduler | ratio | goal | CPU s per 1,000 | kube-scheduler | peak MB | kube-scheduler |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for workload in WORKLOADS:
        if (ours := _median(done, workload.name, WHARFINGER, "rate")) is not None and workload.pace is None:
            yield _row(workload, done, ours, bare)
    for workload in WORKLOADS:
        if workload.pace is not None and _median(done, workload.name, WHARFINGER, "rate") is not None:
            yield ""
            yield from _paced(workload, done)
    if bare is not None:
        yield ""
        yield f"Binds and nothing else: {bare:,.0f} a second."


def _row(workload: Workload, done: list[Run], ours: float, bare: float | None) -> str:
    theirs = _median(done, workload.name, KUBE_SCHEDULER, "rate")
    goals = [f"≥ {workload.ratio:g} ×"] if workload.ratio else []
    if workload.more_than:
        goals.append(f"≥ {workload.more_than:,.0f} pods/s")
    if workload.share and bare:
        goals.append(f"≥ {workload.share:.0%} of bare binds: {ours / bare:.0%}")
    columns = [f"{workload.nodes:,} nodes, {workload.pods:,} pods: {workload.name}", f"{ours:,.0f}", _number(theirs, "{:,.0f}")]
    columns += ["" if not theirs else f"{ours / theirs:.2f}", ", ".join(goals)]
    for what, form in (("cpu_per_thousand", "{:.2f}"), ("megabytes", "{:,.0f}")):
        columns += [_number(_median(done, workload.name, name, what), form) for name in (WHARFINGER, KUBE_SCHEDULER)]
    return f"| {' | '.join(columns)} |"


def _paced(workload: Workload, done: list[Run]) -> Iterator[str]:
    yield f"| {workload.pace:g} pods/s at {workload.nodes:,} nodes | P50 ms | P99 ms | CPU s per 1,000 | peak MB |"
    yield "|---|---|---|---|---|"
    for name in (WHARFINGER, KUBE_SCHEDULER):
        times = [_number(_median(done, workload.name, name, what, 1000), "{:.1f}") for what in ("p50", "p99")]
        used = [_number(_median(done, workload.name, name, what), "{:.2f}") for what in ("cpu_per_thousand", "megabytes")]
        yield f"| {' | '.join([name, *times, *used])} |"


def _median(done: list[Run], workload: str, contender: str, what: str, times: float = 1.0) -> float | None:
    found = [getattr(run, what) for run in done if (run.workload, run.contender) == (workload, contender)]
    known = [value * times for value in found if value is not None]
    return statistics.median(known) if known else None


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


if __name__ == "__main__":
    sys.exit(main())
