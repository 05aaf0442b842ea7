"""Reads every metric of some policies once, and reports the result, the time, and problems.

Some values hardly fit their unit: a percentage of 3,700 %, more cores in use than there are. The usual mistake is one of scale: Prometheus
has seconds, bytes, cores and fractions, and queries multiply them for a dashboard.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.errors import on_one_line
from wharfinger.framework.ports import Clock
from wharfinger.language.semantics import typed, types
from wharfinger.language.semantics.catalogue import SOURCES
from wharfinger.language.semantics.types import Kind
from wharfinger.model.columns.metric_table import Samples
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.signals.mapping import Mapped, NodeNames
from wharfinger.signals.query import Query, queries_of
from wharfinger.signals.refreshing import SignalFailed, Source, Suspension, suspension_of

_COUNTABLE = 1e9  # above it, all digits are no longer readable
_TOO_FULL = 2.0  # times what there is: a burst may be measured above capacity for a moment


def value_warnings(metric: typed.Metric, found: Mapped, snapshot: Snapshot) -> Iterator[str]:
    """A warning for each sign that the values may be wrong."""
    values = found.column.values[found.column.present]
    if not len(values):
        return
    kind = metric.type.kind
    if kind is Kind.PERCENT:
        yield from _percent(values)
    elif kind in {Kind.CPU, Kind.MEMORY}:
        yield from _resource(kind, found, snapshot)
    elif kind is Kind.COUNT and (values != np.rint(values)).any():
        yield f"a count of {values[values != np.rint(values)][0]:g} is not whole"
    if len(values) > 1 and values.min() == values.max():
        yield f"all {len(values):,} nodes have the same value, so it distinguishes no nodes"


def _percent(values: NDArray[Any]) -> Iterator[str]:
    highest = float(values.max())
    if highest > _TOO_FULL:
        yield f"values up to {_percentage(highest)}: 100 % is 1 in the answer of a query; divide by 100?"
    if float(values.min()) < -0.01:
        yield f"values down to {_percentage(float(values.min()))}"


def _resource(kind: Kind, found: Mapped, snapshot: Snapshot) -> Iterator[str]:
    index = snapshot.resource_index(kind.value)
    if index is None:
        return
    capacity = snapshot.capacity[index].astype(np.float64)
    present = found.column.present
    if len(present) != len(capacity):
        return
    share = np.divide(found.column.values, capacity, out=np.zeros(len(capacity)), where=present & (capacity > 0))
    if share.max() > _TOO_FULL:
        expected = "cores" if kind is Kind.CPU else "bytes"
        yield f"values up to {share.max():,.0f} times what the node has; the answer of a query is taken as {expected}"


def _percentage(value: float) -> str:
    return f"{100 * value:,.0f} %" if value < _COUNTABLE else f"{100 * value:.3g} %"


_SHOWN = 300
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_RANGE = re.compile(r"\[\s*((?:[0-9]+(?:ms|[smhdwy]))+)")
_DURATION = re.compile(r"([0-9]+)(ms|[smhdwy])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}

SLOW_QUERY_SECONDS = 1.0
"""Seconds above which a query is reported as slow: it is sent several times a minute."""


class QueryResult(Struct, frozen=True, kw_only=True):
    """One query: its samples or its failure, and the seconds it took."""

    query: Query
    found: Mapped | None
    failure: SignalFailed | None
    seconds: float


class MetricSurvey(Struct, frozen=True, kw_only=True):
    """One metric of a policy: the answer to its query, its coverage (None: no nodes are known), and its problems, in sentences."""

    policy: str
    metric: typed.Metric
    answer: QueryResult
    suspension: Suspension | None
    errors: Sequence[str]
    warnings: Sequence[str]


async def send_queries(
    queries: Iterable[Query], sources: Mapping[str, Source], nodes: NodeNames, clock: Clock
) -> Mapping[str, QueryResult]:
    """The answers by key; all queries are sent at the same time, as far as their sources allow."""

    async def ask(query: Query) -> QueryResult:
        began = clock.monotonic()
        found, failure = None, None
        try:
            found = await sources[query.source].measured(query, nodes)
        except SignalFailed as error:
            failure = error
        return QueryResult(query=query, found=found, failure=failure, seconds=clock.monotonic() - began)

    answers = await asyncio.gather(*(ask(query) for query in queries))
    return {answer.query.key: answer for answer in answers}


async def newly_exported(answer: QueryResult, seconds: float, sources: Mapping[str, Source], nodes: NodeNames) -> Sequence[str] | None:
    """The nodes of an answer that had no series yet at the start of the time its query looks back; None if unknown.

    A rate divides by its whole window, even if the series existed for a part of it only.
    """
    if answer.found is None:
        return None
    before = f"last_over_time(({answer.query.text})[1s:1s] offset {math.ceil(seconds)}s)"
    try:
        found = await sources[answer.query.source].measured(replace(answer.query, text=before, times=None), nodes)
    except SignalFailed:
        return None
    return sorted(answer.found.samples.keys() - found.samples.keys())


def lookback(metric: typed.Metric) -> float:
    """The seconds before a sample that its value is made of: the metric's `window`, or the longest range in its query; 0 for none."""
    ranges = _RANGE.findall(_QUOTED.sub("", metric.query)) if SOURCES[metric.source].promql else []
    found = [sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text)) for text in ranges]
    return max([metric.window, *found]) if found else 0.0


async def survey(
    policies: Sequence[typed.Policy],
    sources: Mapping[str, Source],
    state: ClusterState | None,
    clock: Clock,
    *,
    slow: float = SLOW_QUERY_SECONDS,
) -> list[MetricSurvey]:
    """The findings for each metric of the policies, in their order; without a `state`, there are no findings about nodes."""
    nodes = NodeNames(*(ClusterState() if state is None else state).nodes_listed())
    answers = await send_queries(queries_of(policies).values(), sources, nodes, clock)
    metrics = [(policy.name, metric) for policy in policies for metric in policy.metrics]
    since = {metric.signal: lookback(metric) for _, metric in metrics}
    ages = await asyncio.gather(*(newly_exported(answers[key], seconds, sources, nodes) for key, seconds in since.items() if seconds))
    new = dict(zip([key for key, seconds in since.items() if seconds], ages, strict=True))
    now = clock.now()
    if state is not None:
        for key, answer in answers.items():
            if answer.found is not None:
                state.set_metric(key, answer.found.samples)
    found = [_surveyed(policy, metric, answers[metric.signal], state, now, slow) for policy, metric in metrics]
    return [replace(each, warnings=[*each.warnings, *_newly_exported_warning(each.metric, new.get(each.metric.signal))]) for each in found]


def _newly_exported_warning(metric: typed.Metric, nodes: Sequence[str] | None) -> list[str]:
    if not nodes:
        return []
    back = types.readable(lookback(metric), Kind.DURATION)
    whose = f"the series of node {nodes[0]} is" if len(nodes) == 1 else f"the series of {len(nodes):,} nodes, as {nodes[0]}, are"
    return [f"{whose} younger than the {back} that the query looks back: rates over so little may be far off"]


def samples_of(answers: Mapping[str, QueryResult]) -> Mapping[str, Samples]:
    """The samples by signal, as the `metrics:` table of a snapshot has them; those that came."""
    return {key: answer.found.samples for key, answer in answers.items() if answer.found is not None}


def _surveyed(  # noqa: PLR0913, PLR0917 — one parameter per input of the finding
    policy: str, metric: typed.Metric, answer: QueryResult, state: ClusterState | None, now: float, slow: float
) -> MetricSurvey:
    errors: list[str] = []
    warnings: list[str] = []
    suspension = None
    if answer.failure is not None:
        errors.append(str(answer.failure))
    elif state is not None:
        suspension = suspension_of(policy, metric, state.snapshot(now))
        if not suspension.n_nodes:
            errors.append("there are no nodes to compare with: is that the right cluster?")
        elif suspension.in_effect:
            errors.append(f"{suspension}: the rules that use it are suspended")
    if answer.found is not None:
        warnings += _warnings(metric, answer.found, state)
    if answer.failure is None and answer.seconds > slow:
        warnings.append(f"the answer took {answer.seconds:.1f} s; it is queried every {metric.refresh:g} s")
    return MetricSurvey(policy=policy, metric=metric, answer=answer, suspension=suspension, errors=errors, warnings=warnings)


def _warnings(metric: typed.Metric, found: Mapped, state: ClusterState | None) -> list[str]:
    sentences = [f"the server warns: {on_one_line(warning, _SHOWN)}" for warning in found.warnings]
    return sentences + (_of_series(metric, found, state) if found.n_series else ["the query gives no series"])


def _of_series(metric: typed.Metric, found: Mapped, state: ClusterState | None) -> list[str]:
    warnings = [] if state is None else [f"{each.count:,} series {said}, as {each.example}" for said, each in found.problems]
    if state is not None:
        warnings += value_warnings(metric, found, state.snapshot())
    return warnings
