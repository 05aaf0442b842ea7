"""The rules by which two chains decide differently about one pod on one state of the cluster.

Take the node that the one chain chooses and the one that the other chooses. Where a filter of one side rejects the node of the other side,
that filter makes the difference. Otherwise both nodes are feasible on both sides, and the points differ. For each score, the difference
between the two nodes is computed on both sides. Scores where it has changed are named, the largest change first.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.evaluation.diagnosis import NodeRejection
from wharfinger.language.report import wording
from wharfinger.model.state.snapshot import Snapshot

MAX_CAUSES = 3
MIN_SHIFT = 1e-9
"""Points below which a shift is a rounding error."""
ORDER = "tie-break"
PREEMPTION = "preemption"
NO_RULE = "no such rule"
WITHOUT_POLICY = "without it"
"""The name of the side before that has all policies except one."""


class Kind(Enum):
    """The kind of a rule that makes a difference.

    ORDER: tie breaks and the stable hash; PREEMPTION: where pods can be evicted; GROUP: the pod is placed with its group, or waits with it.
    """

    FILTER = "filter"
    SCORE = "score"
    ORDER = "order"
    PREEMPTION = "preemption"
    GROUP = "group"


class RuleAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a rule on one side. `present` is False where that side has no such rule for the pod.

    `sentences` are why a filter rejects `Cause.node`; empty where it passes. `points` are what a score adds (weight × points) at the node
    of the side before and at the node of the side after.
    """

    present: bool
    sentences: tuple[str, ...] = ()
    points: tuple[float, float] | None = None


ABSENT = RuleAnswer(present=False)


class Cause(Struct, frozen=True, kw_only=True):
    """A rule that makes a difference, with its values on both sides.

    `node` is the node that a filter is about; `nodes` are the nodes chosen before and after, None where there is none.
    """

    rule: str
    kind: Kind
    node: str | None
    nodes: tuple[str | None, str | None]
    before: RuleAnswer
    after: RuleAnswer

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, before: str = "before") -> str:
        """A sentence about the cause; `before` is the name of the side before.

        If that is the side without the policy, a rule that is absent there is not mentioned: it is a rule of the policy.
        """
        if self.kind is Kind.FILTER:
            return f"{self.rule} {self._filter(before)}"
        if self.kind is Kind.SCORE:
            return f"{self.rule}: {self._points(self.after)}{self._other(before, self._points(self.before))}"
        if self.kind is Kind.ORDER:
            return f"{self.nodes[0]} and {self.nodes[1]} are equally good: the {self.rule} decides"
        if self.kind is Kind.GROUP:
            return self.after.sentences[0] if self.after.sentences else f"{self.rule} is placed as a whole"
        return "preemption makes room elsewhere"

    def _filter(self, before: str) -> str:
        if self.after.sentences:
            return f"rejects {self.node}: {'; '.join(self.after.sentences)}{self._other(before, _passes(self.before))}"
        return f"rejected {self.node}: {'; '.join(self.before.sentences)}; now {_passes(self.after)}"

    def _other(self, before: str, answer: str) -> str:
        """What follows about the side before; "" if there is nothing to say."""
        return "" if before == WITHOUT_POLICY and not self.before.present else f"; {before} {answer}"

    def _points(self, answer: RuleAnswer) -> str:
        if answer.points is None:
            return NO_RULE
        return ", ".join(f"{wording.number(points)} at {node}" for points, node in zip(answer.points, self.nodes, strict=True))


def _passes(answer: RuleAnswer) -> str:
    return "it passes" if answer.present else NO_RULE


def causes(before: Decision, after: Decision, snapshot: Snapshot, explainers: tuple[PolicyExplainer, PolicyExplainer]) -> list[Cause]:
    """The rules that make the difference between two decisions about a pod on one snapshot, the most important first.

    Empty if both choose the same node, or make room on the same one. The details of both decisions must be current; `explainers` are
    those of the chain of each.
    """
    if (before.node, before.nominated) == (after.node, after.nominated):
        return []
    comparison = _Comparison(before, after, snapshot, explainers)
    if after.group:
        answer = RuleAnswer(present=True, sentences=() if after.node is not None else (after.message,))
        return [comparison.cause(f"group {after.group}", Kind.GROUP, None, after=answer)]
    if before.node == after.node:
        return [comparison.cause(PREEMPTION, Kind.PREEMPTION, None)]
    return comparison.rejections() or comparison.shifts() or [comparison.cause(ORDER, Kind.ORDER, None)]


class _Comparison:
    """Two decisions about one pod on one snapshot; index 0 is the side before, 1 the side after."""

    def __init__(self, before: Decision, after: Decision, snapshot: Snapshot, explainers: tuple[PolicyExplainer, PolicyExplainer]) -> None:
        self._decisions = (before, after)
        self._snapshot = snapshot
        self._explainers = explainers

    def cause(self, rule: str, kind: Kind, node: str | None, before: RuleAnswer = ABSENT, after: RuleAnswer = ABSENT) -> Cause:
        nodes = (self._decisions[0].node, self._decisions[1].node)
        return Cause(rule=rule, kind=kind, node=node, nodes=nodes, before=before, after=after)

    def rejections(self) -> list[Cause]:
        """The filters that reject the former node now; if there are none, those that rejected the present node before."""
        return self._rejected_by(1) or self._rejected_by(0)

    def _rejected_by(self, side: int) -> list[Cause]:
        """The filters of a side that reject the node of the other side."""
        decision, other = self._decisions[side], self._decisions[1 - side]
        if other.row is None:
            return []
        found = []
        for rejection in decision.diagnosis.at(other.row)[:MAX_CAUSES]:
            answer = RuleAnswer(present=True, sentences=self._sentences(side, rejection, other.row))
            passes = RuleAnswer(present=self._has(other, rejection.plugin))
            before, after = (passes, answer) if side else (answer, passes)
            found.append(self.cause(rejection.plugin, Kind.FILTER, other.node, before, after))
        return found

    def _sentences(self, side: int, rejection: NodeRejection, row: int) -> tuple[str, ...]:
        filled = self._explainers[side].sentences(self._decisions[side].pod, self._snapshot, rejection.plugin, row)
        return tuple(reason.text for reason in rejection.reasons) if filled is None else filled

    def _has(self, decision: Decision, rule: str) -> bool:
        """True if a filter of that name applies to the pod."""
        return any(plugin.name == rule for plugin in decision.chain.pod_rules(decision.pod, self._snapshot).filters)

    def shifts(self) -> list[Cause]:
        """The scores that put the present node further above the former one than they did before, in the first tier that has any."""
        before, after = map(self._scores, self._decisions)
        shifts = [(score.tier, score.gap - (before[name].gap if name in before else 0.0), name) for name, score in after.items()] + [
            (score.tier, -score.gap, name) for name, score in before.items() if name not in after
        ]
        towards = sorted((tier, -shift, name) for tier, shift, name in shifts if shift > MIN_SHIFT)
        first = [name for tier, _, name in towards if tier == towards[0][0]]
        return [
            self.cause(name, Kind.SCORE, None, _score_answer(before.get(name)), _score_answer(after.get(name)))
            for name in first[:MAX_CAUSES]
        ]

    def _scores(self, decision: Decision) -> dict[str, _Scores]:
        """The points that each score of a side adds at the two nodes, by name; empty unless there are two nodes."""
        former, present = (each.row for each in self._decisions)
        if former is None or present is None:
            return {}
        return {name: _Scores(*added) for name, added in decision.added_at(former, present).items()}


class _Scores(NamedTuple):
    """The points that a score adds at the node chosen before and at the one chosen after."""

    tier: int
    former: float
    present: float

    @property
    def gap(self) -> float:
        """The points of the present node less those of the former one."""
        return self.present - self.former


def _score_answer(scores: _Scores | None) -> RuleAnswer:
    return ABSENT if scores is None else RuleAnswer(present=True, points=(scores.former, scores.present))
