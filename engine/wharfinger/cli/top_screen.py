"""The picture of `wharf top` as lines of text: no wider than they may be, and understood without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wharfinger.cli.running_answers import Decision, PolicyStates, is_troubled
from wharfinger.cli.top_readings import Between
from wharfinger.runtime import layout

QUEUES = ("active", "backoff", "unschedulable", "gated")
RESULTS = ("scheduled", "unschedulable", "error")
MOST_RULES = 5
NARROWEST = 20

Lines = Iterator[tuple[str, str]]
"""Lines of text, each with a style of rich's."""


def screen(
    between: Between, unready: Sequence[str], policies: PolicyStates, decisions: Sequence[Decision], width: int
) -> list[tuple[str, str]]:
    """The lines; `unready` are the checks that fail, with their reasons."""
    parts = (_head(between, unready), _queues(between), _attempts(between), _policies(policies), _rules(between), _errors(between))
    lines = [line for part in parts for line in part]
    lines += _decisions(decisions)
    return [(_cut(text, width), style) for text, style in lines]


def _cut(text: str, width: int) -> str:
    width = max(width, NARROWEST)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _head(between: Between, unready: Sequence[str]) -> Lines:
    now = between.now
    version = next(iter(now.by("wharfinger_build_info", "version")), "?")
    leads = "not ready" if unready else "leads" if now.total("leader_election_master_status") else "stands by"
    sizes = now.by("scheduler_cache_size", "type")
    cluster = ", ".join(f"{int(sizes.get(kind, 0)):,} {kind.replace('_', ' ')}" for kind in ("nodes", "pods", "assumed_pods"))
    yield f"wharfinger {version}, {leads}; {cluster}", "bold red" if unready else "bold"
    yield from ((f"not ready: {reason}", "red") for reason in unready)


def _queues(between: Between) -> Lines:
    depths = between.now.by("scheduler_pending_pods", "queue")
    under_way = between.now.by("scheduler_goroutines", "operation")
    yield f"queue     {'  '.join(f'{queue} {int(depths.get(queue, 0)):,}' for queue in QUEUES)}", ""
    yield f"under way {'  '.join(f'{name} {int(count):,}' for name, count in sorted(under_way.items()))}", ""


def _attempts(between: Between) -> Lines:
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
        for policy, text in zip([None, *found], layout.columns([("POLICY", "STATE", "REVISION"), *rows]).splitlines(), strict=True):
            wrong = policy is not None and is_troubled(policy)
            yield text, "dim" if policy is None else "red" if wrong else ""
    for source in policies["sources"]:
        if source["lost"]:
            yield f"{source['name']} cannot be read: {source['lost']}", "red"


def _rules(between: Between) -> Lines:
    spent = between.grown("wharfinger_policy_rule_seconds_total", "rule")
    rejected = between.grown("wharfinger_policy_rule_rejections_total", "rule")
    slowest = sorted((rule for rule in spent if spent[rule] > 0), key=lambda rule: (-spent[rule], rule))[:MOST_RULES]
    if slowest:
        rows = [(rule, f"{1000 * spent[rule]:,.1f}ms", f"{int(rejected.get(rule, 0)):,}") for rule in slowest]
        yield "", ""
        for number, text in enumerate(layout.columns([("SLOWEST RULES", "TIME", "REJECTED"), *rows], right=frozenset({1, 2})).splitlines()):
            yield text, "" if number else "dim"


def _errors(between: Between) -> Lines:
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
    for each, text in zip([None, *decisions], layout.columns(rows).splitlines(), strict=True):
        yield (
            text,
            "dim" if each is None else "" if each["result"] == "scheduled" else "yellow" if each["result"] == "unschedulable" else "red",
        )
