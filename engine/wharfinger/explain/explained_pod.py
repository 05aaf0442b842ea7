"""Why a pod is where it is, or is nowhere, and what would have to change: an explanation of the decision that would be made about it.

A pod that waits is decided about as it is. A bound pod was decided about some time ago; it is decided about again as if it waited, on the
cluster as it is, without the pod itself in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from msgspec.structs import replace

from wharfinger.explain.conditions import PolicyCommentary
from wharfinger.explain.explanation import Explanation, NodeReport, explain_decision
from wharfinger.explain.remedies import Remedies
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.evaluation.decision import Decision, ScorePart
from wharfinger.language.report import wording
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

MOST_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """What would have to change for a node to be chosen, or at least to be feasible."""

    node: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPod:
    """The explanation, remarks on what it is about, and what would have to change for the nearest nodes and those asked for.

    `bound_to` is the node that the pod is on; "" for one that waits.
    """

    explanation: Explanation
    bound_to: str
    remarks: tuple[str, ...]
    ways_out: tuple[WayOut, ...]

    def __str__(self) -> str:
        lines = [f"{remark}\n" for remark in self.remarks]
        lines.append(str(self.explanation))
        if self.ways_out:
            lines.append("\n  what would have to change\n")
        for way in self.ways_out:
            lines += [f"    {way.node}\n", *(f"      {sentence}\n" for sentence in way.sentences)]
        return "".join(lines)

    def plain(self) -> Mapping[str, Any]:
        """The same as plain values."""
        return {
            "boundTo": self.bound_to or None,
            "remarks": list(self.remarks),
            "explanation": asdict(self.explanation),
            "waysOut": [{"node": way.node, "sentences": list(way.sentences)} for way in self.ways_out],
        }


def explained(chain: Chain, state: ClusterState, pod: PodView, now: float, nodes: Sequence[str] = ()) -> ExplainedPod:
    """The explanation of what a chain decides about a pod at a time; `nodes` are reported in full.

    `state` is changed: a pod that is placed in it is taken out. Raises UnknownObject for a node that is not there.
    """
    waiting = unbound(pod)
    if state.is_placed(pod.uid):
        state.remove_pod(pod)
    snapshot = state.snapshot(now)
    return explained_decision(pod, decide(chain, snapshot, waiting), snapshot, nodes)


def explained_decision(pod: PodView, decision: Decision, snapshot: Snapshot, nodes: Sequence[str] = ()) -> ExplainedPod:
    """The explanation of a decision that was just made about a pod as if it waited; `pod` is as it is, perhaps bound.

    Raises UnknownObject for a node that is not there.
    """
    chain, bound_to = decision.chain, pod.node_name
    explanation = explain_decision(decision, snapshot, PolicyCommentary(chain), nodes)
    remarks = (*_held(chain, pod), *_remarks(bound_to, decision))
    return ExplainedPod(
        explanation=explanation, bound_to=bound_to, remarks=remarks, ways_out=tuple(_ways(chain, decision, snapshot, explanation))
    )


def unbound(pod: PodView) -> PodView:
    """The pod as it was before it was bound."""
    return pod if not pod.object.spec.node_name else PodView(replace(pod.object, spec=replace(pod.object.spec, node_name="")))


def _held(chain: Chain, pod: PodView) -> Iterator[str]:
    """Why nothing is decided about the pod at present."""
    gate = None if pod.node_name else chain.gate(pod)
    if pod.terminating:
        yield f"{pod.key} is being deleted, and will not be placed any more"
    elif gate is not None:
        yield f"{pod.key} is held back: {gate.text}; what follows would be decided if it were not"


def _remarks(bound_to: str, decision: Decision) -> Iterator[str]:
    if bound_to:
        same = "the same node again" if decision.node == bound_to else f"now it would be {decision.node or 'nowhere'}"
        yield f"{decision.pod.key} is bound to {bound_to}; this was decided again as if it waited, on the cluster without it: {same}"
    if decision.nominated is not None:
        yield f"preemption would make room on {decision.nominated}: {_victims(decision)} would have to leave"


def _victims(decision: Decision) -> str:
    """The pods that would have to leave; pods of other namespaces are only counted, as explanations are passed on to the owners of pods."""
    own = [victim.key for victim in decision.victims if victim.namespace == decision.pod.namespace]
    others = len(decision.victims) - len(own)
    counted = [f"{others} {'pod' if others == 1 else 'pods'} of other namespaces"] if others else []
    return ", ".join([*own, *counted])


def _ways(chain: Chain, decision: Decision, snapshot: Snapshot, explanation: Explanation) -> Iterator[WayOut]:
    remedies = Remedies(chain)
    nearest = explanation.nearest if decision.node is None else ()
    reports = {report.node: report for report in (*nearest, *explanation.asked)}
    for name, report in reports.items():
        row = snapshot.row(name)
        if row is None or name == decision.node:
            continue
        if report.rejected_by:
            remedied = (sentence for verdict in report.rejected_by for sentence in remedies.of(verdict.rule, decision.pod, snapshot, row))
            sentences = tuple(remedied)
        else:
            sentences = tuple(_behind(report, explanation.top[0]))
        if sentences:
            yield WayOut(node=name, sentences=sentences)


def _behind(report: NodeReport, best: NodeReport) -> Iterator[str]:
    """How far a feasible node is behind the chosen one."""
    short = best.totals[0] - report.totals[0]
    if short <= 0:
        yield f"it is as good as {best.node} and lost to the order among equals"
        return
    yield f"it would need {wording.number(short)} more points to draw level with {best.node}; what weighs most:"
    gaps = sorted(zip(best.scores, report.scores, strict=True), key=lambda pair: pair[1].weighted - pair[0].weighted)
    yield from (f"  {_gap(ahead, own)}" for ahead, own in gaps[:MOST_PARTS] if ahead.weighted > own.weighted)


def _gap(ahead: ScorePart, own: ScorePart) -> str:
    return f"{own.name}: {wording.number(own.weighted)} here, {wording.number(ahead.weighted)} there"
