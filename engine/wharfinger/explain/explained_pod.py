"""Explains why a pod is on its node or pending, and what would have to change, by a new decision about it.

A pod that waits is decided about as it is. A bound pod was decided about some time ago; it is decided about again as if it waited, on the
cluster as it is, without the pod itself in it.

A waiting member of a group is decided about with its group: it gets the node that the search for the group finds, or none, whatever would
become of it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.errors import UnknownObject
from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.explained_group import free_members, group_sentence, named_victims
from wharfinger.explain.explanation import Explanation, NodeReport, explain_decision
from wharfinger.explain.remedies import Remedies
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.evaluation.decision import Decision, ScorePart
from wharfinger.groups.attempt import attempt, decided, undecided
from wharfinger.groups.membership import GroupIndex
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.steps import at_once

MAX_PARTS = 4


class Remedy(Struct, frozen=True, kw_only=True):
    """The changes by which a node would be chosen, or at least be feasible."""

    node: str
    sentences: tuple[str, ...]


class ExplainedPod(Struct, frozen=True, kw_only=True):
    """The explanation, notes on the pod, and what would have to change for the nearest nodes and the requested nodes.

    `bound_to` is the node that the pod is on; "" for one that waits. `group` is the key of its group, "" for a pod without one.
    """

    explanation: Explanation
    bound_to: str
    notes: tuple[str, ...]
    remedies: tuple[Remedy, ...]
    group: str = ""

    def __str__(self) -> str:
        lines = [wording.lines(self.notes), str(self.explanation)]
        if self.remedies:
            lines.append("\n  what would have to change\n")
        lines += [wording.lines([f"    {each.node}", *(f"      {sentence}" for sentence in each.sentences)]) for each in self.remedies]
        return "".join(lines)

    def plain(self) -> Mapping[str, Any]:
        """The explanation as plain values, for JSON."""
        return {
            "boundTo": self.bound_to or None,
            "group": self.group or None,
            "notes": list(self.notes),
            "explanation": plain(self.explanation),
            "remedies": [{"node": remedy.node, "sentences": list(remedy.sentences)} for remedy in self.remedies],
        }


def explained(  # noqa: PLR0913, PLR0917 — the question, and the index of groups
    chain: Chain, state: ClusterState, pod: PodView, now: float, nodes: Sequence[str] = (), index: GroupIndex | None = None
) -> ExplainedPod:
    """The explanation of the decision of a chain about a pod at a time. `nodes` are reported in full; `index` has the groups of pods.

    `state` is changed: a pod that is placed in it is taken out. Raises UnknownObject for a node that does not exist.
    """
    group = None if index is None else index.key_of(pod.uid)
    if index is not None and group is not None and not state.is_placed(pod.uid):
        return _explained_member(chain, state, index, group, pod, now, nodes)
    waiting = unbound(pod)
    if state.is_placed(pod.uid):
        state.remove_pod(pod)
    snapshot = state.snapshot(now)
    about = f"it is a member of group {group}; what follows is about the pod alone" if group else ""
    return explained_decision(pod, decide(chain, snapshot, waiting), snapshot, nodes, group=group or "", about=about)


def _explained_member(  # noqa: PLR0913, PLR0917 — the same parameters as of the function above
    chain: Chain, state: ClusterState, index: GroupIndex, group: str, pod: PodView, now: float, nodes: Sequence[str]
) -> ExplainedPod:
    """The explanation of a member of a group that waits; members that the search assumes before it count on their nodes."""
    state.set_time(now)
    decider = Decider(chain)
    members, _ = free_members(chain, index, group)
    found = at_once(attempt(decider, state, index, group, members, preempt=True))
    for member, node in found.placed:
        if member.uid == pod.uid:
            decision = decided(decider, state.snapshot(), pod, node, group)
            break
        state.assume(chain.assigned_on(member, state.snapshot(), node), node)
    else:
        decision = undecided(decider, state.snapshot(), pod, found.result)
    return explained_decision(pod, decision, state.snapshot(), nodes, group=group, about=group_sentence(found))


def explained_decision(  # noqa: PLR0913 — the keywords are about groups
    pod: PodView, decision: Decision, snapshot: Snapshot, nodes: Sequence[str] = (), *, group: str = "", about: str = ""
) -> ExplainedPod:
    """The explanation of a new decision about a pod, made as if it were pending. `pod` may be bound.

    `group` is the key of its group, and `about` a sentence about the state of the group.

    Raises UnknownObject for a node that does not exist.
    """
    chain, bound_to = decision.chain, pod.node_name
    explanation = explain_decision(decision, snapshot, PolicyExplainer(chain), nodes)
    notes = (*_reason_held(chain, pod), *_notes(bound_to, decision), *([about] if about else []))
    return ExplainedPod(
        explanation=explanation,
        bound_to=bound_to,
        notes=notes,
        remedies=tuple(_remedies(chain, decision, snapshot, explanation)),
        group=group,
    )


def unknown_pod(key: str, known: Iterable[str]) -> UnknownObject:
    """The error for a pod that does not exist. It proposes a pod of this name in another namespace, or the one with the nearest key."""
    keys = sorted(known)
    name = key.partition("/")[2]
    nearest = next((other for other in keys if other.partition("/")[2] == name), None) or wording.closest(key, keys)
    return UnknownObject(f"there is no pod {key}" + (f"; did you mean {nearest}?" if nearest else ""))


def unbound(pod: PodView) -> PodView:
    """The pod as it was before it was bound."""
    return pod if not pod.object.spec.node_name else PodView(replace(pod.object, spec=replace(pod.object.spec, node_name="")))


def _reason_held(chain: Chain, pod: PodView) -> Iterator[str]:
    """The reason why nothing is decided about the pod at present."""
    gate = None if pod.node_name else chain.gate(pod)
    if pod.terminating:
        yield f"{pod.key} is being deleted, and will not be placed any more"
    elif gate is not None:
        yield f"{pod.key} is held back: {gate.text}; what follows would be decided if it were not"


def _notes(bound_to: str, decision: Decision) -> Iterator[str]:
    if bound_to:
        same = "the same node again" if decision.node == bound_to else f"now it would be {decision.node or 'nowhere'}"
        yield f"{decision.pod.key} is bound to {bound_to}; this was decided again as if it waited, on the cluster without it: {same}"
    if decision.nominated is not None:
        leaving = named_victims(decision.victims, decision.pod.namespace)
        yield f"preemption would make room on {decision.nominated}: {leaving} would have to leave"


def _remedies(chain: Chain, decision: Decision, snapshot: Snapshot, explanation: Explanation) -> Iterator[Remedy]:
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
            sentences = tuple(_points_behind(report, explanation.top[0])) if explanation.top else ()
        if sentences:
            yield Remedy(node=name, sentences=sentences)


def _points_behind(report: NodeReport, best: NodeReport) -> Iterator[str]:
    """The distance of a feasible node from the chosen one."""
    short = best.totals[0] - report.totals[0]
    if short <= 0:
        yield f"it is as good as {best.node}, which won by the tie-break"
        return
    yield f"it would need {wording.number(short)} more points to equal {best.node}; the largest differences:"
    gaps = sorted(zip(best.scores, report.scores, strict=True), key=lambda pair: pair[1].weighted - pair[0].weighted)
    yield from (f"  {_difference_text(ahead, own)}" for ahead, own in gaps[:MAX_PARTS] if ahead.weighted > own.weighted)


def _difference_text(ahead: ScorePart, own: ScorePart) -> str:
    return f"{own.name}: {wording.number(own.weighted)} here, {wording.number(ahead.weighted)} there"
