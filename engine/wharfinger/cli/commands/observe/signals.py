"""`wharf signals check`: sends every metric query of the policies once and shows the answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from wharfinger.cli import chosen_policies, live_cluster, options, streams
from wharfinger.errors import UsageError
from wharfinger.language.report.wording import count
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import Kind

if TYPE_CHECKING:
    from wharfinger.daemon.settings import Settings
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.signals.survey import MetricSurvey


def wharf_signals(  # noqa: PLR0913, PLR0917 — one parameter per flag
    action: Annotated[Literal["check"], typer.Argument(help="`check` is the only action.")],  # noqa: ARG001 — there is but one
    paths: options.Paths = None,
    prometheus: options.PrometheusUrl = None,
    config: options.Servers = None,
    snapshot: Annotated[list[str] | None, options.SNAPSHOT] = None,
    live: Annotated[bool, typer.Option("--live", help="Compare with the nodes of the cluster that the kubeconfig names.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    slow: Annotated[float, typer.Option("--slow", metavar="SECONDS", help="The time after which an answer is reported as slow.")] = 1.0,
    output: options.TextOrJson = "text",
) -> int:
    """Run each metric query of the policies once, and report problems. Exit code 1 if there is one.

    $ wharf signals check policies/ --prometheus http://prometheus:9090
    """
    if not slow >= 0:
        raise UsageError(f"--slow: expected seconds from 0 on, not {slow:g}")
    settings = live_cluster.settings_of(config, prometheus)
    policies = _with_metrics(options.existing(paths or live_cluster.policy_paths(settings) or None))
    state = live_cluster.state_of(snapshot or (), kubeconfig, context, live=live)
    if state is None:
        streams.warn(["without --snapshot or --live there are no findings about nodes"])
    found = asyncio.run(_surveyed(policies, settings, state, kubeconfig, context, slow))
    streams.out(table(found) if output == "text" else as_json(found))
    return 1 if any(each.errors or each.warnings for each in found) else 0


async def _surveyed(  # noqa: PLR0913, PLR0917 — the policies, and the flags that are passed on
    policies: Sequence[typed.Policy],
    settings: Settings,
    state: ClusterState | None,
    kubeconfig: str | None,
    context: str | None,
    slow: float,
) -> list[MetricSurvey]:
    from wharfinger.event_loop import SystemClock  # noqa: PLC0415 — half a second of imports that no other command needs
    from wharfinger.signals.survey import survey  # noqa: PLC0415 — as above

    async with live_cluster.sources(policies, settings, kubeconfig, context) as sources:
        return await survey(policies, sources, state, SystemClock(), slow=slow)


def _with_metrics(paths: Sequence[str]) -> list[typed.Policy]:
    policies = chosen_policies.loaded(paths)
    if not any(policy.metrics for policy in policies):
        raise UsageError(f"no policy in {', '.join(str(Path(path)) for path in paths)} has a metric")
    return policies


_UNITS = {Kind.PERCENT: (100.0, " %"), Kind.CPU: (0.001, " cores"), Kind.MEMORY: (2.0**-30, " GiB"), Kind.DURATION: (1.0, " s")}


def table(found: Sequence[MetricSurvey]) -> str:
    """The report as text: a few lines for each metric."""
    return "\n\n".join("\n".join(_lines(each)) for each in found) + "\n"


def as_json(found: Sequence[MetricSurvey]) -> str:
    """The report as one JSON document."""
    return streams.json_text([_plain(each) for each in found])


def _lines(each: MetricSurvey) -> Iterator[str]:
    metric = each.metric
    yield f"{each.policy}.{metric.name}: {metric.type.kind.value}"
    yield f"  {each.answer.query}"
    if each.answer.found is not None:
        yield f"  {' · '.join(_facts(each))}"
    yield from (f"  error: {sentence}" for sentence in each.errors)
    yield from (f"  warning: {sentence}" for sentence in each.warnings)


def _facts(each: MetricSurvey) -> Iterator[str]:
    found, suspension, metric = each.answer.found, each.suspension, each.metric
    if found is None:
        return
    yield f"{found.n_series:,} series"
    if suspension is not None:
        fresh = round(suspension.coverage * suspension.n_nodes)
        yield f"fresh on {fresh:,} of {count(suspension.n_nodes, 'node')} ({suspension.coverage:.0%}, needs {metric.min_coverage:.0%})"
        values = found.column.values[found.column.present]
        if len(values):
            yield f"{_number(metric.type.kind, values.min())} to {_number(metric.type.kind, values.max())}"
        if math.isfinite(suspension.age):
            yield f"newest {max(0.0, suspension.age):.0f} s old, at most {metric.max_age:g} s"
    yield f"answered in {each.answer.seconds:.2f} s"


def _number(kind: Kind, value: Any) -> str:
    factor, unit = _UNITS.get(kind, (1.0, ""))
    return f"{float(value) * factor:,.4g}{unit}"


def _plain(each: MetricSurvey) -> dict[str, Any]:
    found, suspension = each.answer.found, each.suspension
    values = np.zeros(0) if found is None else found.column.values[found.column.present]
    return {
        "policy": each.policy,
        "metric": each.metric.name,
        "type": each.metric.type.kind.value,
        "query": str(each.answer.query),
        "seconds": round(each.answer.seconds, 3),
        "series": None if found is None else found.n_series,
        "coverage": None if suspension is None else round(suspension.coverage, 4),
        "minCoverage": each.metric.min_coverage,
        "youngestSeconds": None if suspension is None or not math.isfinite(suspension.age) else round(suspension.age, 1),
        "least": float(values.min()) if len(values) else None,
        "most": float(values.max()) if len(values) else None,
        "errors": list(each.errors),
        "warnings": list(each.warnings),
    }
