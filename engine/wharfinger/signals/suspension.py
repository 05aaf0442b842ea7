"""Which metrics are suspended because too few nodes have a fresh sample, and when that changes.

Decisions compute this for themselves. Here it is checked once a second, for operators, and for waiting pods: what
rejected them may have no effect any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.compiler import metrics
from wharfinger.language.report.wording import count
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.model.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """A metric of a policy, the part of the nodes that has a fresh sample of it, and the seconds since its newest one (inf: none).

    `oldest` are those since its oldest one; `since` is when it was first seen to lack samples (seconds since 1970), None where it does not.
    `authority` is whose policy it is.
    """

    policy: str
    metric: typed.Metric
    coverage: float
    n_nodes: int
    age: float
    oldest: float = math.inf
    since: float | None = None
    authority: Authority = CLUSTER

    @property
    def fresh(self) -> int:
        """How many nodes have a fresh sample."""
        return round(self.coverage * self.n_nodes)

    @property
    def is_one(self) -> bool:
        """True if the rules that use the metric have no effect."""
        return self.coverage < self.metric.min_coverage

    def __str__(self) -> str:
        wanted = f"{100 * self.metric.min_coverage:g} %"
        return (
            f"metric `{self.metric.name}` of policy {self.policy} is fresh on {self.fresh} of {count(self.n_nodes, 'node')} "
            f"({'fewer than' if self.is_one else 'at least'} {wanted})"
        )


class Suspensions:
    """The metrics of some policies, and which of them are suspended."""

    def __init__(self) -> None:
        self.known: Mapping[tuple[str, str, str], Suspension] = {}

    def look(self, policies: Iterable[typed.Policy], snapshot: Snapshot, answered: frozenset[str]) -> list[Suspension]:
        """The metrics that were suspended or resumed since the last check.

        Only metrics whose signal is among `answered` are checked: the others wait for their first answer.
        """
        before = self.known
        now = {
            (policy.name, metric.name, metric.signal): replace(look(policy.name, metric, snapshot), authority=policy.authority)
            for policy in policies
            for metric in policy.metrics
            if metric.signal in answered
        }
        now = {key: replace(found, since=_since(found, before.get(key), snapshot.now)) for key, found in now.items()}
        self.known = now
        return [found for key, found in now.items() if found.is_one != (key in before and before[key].is_one)]


def _since(found: Suspension, before: Suspension | None, now: float) -> float | None:
    if not found.is_one:
        return None
    return now if before is None or before.since is None else before.since


def look(policy: str, metric: typed.Metric, snapshot: Snapshot) -> Suspension:
    """The coverage of a metric on the nodes."""
    samples = snapshot.metric(*metric.key.names)
    newest = -math.inf if samples is None else float(np.max(samples.times, where=samples.present, initial=-math.inf))
    oldest = math.inf if samples is None else float(np.min(samples.times, where=samples.present, initial=math.inf))
    return Suspension(
        policy=policy,
        metric=metric,
        coverage=metrics.coverage(snapshot, metric),
        n_nodes=snapshot.n_nodes,
        age=snapshot.now - newest,
        oldest=snapshot.now - oldest if math.isfinite(oldest) else math.inf,
    )
