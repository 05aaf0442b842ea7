"""Building an `Explanation` from a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import UnknownObject
from wharfinger.framework.chain import Chain
from wharfinger.framework.cycle import decide
from wharfinger.framework.decision import Decision
from wharfinger.framework.diagnosis import FilterDiagnosis, NodeRejection
from wharfinger.language import suggest
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot
from wharfinger.runtime import kubernetes_details, policy_warnings
from wharfinger.runtime.explanation import Explanation, NodeReport, Step, Verdict

TOP = 3
NEAREST = 3


class Commentary(Protocol):
    """What policies can add to a bare verdict: where a rule stands, and the values its conditions had."""

    def location(self, rule: str) -> str | None:
        """`file:line:column` of a policy's rule, None for any other."""

    def rejection(self, pod: PodView, snapshot: Snapshot, rule: str, row: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """(sentences with values filled in, lines that show the operands) of a policy's filter at a node; None for any other filter."""


def explain(chain: Chain, snapshot: Snapshot, pod: PodView, commentary: Commentary, nodes: Sequence[str] = ()) -> Explanation:
    """The explanation of a fresh decision about `pod`; `nodes` are reported in full. Raises UnknownObject for a node that is not there."""
    return explain_decision(decide(chain, snapshot, pod), snapshot, commentary, nodes)


def explain_decision(decision: Decision, snapshot: Snapshot, commentary: Commentary, nodes: Sequence[str] = ()) -> Explanation:
    """The explanation of a decision whose details are still current."""
    rows = _Rows(decision, snapshot, commentary)
    return Explanation(
        pod=decision.pod.key,
        node=decision.node,
        message=decision.message,
        n_nodes=decision.n_nodes,
        feasible=decision.feasible,
        margin=decision.margin,
        ties=decision.ties,
        policies=decision.policies,
        notes=(*decision.notes, *_suspended(decision, snapshot)),
        steps=tuple(_step(found, decision, snapshot, commentary) for found in decision.diagnosis.filters),
        nearest=tuple(rows.report(row) for row in _nearest(decision, snapshot)),
        top=tuple(rows.report(_row(snapshot, ranked.node)) for ranked in decision.ranking(TOP)),
        asked=tuple(rows.report(_row(snapshot, name)) for name in nodes),
    )


def _suspended(decision: Decision, snapshot: Snapshot) -> list[str]:
    """What rules of the policies that govern the pod had no say, and why."""
    governing = [policy for policy in decision.chain.policies if policy.name in decision.policies]
    return [sentence for policy in governing for sentence in policy_warnings.suspensions(policy, snapshot)]


def _row(snapshot: Snapshot, name: str) -> int:
    row = snapshot.row(name)
    if row is None:
        meant = suggest.closest(name, snapshot.names)
        raise UnknownObject(f"there is no node {name}" + (f"; did you mean {meant}?" if meant else ""))
    return row


def _step(found: FilterDiagnosis, decision: Decision, snapshot: Snapshot, commentary: Commentary) -> Step:
    rejected = decision.diagnosis.rejected_by(found.plugin)
    names = snapshot.names
    return Step(
        rule=found.plugin,
        at=commentary.location(found.plugin),
        skipped=found.skipped,
        alone=decision.n_nodes - found.alone,
        so_far=found.left,
        reasons=dict(sorted(found.reasons.items(), key=lambda item: (-item[1], item[0]))),
        example=min((names[row] for row in np.flatnonzero(rejected).tolist()), default=None),
    )


def _nearest(decision: Decision, snapshot: Snapshot) -> list[int]:
    """Rows of the rejected nodes with the fewest rejecting filters; among equals those that lack the least, then by name."""
    against = np.zeros(decision.n_nodes, np.int64)
    for found in decision.diagnosis.filters:
        against += decision.diagnosis.rejected_by(found.plugin)
    rejected = np.flatnonzero(against)
    if not len(rejected):
        return []
    fewest = rejected[against[rejected] == against[rejected].min()]
    lacking = _lacking(decision.pod, snapshot)
    return sorted(fewest.tolist(), key=lambda row: (round(float(lacking[row]), 6), snapshot.names[row]))[:NEAREST]


def _lacking(pod: PodView, snapshot: Snapshot) -> NDArray[np.float64]:
    """`(n_nodes,) float64`: the fractions of the pod's requests that are not free, added up over resources."""
    lacking = np.zeros(snapshot.n_nodes)
    for resource, wanted in pod.requests.items():
        row = snapshot.resource_index(resource)
        if wanted and row is not None:
            free = snapshot.allocatable[row] - snapshot.requested[row]
            lacking += np.clip((wanted - free) / wanted, 0.0, 1.0)
    return lacking


class _Rows:
    """Reports about single nodes."""

    def __init__(self, decision: Decision, snapshot: Snapshot, commentary: Commentary) -> None:
        self._decision = decision
        self._snapshot = snapshot
        self._commentary = commentary
        self._rules = [found.plugin for found in decision.diagnosis.filters if not found.skipped]

    def report(self, row: int) -> NodeReport:
        rejections = {found.plugin: found for found in self._decision.diagnosis.at(row)}
        rules = dict.fromkeys([*rejections, *self._rules])
        name = self._snapshot.names[row]
        scores = self._decision.scores_at(name)
        return NodeReport(
            node=name,
            verdicts=tuple(self._verdict(rule, rejections.get(rule), row) for rule in self._ordered(rules)),
            totals=tuple(sum(part.weighted for part in scores if part.tier == tier) for tier in self._decision.tiers) if scores else (),
            scores=scores,
        )

    def _ordered(self, rules: dict[str, None]) -> list[str]:
        return [*(rule for rule in rules if rule not in self._rules), *self._rules]

    def _verdict(self, rule: str, found: NodeRejection | None, row: int) -> Verdict:
        if found is None:
            return Verdict(rule=rule, sentences=())
        said = self._commentary.rejection(self._decision.pod, self._snapshot, rule, row)
        if said is None:
            values = kubernetes_details.details(rule, self._decision.pod, self._snapshot.node(row))
            return Verdict(rule=rule, sentences=tuple(reason.text for reason in found.reasons), values=values)
        return Verdict(rule=rule, sentences=said[0], values=said[1])
