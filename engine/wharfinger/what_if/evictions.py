"""The evictions that PodDisruptionBudgets allow, one after the other, as the Eviction API decides about each.

Source: pkg/registry/core/pod/storage/eviction.go, Kubernetes 1.36. The API takes one disruption from the budget of a healthy pod; the
controller of budgets gives it back when another healthy pod is there. Here `evict` takes it, and `replaced` gives it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wharfinger.framework.eviction import Budgets
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.tables import ObjectStore

MAX_DISRUPTED = 2000
"""The API refuses further evictions while its controller has not confirmed this number."""
ALWAYS_ALLOW = "AlwaysAllow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an eviction is refused, and by which budgets. `passes` is True if it may be allowed once other pods are healthy again."""

    budgets: tuple[str, ...]
    message: str
    passes: bool


@dataclass(slots=True)
class _Count:
    """The present numbers of a budget: disruptions that it allows, and healthy pods."""

    allowed: int
    healthy: int
    desired: int


class Evictions:
    """What the budgets of a cluster allow now. It changes with each eviction, loss and replacement that is counted."""

    __slots__ = ("_budgets", "_counts")

    def __init__(self, store: ObjectStore) -> None:
        self._budgets = Budgets(store)
        self._counts: dict[str, _Count] = {}

    def covering(self, pod: PodView) -> tuple[objects.PodDisruptionBudget, ...]:
        """The budgets that cover a pod; none for a pod that is starting, has ended or is being deleted, which the API evicts anyway."""
        if pod.terminating or pod.finished or pod.object.status.phase == "Pending":
            return ()
        return tuple(self._budgets.covering(pod))

    def allowed(self, budget: objects.PodDisruptionBudget) -> int:
        """The disruptions that a budget allows now."""
        return self._count(budget).allowed

    def guarding(self, pod: PodView) -> Mapping[str, int]:
        """How many evictions each budget allows now that takes a disruption for the pod, by name; none of a pod with several budgets."""
        found = self.covering(pod)
        if len(found) > 1:
            return {objects.key_of(budget): 0 for budget in found}
        guards = (budget for budget in found if self._guards(budget, pod))
        return {objects.key_of(budget): 0 if self._exhausted(budget) else self.allowed(budget) for budget in guards}

    def refusal(self, pod: PodView) -> Refusal | None:
        """Why the API would refuse to evict the pod now; None if it would not."""
        found = self.covering(pod)
        if len(found) > 1:
            names = tuple(map(objects.key_of, found))
            return Refusal(budgets=names, message=f"more than one PodDisruptionBudget covers it: {', '.join(names)}", passes=False)
        if not found or not self._guards(found[0], pod):
            return None
        return self._exhausted(found[0])

    def _exhausted(self, budget: objects.PodDisruptionBudget) -> Refusal | None:
        """Why a budget allows no disruption now; None if it allows one."""
        name, status, now = objects.key_of(budget), budget.status, self._count(budget)
        passes = True
        if status.observed_generation < budget.metadata.generation:
            why = "the API server is still processing it"
        elif now.allowed < 0 or len(status.disrupted_pods) > MAX_DISRUPTED:
            why, passes = "its status allows no eviction until its controller has repaired it", False
        elif now.allowed == 0:
            why = f"needs {count(now.desired, 'healthy pod')} and has {now.healthy:,}"
        else:
            return None
        return Refusal(budgets=(name,), message=f"PodDisruptionBudget {name}: {why}", passes=passes)

    def evict(self, pod: PodView) -> None:
        """Count an eviction that is not refused."""
        for budget in self.covering(pod):
            if self._guards(budget, pod):
                now = self._count(budget)
                now.allowed -= 1
                now.healthy -= healthy(pod)

    def lose(self, pod: PodView) -> None:
        """Count a pod that leaves without the API being asked, as a victim of preemption does."""
        for budget in self.covering(pod):
            if healthy(pod):
                now = self._count(budget)
                now.healthy -= 1
                now.allowed = min(now.allowed, max(0, now.healthy - now.desired))

    def replaced(self, pod: PodView) -> None:
        """Count a healthy pod in the place of `pod`, which has left."""
        for budget in self._budgets.covering(pod):
            now = self._count(budget)
            now.healthy += 1
            now.allowed += now.healthy > now.desired

    def _guards(self, budget: objects.PodDisruptionBudget, pod: PodView) -> bool:
        """True if the eviction of the pod takes a disruption; an unhealthy pod may leave without one."""
        now = self._count(budget)
        lenient = budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW or now.healthy >= now.desired > 0
        return healthy(pod) or not lenient

    def _count(self, budget: objects.PodDisruptionBudget) -> _Count:
        name, status = objects.key_of(budget), budget.status
        found = self._counts.get(name)
        if found is None:
            desired, allowed, present = status.desired_healthy, status.disruptions_allowed, status.current_healthy
            present = max(present, desired + allowed) if allowed > 0 else present  # a manifest may say no more than what is allowed
            found = self._counts[name] = _Count(allowed, present, desired)
        return found


def healthy(pod: PodView) -> bool:
    """True unless the pod says that it is not ready; a manifest without a status counts as a pod that runs."""
    return all(condition.status == "True" for condition in pod.object.status.conditions if condition.type == "Ready")
