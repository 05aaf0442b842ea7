"""Metrics and log lines about the scheduler's attempts, preemptions and errors.

Each attempt is one line and a handful of metrics and must be nearly free, since there are thousands a second: label sets are looked up once
and kept. Of errors that repeat, only the first few of a kind are logged; the others are counted.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from functools import cache
from typing import Any

from msgspec import Struct

from wharfinger.emit import Failed, Handlers
from wharfinger.errors import PluginFault, WharfingerError
from wharfinger.framework.plugin_calls import Stopwatch
from wharfinger.framework.ports import BindFailed, WriteFailed
from wharfinger.scheduler.events import AttemptEnded, GroupAttemptEnded, PodQueued, PodsFlushed, Preempted
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.logs import Log, redacted
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.timing import DecisionStopwatch, StatisticsOfRules

OTHER = "other"

_PLACES = (  # by the beginning of the text; a longer one comes before its prefixes
    ("status of ", "status"),
    ("pod ", "pod"),
    ("group ", "group"),
    ("binding cycle", "binding"),
    ("giving devices back", "binding"),
    ("permits of policies", "binding"),
    ("preemption", "preemption"),
    ("plugin ", "plugin"),
    ("watch of ", "watch"),
    ("object of kind ", "object"),
    ("lease", "lease"),
    ("event", "event"),
    ("stopping", "stopping"),
    ("policies", "policies"),
    ("decision log", "decision log"),
    ("traces", "traces"),
    ("reconciling ", "reconciling"),
    ("live page", "live page"),
)


def place_of(where: str) -> str:
    """The place, of a fixed set."""
    for beginning, place in _PLACES:
        if where.startswith(beginning):
            return place
    if " after binding " in where:
        return "post bind"
    kind = where.partition(" ")[0]
    return "object" if kind[:1].isupper() and kind.isalpha() else OTHER


Kind = tuple[str, str]
"""The component and the kind of an error."""


class _Window(Struct):
    """Counts of one kind of error since `began`."""

    began: float
    logged: int = 0
    suppressed: int = 0


MAX_EQUAL_ERRORS = 5
EQUAL_ERRORS_SECONDS = 10.0
MAX_KINDS = 256


class RepeatedErrors:
    """Passes `MAX_EQUAL_ERRORS` errors of a kind in `EQUAL_ERRORS_SECONDS`, and stores at most `MAX_KINDS` kinds at a time."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._windows: OrderedDict[Kind, _Window] = OrderedDict()
        self._next_end = 0.0
        self.suppressed = 0

    def admits(self, kind: Kind) -> bool:
        """True if this error of its kind is logged."""
        window = self._windows.get(kind)
        if window is None:
            if len(self._windows) >= MAX_KINDS:
                self._windows.popitem(last=False)
            window = self._windows[kind] = _Window(self._monotonic())
        if window.logged < MAX_EQUAL_ERRORS:
            window.logged += 1
            return True
        window.suppressed += 1
        self.suppressed += 1
        return False

    def ended(self, *, all_of_them: bool = False) -> Iterator[tuple[Kind, int]]:
        """Kinds whose time is over (or all), each with how many were held back if any were; they begin again."""
        now = self._monotonic()
        if now < self._next_end and not all_of_them:
            return
        self._next_end = now + EQUAL_ERRORS_SECONDS / 10
        for kind, window in list(self._windows.items()):
            if all_of_them or now - window.began >= EQUAL_ERRORS_SECONDS:
                del self._windows[kind]
                if window.suppressed:
                    yield kind, window.suppressed


MAX_ATTEMPTS_LABEL = 15
"""Attempts from which on they are counted together, as kube-scheduler does (schedule_one.go, `getAttemptsLabel`)."""

POINTS = {"reserve": "Reserve", "permit": "Permit", "pre_bind": "PreBind", "bind": "Bind"}
"""Stages of an attempt that are extension points."""

STATUS = {"scheduled": "Success", "unschedulable": "Unschedulable", "error": "Error"}

_EXPECTED = (WharfingerError, BindFailed, WriteFailed, OSError)


class SchedulingTelemetry:
    """Counts and logs what the scheduler does. `monotonic` is the clock for the suppression of repeated errors."""

    def __init__(self, metrics: Metrics, log: Log, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._logs_attempts = self._log.is_enabled_for(logging.INFO)
        self._metrics = metrics
        self._statistics = StatisticsOfRules(metrics)
        self._repeats = RepeatedErrors(monotonic)
        counter, histogram = metrics.counter, metrics.histogram
        self._attempts = cache(counter(Metric.ATTEMPTS).labels)
        self._attempt_seconds = cache(histogram(Metric.ATTEMPT_DURATION).labels)
        self._point_seconds = cache(histogram(Metric.POINT_DURATION).labels)
        self._permit_wait = cache(histogram(Metric.PERMIT_WAIT).labels)
        self._sli = cache(histogram(Metric.SLI_DURATION).labels)
        self._incoming = cache(counter(Metric.INCOMING_PODS).labels)
        self._errors = cache(counter(Metric.ERRORS).labels)
        self._plugin_faults = cache(counter(Metric.PLUGIN_FAULTS).labels)
        self._algorithm = histogram(Metric.ALGORITHM_DURATION)
        self._tries = histogram(Metric.POD_ATTEMPTS)
        self._flushed = counter(Metric.FLUSHED)
        self._late = counter(Metric.SCHEDULED_AFTER_FLUSH)
        self._preemptions = counter(Metric.PREEMPTION_ATTEMPTS)
        self._victims = histogram(Metric.PREEMPTION_VICTIMS)
        self._group_attempts = cache(counter(Metric.GROUP_ATTEMPTS).labels)
        self._group_seconds = cache(histogram(Metric.GROUP_ATTEMPT_DURATION).labels)
        self._group_algorithm = histogram(Metric.GROUP_ALGORITHM_DURATION)
        self.handlers: Handlers = {
            AttemptEnded: self._attempted,
            GroupAttemptEnded: self._group_attempted,
            PodQueued: lambda event: self._incoming(event.queue, event.cause).inc(),
            Preempted: self._preempted,
            PodsFlushed: self._pods_flushed,
            Failed: self._failed,
        }
        metrics.read(Metric.LOG_LINES_LEFT_OUT, lambda: {("repeated",): self._repeats.suppressed})

    def _attempted(self, attempt: AttemptEnded) -> None:
        """Count an attempt and write its line."""
        result, profile = attempt.result, attempt.profile
        self._attempts(result, profile).inc()
        self._attempt_seconds(result, profile).observe(attempt.ended - attempt.started)
        self._stages(attempt)
        if result == "scheduled":
            self._placed(attempt)
        if result == "error":
            self._log.warning("attempt", **line_of(attempt))
        elif self._logs_attempts:
            self._log.info("attempt", **line_of(attempt))
        self._log_suppressed()

    def _group_attempted(self, attempt: GroupAttemptEnded) -> None:
        """Count an attempt to place a group and write its line."""
        result, profile = attempt.result, attempt.profile
        self._group_attempts(result, profile).inc()
        self._group_seconds(result, profile).observe(attempt.ended - attempt.started)
        self._group_algorithm.observe(attempt.searched)
        if result == "error":
            self._log.warning("group attempt", **line_of_group(attempt))
        else:
            self._log.info("group attempt", **line_of_group(attempt))

    def _preempted(self, event: Preempted) -> None:
        pod = event.preemptor
        self._preemptions.inc()
        self._victims.observe(event.victims)
        self._log.info("preemption", pod=pod.key, uid=pod.uid, node=event.node, victims=event.victims)

    def _pods_flushed(self, event: PodsFlushed) -> None:
        self._flushed.inc(event.pods)
        self._log.warning("pods waited too long", pods=event.pods)

    def _failed(self, event: Failed) -> None:
        """Count an error, and write its line unless there were many of its kind just now."""
        where, error = event.where, event.error
        place = place_of(where)
        self._errors(place).inc()
        if isinstance(error, PluginFault):
            self._plugin_faults(error.plugin, error.method).inc()
        kind = type(error).__name__
        self._log_suppressed()
        if self._repeats.admits((place, kind)):
            self._log_failure(where, place, kind, error)

    def stopwatch(self, profile: str) -> Stopwatch:
        """The stopwatch of the decisions of a profile."""
        return DecisionStopwatch(self._metrics, self._statistics, profile)

    def limit_rules_to(self, present: Callable[[], Container[tuple[str, str]]]) -> None:
        """Limit the metrics of rules to those with these labels."""
        self._statistics.present = present

    def close(self) -> None:
        """Log the counts of all errors that were not logged."""
        self._log_suppressed(all_of_it=True)

    def _stages(self, attempt: AttemptEnded) -> None:
        *_, last = ("", *attempt.stages)  # the attempt has the result of its last stage
        for stage, seconds in attempt.stages.items():
            status = STATUS[attempt.result] if stage == last else "Success"
            if stage in POINTS:
                self._point_seconds(POINTS[stage], status, attempt.profile).observe(seconds)
            if stage == "decide":
                self._algorithm.observe(seconds)
            elif stage == "permit":
                self._permit_wait(status).observe(seconds)

    def _placed(self, attempt: AttemptEnded) -> None:
        attempts = attempt.attempts
        self._tries.observe(attempts)
        self._sli(str(attempts) if attempts < MAX_ATTEMPTS_LABEL else f"{MAX_ATTEMPTS_LABEL}+").observe(attempt.ended - attempt.first_seen)
        if attempt.flushed:
            self._late.inc()

    def _log_failure(self, where: str, place: str, kind: str, error: BaseException) -> None:
        fields = {"where": where, "place": place, "error": redacted(str(error)), "kind": kind}
        if isinstance(error, _EXPECTED) and not isinstance(error, PluginFault):
            self._log.warning("failed", **fields)
        else:
            self._log.error("failed", **fields, exc_info=error)

    def _log_suppressed(self, *, all_of_it: bool = False) -> None:
        for (place, kind), lines in self._repeats.ended(all_of_them=all_of_it):
            self._log.warning("errors suppressed", place=place, kind=kind, lines=lines)


def line_of(attempt: AttemptEnded) -> dict[str, Any]:
    """The fields of an attempt's line; stages in milliseconds, those that did not run left out."""
    pod = attempt.pod
    fields: dict[str, Any] = {
        "pod": pod.key,
        "uid": pod.uid,
        "result": attempt.result,
        "profile": attempt.profile,
        "policy_revision": attempt.policy_revision[:12],
        "snapshot_revision": attempt.snapshot_revision,
        "feasible": attempt.feasible,
        "nodes": attempt.n_nodes,
        "attempts": attempt.attempts,
    }
    if attempt.group:
        fields["group"] = attempt.group
    if attempt.node is not None:
        fields["node"] = attempt.node
    if attempt.message:
        fields["message"] = redacted(attempt.message) if attempt.result == "error" else attempt.message
    if attempt.plugins:
        fields["plugins"] = attempt.plugins
    for stage, seconds in attempt.stages.items():
        fields[f"{stage}_ms"] = round(1000 * seconds, 3)
    fields["total_ms"] = round(1000 * (attempt.ended - attempt.started), 3)
    return fields


def line_of_group(attempt: GroupAttemptEnded) -> dict[str, Any]:
    """The fields of the line of a group's attempt."""
    fields: dict[str, Any] = {
        "group": attempt.key,
        "source": attempt.terms.source,
        "result": attempt.result,
        "profile": attempt.profile,
        "min_count": attempt.terms.min_count,
        "placed": len(attempt.nodes),
        "placed_before": attempt.was_placed,
        "without_node": len(attempt.left),
    }
    if attempt.domains:
        fields["domains"] = dict(attempt.domains)
    if attempt.message:
        fields["message"] = redacted(attempt.message) if attempt.result == "error" else attempt.message
    fields["search_ms"] = round(1000 * attempt.searched, 3)
    fields["total_ms"] = round(1000 * (attempt.ended - attempt.started), 3)
    return fields
