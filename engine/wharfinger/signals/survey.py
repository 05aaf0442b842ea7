"""Every metric of some policies asked for once: what came, how fast, and what is odd about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wharfinger.framework.ports import Clock
from wharfinger.language import typed
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.metric_table import Samples
from wharfinger.signals.failure import SignalFailed, on_one_line
from wharfinger.signals.mapping import Mapped
from wharfinger.signals.node_names import NodeNames
from wharfinger.signals.plausible import doubts
from wharfinger.signals.ports import Source
from wharfinger.signals.query import Query, queries_of
from wharfinger.signals.suspension import Suspension, look

_SHOWN = 300

SLOW = 1.0
"""Seconds from which on a query is called slow: it will be asked several times a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One query: what it brought, or why nothing, and the seconds that took."""

    query: Query
    found: Mapped | None
    failure: SignalFailed | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """One metric of a policy: its query's answer, how it fares on the nodes (None: there are none), and what is wrong in sentences."""

    policy: str
    metric: typed.Metric
    answer: Answered
    fares: Suspension | None
    errors: Sequence[str]
    warnings: Sequence[str]


async def asked(queries: Iterable[Query], sources: Mapping[str, Source], nodes: NodeNames, clock: Clock) -> Mapping[str, Answered]:
    """The answers by key, all asked for at the same time, as far as their sources allow."""

    async def ask(query: Query) -> Answered:
        began = clock.monotonic()
        found, failure = None, None
        try:
            found = await sources[query.source].measured(query, nodes)
        except SignalFailed as error:
            failure = error
        return Answered(query=query, found=found, failure=failure, seconds=clock.monotonic() - began)

    answers = await asyncio.gather(*(ask(query) for query in queries))
    return {answer.query.key: answer for answer in answers}


async def survey(
    policies: Sequence[typed.Policy], sources: Mapping[str, Source], state: ClusterState | None, clock: Clock, *, slow: float = SLOW
) -> list[Surveyed]:
    """How each metric of the policies fares, in their order; without a `state`, no node is known and nothing is said of nodes."""
    nodes = NodeNames(*(ClusterState() if state is None else state).nodes_listed())
    answers = await asked(queries_of(policies).values(), sources, nodes, clock)
    now = clock.now()
    if state is not None:
        for key, answer in answers.items():
            if answer.found is not None:
                state.set_metric(key, answer.found.samples)
    return [_surveyed(policy.name, metric, answers[metric.signal], state, now, slow) for policy in policies for metric in policy.metrics]


def samples_of(answers: Mapping[str, Answered]) -> Mapping[str, Samples]:
    """The samples by signal, as the `metrics:` table of a snapshot has them; those that came."""
    return {key: answer.found.samples for key, answer in answers.items() if answer.found is not None}


def _surveyed(  # noqa: PLR0913, PLR0917 — the parts of a finding
    policy: str, metric: typed.Metric, answer: Answered, state: ClusterState | None, now: float, slow: float
) -> Surveyed:
    errors: list[str] = []
    warnings: list[str] = []
    fares = None
    if answer.failure is not None:
        errors.append(str(answer.failure))
    elif state is not None:
        fares = look(policy, metric, state.snapshot(now))
        if not fares.n_nodes:
            errors.append("there are no nodes to compare with: is that the right cluster?")
        elif fares.is_one:
            errors.append(f"{fares}: the rules that use it have no say")
    if answer.found is not None:
        warnings += _oddities(metric, answer.found, state)
    if answer.failure is None and answer.seconds > slow:
        warnings.append(f"the answer took {answer.seconds:.1f} s; it is asked for every {metric.refresh:g} s")
    return Surveyed(policy=policy, metric=metric, answer=answer, fares=fares, errors=errors, warnings=warnings)


def _oddities(metric: typed.Metric, found: Mapped, state: ClusterState | None) -> list[str]:
    said = [f"the server warns: {on_one_line(warning, _SHOWN)}" for warning in found.warnings]
    return said + (_of_series(metric, found, state) if found.n_series else ["the query gives no series"])


def _of_series(metric: typed.Metric, found: Mapped, state: ClusterState | None) -> list[str]:
    told = [] if state is None else [f"{each.count:,} series {said}, as {each.example}" for said, each in found.oddities]
    if state is not None:
        told += doubts(metric, found, state.snapshot())
    return told
