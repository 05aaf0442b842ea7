"""An `Explanation` as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wharfinger.framework.decision import ScorePart
from wharfinger.runtime import layout
from wharfinger.runtime.explanation import Explanation, Step, Verdict

MOST_REASONS = 6


def text(found: Explanation) -> str:
    """The whole report, ending in a newline."""
    parts = ["\n".join(_headline(found)) + "\n", _filters(found), *_nearest(found), _scores(found), *_asked(found)]
    return "\n".join(part for part in parts if part)


def _headline(found: Explanation) -> Iterator[str]:
    if found.node is None:
        yield f"{found.pod}: {found.message}"
    else:
        yield f"{found.pod} → {found.node}: {'; '.join(_standing(found))}"
    if found.policies:
        yield f"  governed by {', '.join(found.policies)}"
    yield from (f"  note: {note}" for note in found.notes)


def _standing(found: Explanation) -> Iterator[str]:
    yield f"{found.feasible:,} of {layout.count(found.n_nodes, 'node')} feasible"
    if found.margin is None:
        yield "no other to compare with"
    elif found.margin > 0:
        yield f"{layout.number(found.margin)} ahead of {found.top[1].node}"
    else:
        yield f"level with {found.top[1].node}"
    if found.ties > 1:
        yield f"{layout.count(found.ties, 'node')} equally good, chosen by the stable hash"


def _filters(found: Explanation) -> str:
    rows: list[Sequence[str]] = [("step", "alone", "so far", "filter")]
    for number, step in enumerate(step for step in found.steps if not step.skipped):
        rows.append((f"[{number}]", f"{step.alone:,}", f"{step.so_far:,}", step.rule + (f"  {step.at}" if step.at else "")))
        rows += [("", "", "", f"  {reason}") for reason in _reasons(step)]
    if len(rows) == 1:
        return ""
    head = f"  nodes that pass each filter alone, and with all filters above it (of {found.n_nodes:,})\n"
    return head + layout.columns(rows, right=frozenset({1, 2}), indent="  ")


def _reasons(step: Step) -> Iterator[str]:
    shown = list(step.reasons.items())[:MOST_REASONS]
    for index, (reason, count) in enumerate(shown):
        example = f", e.g. {step.example}" if index == 0 and step.example else ""
        yield f"rejects {layout.count(count, 'node')}{example}: {reason}"
    if len(step.reasons) > MOST_REASONS:
        yield f"… and {layout.count(len(step.reasons) - MOST_REASONS, 'more reason')}"


def _nearest(found: Explanation) -> Iterator[str]:
    if not found.nearest or found.node is not None:
        return
    against = len(found.nearest[0].rejected_by)
    lines = [f"  nearest miss: {layout.count(against, 'filter')} in the way"]
    for report in found.nearest:
        lines += [f"    {report.node}", *(f"      {line}" for verdict in report.rejected_by for line in _rejection(verdict))]
    yield "\n".join(lines) + "\n"


def _rejection(verdict: Verdict) -> Iterator[str]:
    for sentence in verdict.sentences:
        yield f"{verdict.rule}: {sentence}"
    yield from (f"  {line}" for line in verdict.values)


def _scores(found: Explanation) -> str:
    """The best nodes side by side: raw value → points × weight = what the rule adds."""
    if not found.top:
        return ""
    names = [part.name for part in found.top[0].scores]
    rows: list[Sequence[str]] = [("score", "weight", *(report.node for report in found.top))]
    for index, name in enumerate(names):
        parts = [report.scores[index] for report in found.top]
        tier = f" (tier {parts[0].tier})" if parts[0].tier != 1 else ""
        rows.append((name + tier, layout.number(parts[0].weight), *map(_part, parts)))
    rows.append(("total", "", *(" / ".join(map(layout.number, report.totals)) for report in found.top)))
    right = frozenset(range(1, len(rows[0])))
    return "  the best nodes: raw → points × weight = what each score adds\n" + layout.columns(rows, right=right, indent="  ")


def _part(part: ScorePart) -> str:
    raw = "-" if part.raw is None else layout.number(part.raw)
    return f"{raw} → {layout.number(part.points)} = {layout.number(part.weighted)}"


def _asked(found: Explanation) -> Iterator[str]:
    for report in found.asked:
        rejected = report.rejected_by
        standing = f"rejected by {layout.count(len(rejected), 'filter')}" if rejected else "feasible"
        lines = [f"  node {report.node}: {standing}"]
        for verdict in report.verdicts:
            lines += [f"    {line}" for line in _rejection(verdict)] or [f"    {verdict.rule}: passes"]
        lines += [f"    {part.name}: {_part(part)} (weight {layout.number(part.weight)})" for part in report.scores]
        if report.totals:
            lines.append(f"    total: {' / '.join(map(layout.number, report.totals))}")
        yield "\n".join(lines) + "\n"
