"""The explanation of a decision about a pod: its values, made from the decision, and its text.

The layout is that of HTCondor's `condor_q -better-analyze`: each filter with the nodes that it would leave if it were alone, and the nodes
left after it and all filters above it. Then come the nodes nearest to a fit, the best nodes with the parts of their scores, and the
requested nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.explain import policy_warnings, remedies
from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.framework import pod_devices
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.evaluation.decision import Decision, ScorePart
from wharfinger.framework.evaluation.diagnosis import FilterDiagnosis, NodeRejection
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.language.report import wording
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot


class Step(Struct, frozen=True, kw_only=True):
    """One filter, in the order in which filters run.

    `alone` nodes pass it by itself, `so_far` pass it and every filter above. `reasons` counts the nodes it rejects by reason. `example` is
    a node it rejects (None if there is none), `at` the place of the rule in a file (None for Kubernetes' own). `details` say which devices
    of the nodes that it rejects meet which condition.
    """

    rule: str
    at: str | None
    skipped: bool
    alone: int
    so_far: int
    reasons: Mapping[str, int]
    example: str | None
    details: tuple[str, ...] = ()


class Verdict(Struct, frozen=True, kw_only=True):
    """The verdict of one filter on one node: `sentences` are empty where the node passes; `values` show operands or devices."""

    rule: str
    sentences: tuple[str, ...]
    values: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True if the filter lets the pod onto the node."""
        return not self.sentences


class NodeReport(Struct, frozen=True, kw_only=True):
    """All verdicts and scores of one node. `totals` by tier and `scores` are empty where the node is not feasible."""

    node: str
    verdicts: tuple[Verdict, ...]
    totals: tuple[float, ...]
    scores: tuple[ScorePart, ...]

    @property
    def rejected_by(self) -> tuple[Verdict, ...]:
        """The filters that reject the node."""
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)


class Explanation(Struct, frozen=True, kw_only=True):
    """The report about one decision.

    `nearest` are the rejected nodes with the fewest rejecting filters; `top` the best feasible ones; `asked` those that the caller named.
    `devices` are those that the pod gets on its node, `preferences` the values of policies for them and for the others.
    """

    pod: str
    node: str | None
    message: str
    nodes: int
    feasible: int
    margin: float | None
    ties: int
    policies: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[Step, ...]
    nearest: tuple[NodeReport, ...]
    top: tuple[NodeReport, ...]
    asked: tuple[NodeReport, ...]
    devices: tuple[PodDevice, ...] = ()
    preferences: tuple[str, ...] = ()

    def __str__(self) -> str:
        return text(self)


TOP_SCORES = 3
NEAREST = 3


def explain(chain: Chain, snapshot: Snapshot, pod: PodView, explainer: PolicyExplainer, nodes: Sequence[str] = ()) -> Explanation:
    """The explanation of a new decision about `pod`; `nodes` are reported in full. Raises UnknownObject for a node that does not exist."""
    return explain_decision(decide(chain, snapshot, pod), snapshot, explainer, nodes)


def explain_decision(decision: Decision, snapshot: Snapshot, explainer: PolicyExplainer, nodes: Sequence[str] = ()) -> Explanation:
    """The explanation of a decision whose details are still current."""
    rows, devices = _Rows(decision, snapshot, explainer), decision.devices
    given = {each.uid for each in devices}
    preferences = explainer.device_preferences(decision.pod, snapshot, decision.row, given) if given and decision.row is not None else ()
    return Explanation(
        pod=decision.pod.key,
        node=decision.node,
        message=decision.message,
        nodes=decision.n_nodes,
        feasible=decision.feasible,
        margin=decision.margin,
        ties=decision.ties,
        policies=decision.policies,
        notes=(*decision.notes, *_suspended(decision, snapshot)),
        steps=tuple(_step(found, decision, snapshot, explainer) for found in decision.diagnosis.filters),
        nearest=tuple(rows.report(row) for row in _nearest_rows(decision, snapshot)),
        top=tuple(rows.report(snapshot.known_row(ranked.node)) for ranked in decision.ranking(TOP_SCORES)),
        asked=tuple(rows.report(snapshot.known_row(name)) for name in nodes),
        devices=devices,
        preferences=tuple(preferences),
    )


def _suspended(decision: Decision, snapshot: Snapshot) -> list[str]:
    """The metrics that too few nodes have, so that rules of the policies that govern the pod do not apply."""
    governing = [policy for policy in decision.chain.policies if policy.name in decision.policies]
    return [sentence for policy in governing for sentence in policy_warnings.suspensions(policy, snapshot)]


def _step(found: FilterDiagnosis, decision: Decision, snapshot: Snapshot, explainer: PolicyExplainer) -> Step:
    rejected = decision.diagnosis.rejected_by(found.plugin)
    names = snapshot.names
    return Step(
        rule=found.plugin,
        at=explainer.location(found.plugin),
        skipped=found.skipped,
        alone=decision.n_nodes - found.alone,
        so_far=found.left,
        reasons=dict(wording.most_first(found.reasons)),
        example=min((names[row] for row in np.flatnonzero(rejected).tolist()), default=None),
        details=decision.shortage(found.plugin, np.flatnonzero(rejected)),
    )


def _nearest_rows(decision: Decision, snapshot: Snapshot) -> list[int]:
    """Rows of the rejected nodes with the fewest rejecting filters; among equals those that lack the least, then by name."""
    against = np.zeros(decision.n_nodes, np.int64)
    for found in decision.diagnosis.filters:
        against += decision.diagnosis.rejected_by(found.plugin)
    rejected = np.flatnonzero(against)
    if not len(rejected):
        return []
    fewest = rejected[against[rejected] == against[rejected].min()]
    lacking = _missing_fractions(decision.pod, snapshot)
    return sorted(fewest.tolist(), key=lambda row: (round(float(lacking[row]), 6), snapshot.names[row]))[:NEAREST]


def _missing_fractions(pod: PodView, snapshot: Snapshot) -> NDArray[np.float64]:
    """`(n_nodes,) float64`: the fractions of the pod's requests that are not free, added up over resources."""
    lacking = np.zeros(snapshot.n_nodes)
    for resource, wanted in pod.requests.items():
        row = snapshot.resource_index(resource)
        if wanted and row is not None:
            free = snapshot.allocatable[row] - snapshot.requested[row]
            lacking += np.clip((wanted - free) / wanted, 0.0, 1.0)
    return lacking


class _Rows:
    """Makes the reports about single nodes."""

    def __init__(self, decision: Decision, snapshot: Snapshot, explainer: PolicyExplainer) -> None:
        self._decision = decision
        self._snapshot = snapshot
        self._explainer = explainer
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
        devices = self._decision.shortage(rule, np.array([row], np.intp))
        if found is None:
            return Verdict(rule=rule, sentences=(), values=devices)
        rejection = self._explainer.rejection(self._decision.pod, self._snapshot, rule, row)
        if rejection is None:
            values = remedies.details(rule, self._decision.pod, self._snapshot.node(row))
            return Verdict(rule=rule, sentences=tuple(reason.text for reason in found.reasons), values=(*values, *devices))
        return Verdict(rule=rule, sentences=rejection[0], values=rejection[1])


MAX_REASONS = 6


def text(found: Explanation) -> str:
    """The whole report, ending in a newline."""
    parts = [wording.lines(_headline(found)), _filters(found), *_nearest_misses(found), _scores(found), *_requested_nodes(found)]
    return "\n".join(part for part in parts if part)


def _headline(found: Explanation) -> Iterator[str]:
    if found.node is None:
        yield f"{found.pod}: {found.message}"
    else:
        yield f"{found.pod} → {found.node}: {'; '.join(_summary(found))}"
    if found.devices:
        yield f"  gets {pod_devices.text(found.devices, found.node)}"
    yield from (f"  {preference}" for preference in found.preferences)
    if found.policies:
        yield f"  governed by {', '.join(found.policies)}"
    yield from (f"  note: {note}" for note in found.notes)


def _summary(found: Explanation) -> Iterator[str]:
    yield f"{found.feasible:,} of {wording.count(found.nodes, 'node')} feasible"
    if found.margin is None:
        yield "no other to compare with"
    elif found.margin > 0:
        yield f"{wording.number(found.margin)} ahead of {found.top[1].node}"
    elif found.margin < 0:
        yield f"{wording.number(-found.margin)} behind {found.top[0].node}, because its group is placed where all members fit"
    else:
        yield f"level with {found.top[1].node}"
    if found.ties > 1:
        yield f"{wording.count(found.ties, 'node')} equally good, chosen by the stable hash"


def _filters(found: Explanation) -> str:
    rows: list[Sequence[str]] = [("step", "alone", "so far", "filter")]
    for number, step in enumerate(step for step in found.steps if not step.skipped):
        rows.append((f"[{number}]", f"{step.alone:,}", f"{step.so_far:,}", step.rule + (f"  {step.at}" if step.at else "")))
        rows += [("", "", "", f"  {reason}") for reason in _reasons(step)]
    if len(rows) == 1:
        return ""
    head = f"  nodes that pass each filter alone, and with all filters above it (of {found.nodes:,})\n"
    return head + wording.columns(rows, right=frozenset({1, 2}), indent="  ")


def _reasons(step: Step) -> Iterator[str]:
    shown = list(step.reasons.items())[:MAX_REASONS]
    for index, (reason, count) in enumerate(shown):
        example = f", e.g. {step.example}" if index == 0 and step.example else ""
        yield f"rejects {wording.count(count, 'node')}{example}: {reason}"
    if len(step.reasons) > MAX_REASONS:
        yield f"… and {wording.count(len(step.reasons) - MAX_REASONS, 'more reason')}"
    yield from (f"  {detail}" for detail in step.details)


def _nearest_misses(found: Explanation) -> Iterator[str]:
    if not found.nearest or found.node is not None:
        return
    against = len(found.nearest[0].rejected_by)
    lines = [f"  nearest miss: {wording.count(against, 'filter')} in the way"]
    for report in found.nearest:
        lines += [f"    {report.node}", *(f"      {line}" for verdict in report.rejected_by for line in _verdict_lines(verdict))]
    yield wording.lines(lines)


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    for sentence in verdict.sentences or ("passes",):
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
        rows.append((name + tier, wording.number(parts[0].weight), *map(_part, parts)))
    rows.append(("total", "", *(" / ".join(map(wording.number, report.totals)) for report in found.top)))
    right = frozenset(range(1, len(rows[0])))
    return "  the best nodes: raw → points × weight = what each score adds\n" + wording.columns(rows, right=right, indent="  ")


def _part(part: ScorePart) -> str:
    raw = "-" if part.raw is None else wording.number(part.raw)
    return f"{raw} → {wording.number(part.points)} = {wording.number(part.weighted)}"


def _requested_nodes(found: Explanation) -> Iterator[str]:
    for report in found.asked:
        rejected = report.rejected_by
        summary = f"rejected by {wording.count(len(rejected), 'filter')}" if rejected else "feasible"
        lines = [f"  node {report.node}: {summary}"]
        for verdict in report.verdicts:
            lines += [f"    {line}" for line in _verdict_lines(verdict)]
        lines += [f"    {part.name}: {_part(part)} (weight {wording.number(part.weight)})" for part in report.scores]
        if report.totals:
            lines.append(f"    total: {' / '.join(map(wording.number, report.totals))}")
        yield wording.lines(lines)
