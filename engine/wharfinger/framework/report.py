"""A decision as plain values, for JSON and for people who are not in the process.

Field names are camelCase when dumped by alias, as in every Kubernetes object.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from wharfinger.framework.decision import Decision, Ranked, ScorePart
from wharfinger.framework.diagnosis import FilterDiagnosis

RUNNERS_UP = 5


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class FilterReport(_Report):
    """One filter: how many nodes it rejects alone, how many first, how many are left after it, and nodes by reason."""

    name: str
    skipped: bool
    alone: int
    first: int
    left: int
    reasons: dict[str, int]


class ScoreReport(_Report):
    """One score at one node; `raw` is null where a policy's value is missing or its rule says nothing."""

    name: str
    tier: int
    weight: float
    raw: float | None
    points: float
    weighted: float


class NodeReport(_Report):
    """A feasible node with its total per tier and what the totals are made of."""

    node: str
    totals: list[float]
    scores: list[ScoreReport]


class DecisionReport(_Report):
    """Everything a decision says."""

    pod: str
    uid: str
    node: str | None
    message: str
    nodes: int
    feasible: int
    ties: int
    margin: float | None
    nominated: str | None
    victims: list[str]
    policies: list[str]
    notes: list[str]
    filters: list[FilterReport]
    best: list[NodeReport]
    chain_revision: str
    policy_revision: str
    snapshot_revision: int


def report(decision: Decision, best: int = RUNNERS_UP) -> DecisionReport:
    """The report of a decision, with the `best` nodes; to be made before the next decision (see `Decision`)."""
    return DecisionReport(
        pod=decision.pod.key,
        uid=decision.pod.uid,
        node=decision.node,
        message=decision.message,
        nodes=decision.n_nodes,
        feasible=decision.feasible,
        ties=decision.ties,
        margin=decision.margin,
        nominated=decision.nominated,
        victims=[victim.key for victim in decision.victims],
        policies=list(decision.policies),
        notes=list(decision.notes),
        filters=[_filter(found) for found in decision.diagnosis.filters],
        best=[_node(decision, ranked) for ranked in decision.ranking(best)],
        chain_revision=decision.chain_revision,
        policy_revision=decision.policy_revision,
        snapshot_revision=decision.snapshot_revision,
    )


def _filter(found: FilterDiagnosis) -> FilterReport:
    return FilterReport(
        name=found.plugin, skipped=found.skipped, alone=found.alone, first=found.first, left=found.left, reasons=dict(found.reasons)
    )


def _node(decision: Decision, ranked: Ranked) -> NodeReport:
    return NodeReport(node=ranked.node, totals=list(ranked.totals), scores=[_score(part) for part in decision.scores_at(ranked.node)])


def _score(part: ScorePart) -> ScoreReport:
    return ScoreReport(name=part.name, tier=part.tier, weight=part.weight, raw=part.raw, points=part.points, weighted=part.weighted)
