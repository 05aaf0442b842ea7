"""The state of a running scheduler: `wharf status` prints its policies, `wharf top` shows it live in a terminal.

For `wharf top`, `readings` parses `/metrics`, `MetricsInterval` compares two readings, and `screen` renders lines of text no wider than the
terminal. Colour is never the only sign.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeVar

import typer
from msgspec import Struct

from wharfinger.cli import options, running_process, streams
from wharfinger.cli.running_process import POLICIES, Decision, Decisions, Finding, Policies, Policy, PolicyStates, needs_attention, shaped
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.language.report import wording
from wharfinger.telemetry.declarations import ALL_RULES

# ── wharf status ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

COLUMNS = ("POLICY", "WHOSE", "STATE", "REVISION", "SINCE", "FROM")


def wharf_status(
    url: running_process.Url = running_process.LOCAL_ADDRESS,
    output: options.TextOrJson = "text",
) -> int:
    """Show the policies of a running scheduler: the versions in force, and errors of refused texts. Exit code 1 if something is wrong.

    Something is wrong if the scheduler is not ready, a source cannot be read, a text was refused, or a policy or a metric is suspended.

    $ wharf status --url http://127.0.0.1:10261
    """
    whole = running_process.plain(url, POLICIES)
    unready = running_process.failing(url)
    answer = shaped(whole, Policies, f"{url}{POLICIES}")
    not_ready = [f"not ready: {reason}" for reason in unready]
    if output == "json":
        streams.out(streams.json_text(whole))
        for line in not_ready:
            streams.print_stderr(line)
    else:
        streams.out("".join(f"{line}\n" for line in (*not_ready, *_status_lines(answer))))
    return int(
        bool(unready)
        or any(source["lost"] for source in answer["sources"])
        or any(needs_attention(policy) or _has_suspended_metric(policy) for policy in answer["policies"])
    )


def _has_suspended_metric(policy: Policy) -> bool:
    """True if rules of the policy have no effect now, because too few nodes have a fresh sample of a metric."""
    return any(metric["suspendedSince"] is not None for metric in policy["metrics"])


def _status_lines(answer: Policies) -> Iterator[str]:
    """A table of the policies, then the findings about them and their sources."""
    rows = [_row(policy) for policy in answer["policies"]]
    yield from wording.columns([COLUMNS, *rows]).splitlines() if rows else ("no policies",)
    for source in answer["sources"]:
        if source["lost"]:
            yield f"{source['name']} cannot be read: {source['lost']}"
        yield from (f"{source['name']}: {note}" for note in source["notes"])
    for policy in answer["policies"]:
        yield from (_finding(finding) for finding in policy["diagnostics"])
        if policy["omittedDiagnostics"]:
            yield f"… and {policy['omittedDiagnostics']} more about {policy['key']}"
        yield from (f"{_finding(finding)} (at present)" for finding in policy["now"])
        yield from (f"{policy['name']}: {metric['message']}" for metric in policy["metrics"])


def _row(policy: Policy) -> tuple[str, ...]:
    name = policy["name"] or "?"
    revision = (policy["revision"] or "-")[:12]
    return name, policy["authority"], policy["state"], revision, policy["activeSince"] or "-", f"{policy['source']}: {policy['key']}"


def _finding(finding: Finding) -> str:
    position = f":{finding['line']}:{finding.get('column', 1)}" if "line" in finding else ""
    return f"{finding.get('file', '')}{position}: {finding.get('severity', '')} {finding.get('code', '')}: {finding.get('message', '')}"


# ── wharf top ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

Labels = frozenset[tuple[str, str]]


class Readings(Struct, frozen=True, kw_only=True):
    """The samples of a moment by name and labels; `at` in monotonic seconds."""

    at: float
    samples: Mapping[str, Mapping[Labels, float]]

    def by(self, name: str, *keys: str) -> dict[str, float]:
        """The sum of a metric's samples for each value of a label; of several labels, the values are joined by `/`."""
        found: defaultdict[str, float] = defaultdict(float)
        for labels, value in self.samples.get(name, {}).items():
            values = dict(labels)
            found["/".join(values.get(key, "") for key in keys)] += value
        return dict(found)

    def total(self, name: str) -> float:
        """The sum of all samples of a metric; 0 where there are none."""
        return sum(self.samples.get(name, {}).values())


def readings(text: str, at: float) -> Readings:
    """The readings in the text of `/metrics`; ValueError for another text."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 — imports that `wharf status` does not need

    found: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name][frozenset(sample.labels.items())] = sample.value
    return Readings(at=at, samples=found)


class MetricsInterval(Struct, frozen=True, kw_only=True):
    """Two readings of one process; without a `before`, everything since the process began."""

    now: Readings
    before: Readings | None

    @property
    def seconds(self) -> float | None:
        """The time between the readings; None if there is only one."""
        return None if self.before is None else self.now.at - self.before.at

    def grown(self, name: str, *keys: str) -> dict[str, float]:
        """The growth of a counter by the values of labels, as `Readings.by`; after a restart of the process, its whole value."""
        now = self.now.by(name, *keys)
        before = {} if self.before is None else self.before.by(name, *keys)
        if any(now.get(value, 0.0) < then for value, then in before.items()):
            before = {}
        return {value: count - before.get(value, 0.0) for value, count in now.items()}

    def rate(self, name: str, label: str, value: str) -> float | None:
        """The growth of a counter per second; None with only one reading."""
        return self.grown(name, label).get(value, 0.0) / self.seconds if self.seconds else None

    def quantile(self, name: str, fraction: float) -> float | None:
        """The quantile of a histogram, computed as PromQL's `histogram_quantile`; None without observations."""
        grown = self.grown(f"{name}_bucket", "le")
        buckets = sorted((math.inf if bound == "+Inf" else float(bound), count) for bound, count in grown.items())
        if not buckets or not buckets[-1][1]:
            return None
        rank, low, below = fraction * buckets[-1][1], 0.0, 0.0
        for bound, count in buckets:
            if count >= rank:
                if math.isinf(bound):
                    return low
                return low + (bound - low) * (rank - below) / (count - below) if count > below else bound
            low, below = bound, count
        return low


QUEUES = ("active", "backoff", "unschedulable", "gated")
RESULTS = ("scheduled", "unschedulable", "error")
MAX_RULES = 5
MIN_WIDTH = 20

Lines = Iterator[tuple[str, str]]
"""Lines of text, each with a style of rich's."""


def screen(
    between: MetricsInterval, unready: Sequence[str], policies: PolicyStates, decisions: Sequence[Decision], width: int
) -> list[tuple[str, str]]:
    """The lines; `unready` are the checks that fail, with their reasons."""
    parts = (_head(between, unready), _queues(between), _attempts(between), _policies(policies), _rules(between), _errors(between))
    lines = [line for part in parts for line in part]
    lines += _decisions(decisions)
    return [(_cut(text, width), style) for text, style in lines]


def _cut(text: str, width: int) -> str:
    width = max(width, MIN_WIDTH)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _head(between: MetricsInterval, unready: Sequence[str]) -> Lines:
    now = between.now
    version = next(iter(now.by("wharfinger_build_info", "version")), "?")
    role = "not ready" if unready else "leader" if now.total("leader_election_master_status") else "standby"
    sizes = now.by("scheduler_cache_size", "type")
    cluster = ", ".join(f"{int(sizes.get(kind, 0)):,} {kind.replace('_', ' ')}" for kind in ("nodes", "pods", "assumed_pods"))
    yield f"wharfinger {version}, {role}; {cluster}", "bold red" if unready else "bold"
    yield from ((f"not ready: {reason}", "red") for reason in unready)


def _queues(between: MetricsInterval) -> Lines:
    depths = between.now.by("scheduler_pending_pods", "queue")
    under_way = between.now.by("scheduler_goroutines", "operation")
    yield f"queue     {'  '.join(f'{queue} {int(depths.get(queue, 0)):,}' for queue in QUEUES)}", ""
    yield f"under way {'  '.join(f'{name} {int(count):,}' for name, count in sorted(under_way.items()))}", ""


def _attempts(between: MetricsInterval) -> Lines:
    name = "scheduler_schedule_attempts_total"
    if between.seconds is None:
        counts = between.now.by(name, "result")
        yield f"attempts  {'  '.join(f'{result} {int(counts.get(result, 0)):,}' for result in RESULTS)}", ""
    else:
        rates = {result: between.rate(name, "result", result) or 0.0 for result in RESULTS}
        yield f"per s     {'  '.join(f'{result} {rate:,.1f}' for result, rate in rates.items())}", ""
    durations = (
        ("decision", "scheduler_scheduling_algorithm_duration_seconds"),
        ("attempt", "scheduler_scheduling_attempt_duration_seconds"),
        ("pod", "scheduler_pod_scheduling_sli_duration_seconds"),
    )
    shown = (f"{title} {_time(between.quantile(metric, 0.5))}/{_time(between.quantile(metric, 0.99))}" for title, metric in durations)
    yield f"P50/P99   {'  '.join(shown)}", ""


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1000 * seconds:.1f}ms" if seconds < 1 else f"{seconds:.1f}s"


def _policies(policies: PolicyStates) -> Lines:
    found = policies["policies"]
    if found:
        rows = [(policy["name"] or "?", policy["state"], (policy["revision"] or "-")[:12]) for policy in found]
        yield "", ""
        for policy, text in zip([None, *found], wording.columns([("POLICY", "STATE", "REVISION"), *rows]).splitlines(), strict=True):
            wrong = policy is not None and needs_attention(policy)
            yield text, "dim" if policy is None else "red" if wrong else ""
    for policy in found:
        ill = (metric for metric in policy["metrics"] if metric["suspendedSince"] is not None or metric["failure"])
        yield from ((f"{policy['name']}: {metric['message']}", "yellow") for metric in ill)
    for source in policies["sources"]:
        if source["lost"]:
            yield f"{source['name']} cannot be read: {source['lost']}", "red"


def _rules(between: MetricsInterval) -> Lines:
    spent = between.grown("wharfinger_policy_rule_seconds_total", "policy", "rule")
    rejected = between.grown("wharfinger_policy_rule_rejections_total", "policy", "rule")
    slowest = sorted((rule for rule in spent if spent[rule] > 0), key=lambda rule: (-spent[rule], rule))[:MAX_RULES]
    if slowest:
        names = {rule: rule.replace(f"/{ALL_RULES}", " (all rules)") for rule in slowest}
        rows = [(names[rule], f"{1000 * spent[rule]:,.1f}ms", f"{int(rejected.get(rule, 0)):,}") for rule in slowest]
        yield "", ""
        for number, text in enumerate(
            wording.columns([("SLOWEST RULES", "TIME", "REJECTED"), *rows], right=frozenset({1, 2})).splitlines()
        ):
            yield text, "" if number else "dim"


def _errors(between: MetricsInterval) -> Lines:
    grown = {place: count for place, count in between.grown("wharfinger_errors_total", "place").items() if count}
    if grown:
        yield "", ""
        yield f"errors    {'  '.join(f'{place} {int(count):,}' for place, count in sorted(grown.items()))}", "red"


def _decisions(decisions: Sequence[Decision]) -> Lines:
    if not decisions:
        return
    rows = [
        ("RECENTLY", "POD", "NODE OR REASON"),
        *((each["at"][11:19], each["pod"], each["node"] or each["message"]) for each in decisions),
    ]
    yield "", ""
    for each, text in zip([None, *decisions], wording.columns(rows).splitlines(), strict=True):
        yield (
            text,
            "dim" if each is None else "" if each["result"] == "scheduled" else "yellow" if each["result"] == "unschedulable" else "red",
        )


_TIMEOUT = 5.0
_MIN_DECISIONS, _MAX_DECISIONS = 3, 50
_OTHER_LINES = 16

T = TypeVar("T")
Picture = tuple[MetricsInterval, Sequence[str], PolicyStates, Sequence[Decision]]


def wharf_top(
    url: running_process.Url = running_process.LOCAL_ADDRESS,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, max=3600.0, help="The time between two updates.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the totals since the process started, once.")] = False,
) -> int:
    """Watch a running scheduler: queues, rates, latencies, policies, slow rules, recent decisions, errors. Ctrl+C ends it.

    $ wharf top --interval 5
    """
    running_process.check(url)
    if once or not sys.stdout.isatty() or os.environ.get("TERM") in {"dumb", "unknown"}:  # where no line can be drawn again
        lines = screen(*_picture(url, None), shutil.get_terminal_size((100, 40)).columns)
        streams.out("".join(f"{text}\n" for text, _ in lines))
        return 0
    try:
        _watch(url, interval)
    except KeyboardInterrupt:
        return 0
    return 0


def _picture(url: str, before: Readings | None) -> Picture:
    """The present readings of the process."""
    text = running_process.text(url, "/metrics", _TIMEOUT)
    try:
        now = readings(text, time.monotonic())
    except ValueError as error:
        raise UsageError(f"{url}/metrics: this is not an answer of a scheduler: {error}") from error
    rows = shutil.get_terminal_size((100, 40)).lines
    wanted = max(_MIN_DECISIONS, min(_MAX_DECISIONS, rows - _OTHER_LINES))
    decisions = _fetched(url, f"/decisions?limit={wanted}", Decisions)["decisions"]
    return MetricsInterval(now=now, before=before), running_process.failing(url, _TIMEOUT), _fetched(url, POLICIES, PolicyStates), decisions


def _fetched(url: str, path: str, shape: type[T]) -> T:
    return shaped(running_process.plain(url, path, _TIMEOUT), shape, f"{url}{path}")


def _watch(url: str, interval: float) -> None:
    """Draw again and again, also while the scheduler does not answer; never returns."""
    from rich.console import Console  # noqa: PLC0415 — 40 ms that only a terminal is worth
    from rich.live import Live  # noqa: PLC0415 — as above
    from rich.text import Text  # noqa: PLC0415 — as above

    from wharfinger.cli.live_cluster import signals_as_interrupt  # noqa: PLC0415 — as above

    console = Console(no_color=not streams.colors(sys.stdout), highlight=False)
    before: Readings | None = None
    shown: list[tuple[str, str]] = []
    with signals_as_interrupt(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            trouble: list[tuple[str, str]] = []
            try:
                picture = _picture(url, before)
                shown = screen(*picture, console.width)
                before = picture[0].now
            except WharfingerError as error:
                after = "; what follows is the last that was known" if shown else ""
                trouble = [*((line, "bold red") for line in str(error).splitlines()), (f"asking again{after}", "red")]
            text = Text("\n").join(Text(line, style, no_wrap=True, overflow="ellipsis") for line, style in trouble + shown)
            live.update(text, refresh=True)
            time.sleep(interval)
