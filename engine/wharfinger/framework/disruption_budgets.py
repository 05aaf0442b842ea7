"""PodDisruptionBudgets: which evictions would break one.

As `filterPodsWithPDBViolation` (pkg/scheduler/framework/plugins/defaultpreemption, Kubernetes 1.36): budgets are counted down victim by
victim, and a pod whose eviction takes one below zero is a violation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from wharfinger.errors import InvalidObject
from wharfinger.model import objects, selectors

if TYPE_CHECKING:
    from wharfinger.model.object_store import ObjectStore
    from wharfinger.model.pod import PodView


class Budgets:
    """The budgets of a cluster, ready to be counted down."""

    __slots__ = ("_by_namespace",)

    def __init__(self, store: ObjectStore) -> None:
        self._by_namespace: dict[str, list[tuple[selectors.Selector, objects.PodDisruptionBudget]]] = {}
        for budget in store.all(objects.PodDisruptionBudget):
            selector = _selector(budget)
            if not selector.nothing:
                self._by_namespace.setdefault(budget.metadata.namespace or "default", []).append((selector, budget))

    def split(self, pods: Sequence[PodView]) -> tuple[list[PodView], list[PodView]]:
        """The pods whose eviction, in this order, would break a budget, and the others."""
        if not self._by_namespace:
            return [], list(pods)
        allowed: dict[int, int] = {}
        violating: list[PodView] = []
        others: list[PodView] = []
        for pod in pods:
            broken = False
            for budget in self._covering(pod):
                left = allowed[id(budget)] = allowed.get(id(budget), budget.status.disruptions_allowed) - 1
                broken |= left < 0
            (violating if broken else others).append(pod)
        return violating, others

    def _covering(self, pod: PodView) -> Iterable[objects.PodDisruptionBudget]:
        """The budgets that the pod's eviction counts against; not those that count it as disrupted already."""
        if not pod.labels:
            return
        for selector, budget in self._by_namespace.get(pod.namespace, ()):
            if selector.matches(pod.labels) and pod.name not in budget.status.disrupted_pods:
                yield budget


def _selector(budget: objects.PodDisruptionBudget) -> selectors.Selector:
    """What a budget selects; for this purpose an empty selector, like an absent or unreadable one, selects nothing."""
    try:
        selector = selectors.label_selector(budget.spec.selector)
    except InvalidObject:
        return selectors.NOTHING
    return selectors.NOTHING if selector == selectors.EVERYTHING else selector
