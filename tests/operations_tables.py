"""The tables of `docs/operating/metrics-and-logs.md`, made from the declarations of metrics and log lines."""

from __future__ import annotations

from tests.log_lines import ALWAYS, LINES
from tests.reference_tables import SECTION, table
from wharfinger.telemetry.declarations import Kind, Metric


def filled(text: str) -> str:
    """A page with the tables between its markers written again."""
    return SECTION.sub(lambda found: f"{found[1]}\n{TABLES[found['name']]()}\n\n{found[3]}", text)


def metrics() -> str:
    """Every metric with its labels and what it means."""
    return table(("metric", "type", "labels", "is"), (_metric(metric) for metric in Metric))


def _metric(metric: Metric) -> tuple[str, str, str, str]:
    declared = metric.declaration
    said = declared.help.replace("<", r"\<")
    if declared.kind is Kind.HISTOGRAM:
        said += f" {len(declared.buckets)} buckets from {declared.buckets[0]:g} to {declared.buckets[-1]:g}."
    return f"`{declared.name}`", declared.kind.value, ", ".join(f"`{label}`" for label in declared.labels), said


def lines() -> str:
    """Every log line."""
    return table(("event", "level", "means"), ((f"[`{line.event}`](#{_anchor(line.event)})", line.level, line.means) for line in LINES))


def fields() -> str:
    """The fields of each log line."""
    parts = [_fields("any line", ALWAYS), *(_fields(line.event, line.fields) for line in LINES if line.fields)]
    return "\n\n".join(parts)


def _fields(event: str, found: dict[str, str]) -> str:
    names = ((", ".join(f"`{part}`" for part in name.split(", ")), text) for name, text in found.items())
    return f"#### {event}\n\n{table(('field', 'is'), names)}"


def _anchor(event: str) -> str:
    has_fields = next(line.fields for line in LINES if line.event == event)
    return event.replace(" ", "-").replace(";", "") if has_fields else "fields"


TABLES = {"metrics": metrics, "lines": lines, "fields": fields}
