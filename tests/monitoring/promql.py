"""Expressions of PromQL with the declared metrics and labels: an unknown name raises an error."""

from __future__ import annotations

from wharfinger.telemetry.declarations import Kind, Metric

SUFFIXES = {Kind.HISTOGRAM: {"_bucket": ("le",), "_sum": (), "_count": ()}, Kind.COUNTER: {"": ()}, Kind.GAUGE: {"": ()}}
OF_THE_TARGET = ("job", "instance")
"""Labels that Prometheus adds to everything it reads."""


def series(metric: Metric, suffix: str = "", /, *, where: str = "", **equal: str) -> str:
    """The selector of a metric; `where` are further matchers, as `job=~"$job"`. KeyError for a label or suffix that it has not."""
    declared = metric.declaration
    known = (*declared.labels, *SUFFIXES[declared.kind][suffix])
    if unknown := [label for label in equal if label not in known]:
        raise KeyError(f"{declared.name}{suffix} has no label {unknown[0]}; it has {', '.join(known) or 'none'}")
    matchers = [*([where] if where else []), *(_matcher(label, value) for label, value in equal.items())]
    return f"{declared.name}{suffix}{{{', '.join(matchers)}}}" if matchers else f"{declared.name}{suffix}"


def _matcher(label: str, value: str) -> str:
    """`label="value"`, or `label=~"…"` for a value that is written as `~…`."""
    return f'{label}=~"{value[1:]}"' if value.startswith("~") else f'{label}="{value}"'


def summed(expr: str, *by: str) -> str:
    """The sum of an expression, by labels."""
    return f"sum by ({', '.join(by)}) ({expr})" if by else f"sum({expr})"


def rate(metric: Metric, suffix: str = "", /, *by: str, over: str = "$__rate_interval", where: str = "", **equal: str) -> str:
    """Its growth per second, summed over replicas, by labels; KeyError for a label that it has not."""
    _check(metric, suffix, by)
    return summed(f"rate({series(metric, suffix, where=where, **equal)}[{over}])", *by)


def quantile(share: float, metric: Metric, *by: str, over: str = "$__rate_interval", where: str = "", **equal: str) -> str:
    """A quantile of a histogram over all replicas, by labels."""
    return f"histogram_quantile({share:g}, {rate(metric, '_bucket', 'le', *by, over=over, where=where, **equal)})"


def mean(metric: Metric, *by: str, over: str = "$__rate_interval", where: str = "", **equal: str) -> str:
    """The mean of what a histogram has observed, by labels."""
    parts = [rate(metric, suffix, *by, over=over, where=where, **equal) for suffix in ("_sum", "_count")]
    return " / ".join(parts)


def _check(metric: Metric, suffix: str, by: tuple[str, ...]) -> None:
    declared = metric.declaration
    known = (*declared.labels, *SUFFIXES[declared.kind][suffix], *OF_THE_TARGET)
    if unknown := [label for label in by if label not in known]:
        raise KeyError(f"{declared.name}{suffix} has no label {unknown[0]}; it has {', '.join(known)}")
