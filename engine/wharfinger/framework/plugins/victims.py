"""The victims on one node: the pods of lower priority that must leave it so that a pod fits, and what that costs.

Suppose that all pods of lower priority are removed; if the pod fits then, restore them one by one, the most important first, as long as it
still fits. The pods that cannot be restored are the victims. Pods that policies do not allow to evict for this pod are never supposed to be
removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from wharfinger.framework.prepared import Mask, Reason

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Budgets, Evictable, Supposition
    from wharfinger.framework.extension import Trial
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

PRIORITY = "DefaultPreemption", "priority"
NO_VICTIMS = Reason("No preemption victims found for incoming pod", resolvable=False)
OFFSET = 2**31  # added to priorities before they are summed, so that many victims of low priority weigh more than one

Cost = tuple[int, int, int, int, float, str]


class Candidate(Struct, frozen=True):
    """A node that could be freed, with the cost and the victims."""

    cost: Cost
    victims: tuple[PodView, ...]


def select_victims(  # noqa: PLR0913, PLR0917 — the node, the pod, and the inputs of the decision
    row: int, pod: PodView, snapshot: Snapshot, trial: Trial, budgets: Budgets, evictable: Evictable
) -> Candidate | tuple[Reason, ...]:
    """The victims on a node and their cost, or the reasons why the node cannot be freed (`SelectVictimsOnNode`)."""
    lower = [placed for placed in snapshot.pods_on(row) if placed.priority < pod.priority]
    potential = evictable.among(lower)
    if not potential:
        return (no_unprotected_victims(evictable),) if lower else (NO_VICTIMS,)
    supposed = trial.suppose(row)
    for placed in potential:
        supposed.remove(placed)
    reasons = trial.reasons_with_nominees(supposed)
    if reasons:
        return reasons
    importance = importance_in(snapshot)
    violating, others = budgets.split(sorted(potential, key=importance))
    broken = _leaving(violating, supposed, trial)
    victims = sorted([*broken, *_leaving(others, supposed, trial)], key=importance)
    if not victims:
        return (NO_VICTIMS,)
    evicted = [victim for victim in victims if not snapshot.leaving(victim)]
    violations = sum(not snapshot.leaving(victim) for victim in broken)
    return Candidate(cost(evicted, violations, snapshot.names[row]), tuple(victims))


def no_unprotected_victims(evictable: Evictable) -> Reason:
    """The reason for a node whose pods of lower priority are all protected by policies."""
    return Reason(f"No preemption victims that policy {' and '.join(evictable.policies)} allows", resolvable=False)


def _leaving(removed: Sequence[PodView], supposed: Supposition, trial: Trial) -> list[PodView]:
    """The removed pods that cannot be restored, tried in sequence, because a filter then rejects the node."""
    leaving = []
    for placed in removed:
        supposed.restore(placed)
        if trial.reasons_with_nominees(supposed):
            supposed.remove(placed)
            leaving.append(placed)
    return leaving


def importance_in(snapshot: Snapshot) -> Callable[[PodView], tuple[bool, int, float]]:
    """A key that puts the more important pod first: higher priority, then longer running (`MoreImportantPod`).

    In kube-scheduler pods that are leaving count as others do. Here they come last, so that no other pod is evicted in their place.
    """
    return lambda pod: (snapshot.leaving(pod), -pod.priority, _started(pod))


def cost(victims: Sequence[PodView], violations: int, node: str) -> Cost:
    """A key that puts the node to be freed first (`pickOneNodeForPreemption`), by the victims that are not leaving already.

    Fewest broken budgets, lowest highest priority, lowest sum of priorities, fewest victims, latest start of the longest running among the
    most important victims, name.
    """
    highest = max((victim.priority for victim in victims), default=-OFFSET)
    earliest = min((_started(victim) for victim in victims if victim.priority == highest), default=math.inf)
    return violations, highest, sum(victim.priority + OFFSET for victim in victims), len(victims), -earliest, node


def _started(pod: PodView) -> float:
    """The start of a pod in seconds since 1970; +inf if it has not started."""
    return math.inf if pod.started is None else pod.started


def priorities(snapshot: Snapshot) -> Selection:
    """The placed pods with their priorities."""
    return snapshot.selection(PRIORITY, lambda _: True, value=lambda placed: float(placed.priority))


def has_lower(priority: int, snapshot: Snapshot) -> Mask:
    """The nodes that have a pod of lower priority, `(n_nodes,) bool`."""
    return np.asarray(priorities(snapshot).extreme_by_node(highest=False) < priority)
