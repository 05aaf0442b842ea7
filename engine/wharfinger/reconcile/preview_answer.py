"""Where the scheduler would place some pods now: the same decisions as a dry run, on a copy of the live cluster.

Everything happens in steps between which the scheduler has its turn. The copy is of one moment, so the answer is that of one moment too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wharfinger.crd.preview import MOST_PLACEMENTS, MOST_RULES, NearestMiss, PlacementCount, RuleCount
from wharfinger.framework.chain import Chain
from wharfinger.framework.decision import Decision
from wharfinger.model import objects
from wharfinger.model.cluster_copy import copied
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot
from wharfinger.reconcile.conditions import cut
from wharfinger.runtime import simulator

_MOST_REASONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Why a pod finds no node, as it is told of the first such pod."""

    message: str
    rules: tuple[RuleCount, ...]
    nearest: NearestMiss | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Node by pod, None where there is none, in the order of the decisions."""

    nodes: tuple[tuple[str, str | None], ...]
    miss: Miss | None
    policy_revision: str

    def status(self) -> dict[str, Any]:
        """The part of the status that says it."""
        counts = Counter(node for _, node in self.nodes if node is not None)
        ordered = sorted(counts, key=lambda node: (-counts[node], node))
        status: dict[str, Any] = {
            "pods": len(self.nodes),
            "placed": sum(counts.values()),
            "placements": [PlacementCount(node=node, count=counts[node]).plain() for node in ordered[:MOST_PLACEMENTS]],
            "policyRevision": self.policy_revision,
        }
        if len(ordered) > MOST_PLACEMENTS:
            status["moreNodes"] = len(ordered) - MOST_PLACEMENTS
        if self.miss is not None:
            status |= {"message": self.miss.message, "rules": [each.plain() for each in self.miss.rules]}
            if self.miss.nearest is not None:
                status["nearestMiss"] = self.miss.nearest.plain()
        return status


def answered(
    chain: Chain, snapshot: Snapshot, pods: Sequence[PodView], made: Sequence[objects.AnyObject] = (), namespace: str | None = None
) -> Generator[None, None, Answer]:
    """A generator of steps that returns the answer. `made` are objects that come along with the pods: their ReplicaSet, their claims.

    For people of one `namespace` (None: for anybody) disruption budgets of others do not count: whom a budget covers, and so which node
    would be freed, depends on the labels of pods that they may not see.
    """
    state = yield from copied(snapshot)
    if namespace is not None:
        _forget_budgets_of_others(state, namespace)
    for obj in made:
        state.put(obj)
    nodes: list[tuple[str, str | None]] = []
    miss: Miss | None = None

    def watch(decision: Decision, seen: Snapshot, _evicted: tuple[PodView, ...]) -> Miss | None:
        return _miss(decision, seen) if decision.node is None and miss is None else None

    for outcome in simulator.place(chain, state, pods, watch=watch):
        nodes.append((outcome.decision.pod.key, outcome.decision.node))
        miss = miss or outcome.seen
        yield
    return Answer(nodes=tuple(nodes), miss=miss, policy_revision=chain.policy_revision)


def _forget_budgets_of_others(state: ClusterState, namespace: str) -> None:
    budgets = [budget for budget in state.objects.all(objects.PodDisruptionBudget) if budget.metadata.namespace != namespace]
    for budget in budgets:
        state.drop("PodDisruptionBudget", objects.key_of(budget))


def _miss(decision: Decision, snapshot: Snapshot) -> Miss:
    told = [each for each in decision.diagnosis.filters if each.alone]
    rules = tuple(
        RuleCount(rule=each.plugin[:253], rejected=each.alone, reasons=_counted(each.reasons))
        for each in sorted(told, key=lambda each: (-each.alone, each.plugin))[:MOST_RULES]
    )
    return Miss(message=cut(decision.message, 4000), rules=rules, nearest=_nearest(decision, snapshot, [each.plugin for each in told]))


def _counted(reasons: Any) -> tuple[str, ...]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return tuple(cut(f"{count} {text}", 1024) for text, count in ordered[:_MOST_REASONS])


def _nearest(decision: Decision, snapshot: Snapshot, plugins: Sequence[str]) -> NearestMiss | None:
    """The node that fewest filters reject; of equals the first by name."""
    if not snapshot.n_nodes or not plugins:
        return None
    against = np.zeros(snapshot.n_nodes, np.int64)
    for plugin in plugins:
        against += decision.diagnosis.rejected_by(plugin)
    rows = np.flatnonzero(against == against.min()).tolist()
    row = min(rows, key=lambda row: snapshot.names[row])
    reasons = [f"{found.plugin}: {reason}" for found in decision.diagnosis.at(row) for reason in found.reasons]
    return NearestMiss(node=snapshot.names[row], reasons=tuple(cut(reason, 1024) for reason in reasons[:16]))
