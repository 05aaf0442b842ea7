"""The answer to a drain: the outcome for each pod, the use of each budget, and the cluster before and after."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from wharfinger.framework.chain import Chain
from wharfinger.groups.results import GroupResult
from wharfinger.simulate.dry_run import PodResult, Utilisation


class DrainOutcome(Enum):
    """The outcome of a drain for one pod."""

    PLACED = "placed"
    """It leaves, and its replacement gets a node."""
    WAITS = "waits"
    """It leaves, and its replacement finds no node."""
    GONE = "gone"
    """It leaves, and there is no replacement."""
    FORBIDDEN = "forbidden"
    """A PodDisruptionBudget forbids its eviction, also after all others."""
    REFUSED = "refused"
    """kubectl refuses the drain because of it."""
    STAYS = "stays"
    """It stays, and kubectl drains the node nevertheless."""


class DrainedPod(Struct, frozen=True, kw_only=True):
    """The outcome for one pod. `source` is its node before; "" for a pod that waited for one already.

    `step` is the step in which it leaves, None if it does not. `alone` is True if others may leave with it by their budgets, and do not
    because a pod that waits may take the place of one of them. `placement` is the decision about its replacement, None if there is none.
    `displaced_by` is the pod for which preemption evicted it, None if the drain did. `controller` is `kind/name`, "" for none.
    """

    pod: str
    source: str
    controller: str
    outcome: DrainOutcome
    reason: str
    step: int | None
    placement: PodResult | None
    displaced_by: str | None
    alone: bool = False

    @property
    def node(self) -> str | None:
        """The node of the replacement, None if it has none."""
        return None if self.placement is None else self.placement.node


class BudgetUse(Struct, frozen=True, kw_only=True):
    """The use of one PodDisruptionBudget by a drain: `pods` that it covers are to leave, it allows `allowed` evictions now.

    `forbidden` pods could not leave in any step.
    """

    budget: str
    pods: int
    allowed: int
    forbidden: int

    @property
    def forbids_now(self) -> bool:
        """True if it forbids an eviction of the drain now: after `allowed` evictions."""
        return self.pods > self.allowed


class Drain(Struct, frozen=True, kw_only=True):
    """A finished drain.

    `pods` are in the order in which they leave, then those that do not leave, then pods that were in the queue already. `after` is the use
    of the cluster once the pods have left: without the nodes if they were removed, otherwise with the nodes cordoned.
    `has_budgets` is False if the cluster has no PodDisruptionBudget. `groups` are those of which members leave or waited, as
    they are in the end.
    """

    chain: Chain
    nodes: tuple[str, ...]
    removed: bool
    pods: tuple[DrainedPod, ...]
    budgets: tuple[BudgetUse, ...]
    has_budgets: bool
    steps: int
    before: Utilisation
    after: Utilisation
    groups: tuple[GroupResult, ...] = ()

    def of(self, outcome: DrainOutcome) -> tuple[DrainedPod, ...]:
        """The pods with one outcome, in order."""
        return tuple(pod for pod in self.pods if pod.outcome is outcome)

    @property
    def clean(self) -> bool:
        """True if every pod that has to leave may leave, and every replacement has a node."""
        return not any(pod.outcome in {DrainOutcome.WAITS, DrainOutcome.FORBIDDEN, DrainOutcome.REFUSED} for pod in self.pods)
