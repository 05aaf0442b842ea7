"""The measurements as tables of Markdown, and the goals that were missed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench_cluster.contenders import KUBE_SCHEDULER, UNOBSERVED, WHARFINGER
from tests.bench_cluster.measure import BARE, Run
from tests.bench_cluster.workloads import Workload


@dataclass(frozen=True, slots=True)
class Table:
    """The medians of some runs of some workloads."""

    workloads: Sequence[Workload]
    done: Sequence[Run]

    def lines(self) -> Iterator[str]:
        """Everything that is to be printed."""
        yield "| workload | pods/s | kube-scheduler | ratio | goal | CPU s per 1,000 | kube-scheduler | peak MB | kube-scheduler |"
        yield "|---|---|---|---|---|---|---|---|---|"
        measured = [workload for workload in self.workloads if self.median(workload.name, WHARFINGER, "rate") is not None]
        for workload in measured:
            if workload.pace is None:
                yield self._burst(workload)
        for workload in measured:
            if workload.pace is not None:
                yield from ("", *self._paced(workload))
        yield from (line for workload in measured for line in self._first(workload))
        yield from self._longest_steps(measured)
        bare = self.median(BARE, BARE, "rate")
        if bare is not None:
            yield from ("", f"Binds and nothing else: {bare:,.0f} a second{''.join(self._shares(measured, bare))}.")
        yield from (line for workload in measured for line in self._observability_cost(workload))
        missed = [f"- {miss}" for workload in measured for miss in self._missed(workload)]
        if {KUBE_SCHEDULER, WHARFINGER} <= {run.contender for run in self.done}:
            yield from ("", "Missed goals:", *missed) if missed else ("", "All goals reached.")

    def median(self, workload: str, contender: str, what: str) -> float | None:
        """The median of a figure over the rounds."""
        found = [getattr(run, what) for run in self.done if (run.workload, run.contender) == (workload, contender)]
        known = [value for value in found if value is not None]
        return statistics.median(known) if known else None

    def _both(self, workload: Workload, what: str, form: str) -> list[str]:
        values = [self.median(workload.name, name, what) for name in (WHARFINGER, KUBE_SCHEDULER)]
        return ["" if value is None else form.format(value) for value in values]

    def _ratio(self, workload: Workload, what: str) -> float | None:
        """Ours to theirs."""
        ours, theirs = (self.median(workload.name, name, what) for name in (WHARFINGER, KUBE_SCHEDULER))
        return None if ours is None or not theirs else ours / theirs

    def _observability_cost(self, workload: Workload) -> Iterator[str]:
        """The cost of metrics, logs and kept decisions, if it was measured."""
        shares = []
        for what, words in (("rate", "pods/s"), ("burst_cpu_seconds", "CPU until the last binding"), ("cpu_seconds", "CPU in all")):
            with_it, without = (self.median(workload.name, name, what) for name in (WHARFINGER, UNOBSERVED))
            if with_it and without:
                shares.append(f"{with_it / without - 1:+.1%} {words}")
        if shares:
            yield from ("", f"{workload.name}, writing events and status: {', '.join(shares)}.")

    def _first(self, workload: Workload) -> Iterator[str]:
        """The time from the start to the first binding, where it is of interest."""
        if workload.first is not None:
            ours, theirs = self._both(workload, "first", "{:.1f} s")
            rest = f", kube-scheduler {theirs}" if theirs else ""
            head = f"{workload.name}: start to first binding with {workload.running:,} running pods"
            yield from ("", f"{head}: {ours} (goal {workload.first:g} s){rest}.")

    def _longest_steps(self, measured: Sequence[Workload]) -> Iterator[str]:
        """The longest steps of the event loop; each may take 50 ms."""
        steps = {workload.name: self.median(workload.name, WHARFINGER, "longest_step") for workload in measured}
        found = [f"{name} {1000 * step:.0f} ms" for name, step in steps.items() if step is not None]
        if found:
            yield from ("", f"Longest steps of the event loop (goal 50 ms): {', '.join(found)}.")

    def _bare(self) -> float | None:
        return self.median(BARE, BARE, "rate")

    def _shares(self, measured: Sequence[Workload], bare: float) -> Iterator[str]:
        for workload in measured:
            if workload.pace is None:
                shares = [
                    f"{name} {rate / bare:.0%}"
                    for name in (WHARFINGER, KUBE_SCHEDULER)
                    if (rate := self.median(workload.name, name, "rate"))
                ]
                yield f"; {workload.name}: {', '.join(shares)}"

    def _burst(self, workload: Workload) -> str:
        ratio, bare = self._ratio(workload, "rate"), self._bare()
        goals = [f"≥ {workload.ratio:g} ×"] if workload.ratio else []
        if workload.more_than:
            goals.append(f"≥ {workload.more_than:,.0f} pods/s")
        if workload.share and bare:
            share = (self.median(workload.name, WHARFINGER, "rate") or 0.0) / bare
            goals.append(f"≥ {workload.share:.0%} of bare binds: {share:.0%}")
        columns = [f"{workload.nodes:,} nodes, {workload.pods:,} pods: {workload.name}", *self._both(workload, "rate", "{:,.0f}")]
        columns += ["" if ratio is None else f"{ratio:.2f}", ", ".join(goals)]
        columns += [*self._both(workload, "cpu_per_thousand", "{:.2f}"), *self._both(workload, "megabytes", "{:,.0f}")]
        return f"| {' | '.join(columns)} |"

    def _paced(self, workload: Workload) -> Iterator[str]:
        yield f"| {workload.pace:g} pods/s at {workload.nodes:,} nodes | P50 s | P99 s | CPU s per 1,000 | peak MB |"
        yield "|---|---|---|---|---|"
        figures = (("p50", "{:.4f}"), ("p99", "{:.4f}"), ("cpu_per_thousand", "{:.2f}"), ("megabytes", "{:,.0f}"))
        columns = [self._both(workload, what, form) for what, form in figures]
        for name, row in zip((WHARFINGER, KUBE_SCHEDULER), zip(*columns, strict=True), strict=True):
            yield f"| {name} | {' | '.join(row)} |"

    def _missed(self, workload: Workload) -> Iterator[str]:
        rate, p99 = (self.median(workload.name, WHARFINGER, what) for what in ("rate", "p99"))
        ratio, bare = self._ratio(workload, "rate"), self._bare()
        if workload.ratio and ratio is not None and ratio < workload.ratio:
            yield f"{workload.name}: {ratio:.2f} times kube-scheduler's pods/s, not {workload.ratio:g}"
        if workload.more_than and rate is not None and rate < workload.more_than:
            yield f"{workload.name}: {rate:,.0f} pods/s, not {workload.more_than:,.0f}"
        if workload.below and p99 is not None and p99 > workload.below:
            yield f"{workload.name}: {p99:.4f} s at the 99th percentile, not {workload.below:.4f}"
        first = self.median(workload.name, WHARFINGER, "first")
        if workload.first and first is not None and first > workload.first:
            yield f"{workload.name}: {first:.1f} s to the first binding, not {workload.first:g}"
        if workload.share and bare and rate is not None and rate < workload.share * bare:
            yield f"{workload.name}: {rate / bare:.0%} of the bare binds, not {workload.share:.0%}"
        for what, words in (("p99", "seconds at the 99th percentile"), ("cpu_per_thousand", "CPU seconds"), ("megabytes", "memory")):
            if (what == "megabytes" and not workload.memory) or (what == "p99" and not workload.latency):
                continue
            more = self._ratio(workload, what)
            if more is not None and more > 1:
                yield f"{workload.name}: {more:.2f} times kube-scheduler's {words}"
