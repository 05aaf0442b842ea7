"""The pods of lower priority that preemption may evict, as limited by policies and PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from wharfinger.errors import InvalidObject
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.objects import matching

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import Circumstances, ObjectStore


class Budgets:
    """The PodDisruptionBudgets of a cluster, by namespace."""

    __slots__ = ("_by_namespace",)

    def __init__(self, store: ObjectStore) -> None:
        self._by_namespace: dict[str, list[tuple[matching.Selector, objects.PodDisruptionBudget]]] = {}
        for budget in store.all(objects.PodDisruptionBudget):
            selector = _selector(budget)
            if not selector.nothing:
                self._by_namespace.setdefault(budget.metadata.namespace or "default", []).append((selector, budget))

    def covering(self, pod: PodView) -> Iterator[objects.PodDisruptionBudget]:
        """The budgets that cover a pod, as the Eviction API finds them: an empty selector covers every pod that has labels."""
        if pod.labels:
            yield from (budget for selector, budget in self._by_namespace.get(pod.namespace, ()) if selector.matches(pod.labels))

    def split(self, pods: Sequence[PodView]) -> tuple[list[PodView], list[PodView]]:
        """The pods whose eviction, in this order, would break a budget, and the others, as kube-scheduler's preemption counts."""
        if not self._by_namespace:
            return [], list(pods)
        allowed: dict[int, int] = {}
        violating: list[PodView] = []
        others: list[PodView] = []
        for pod in pods:
            broken = False
            for budget in self._counted(pod):
                left = allowed[id(budget)] = allowed.get(id(budget), budget.status.disruptions_allowed) - 1
                broken |= left < 0
            (violating if broken else others).append(pod)
        return violating, others

    def _counted(self, pod: PodView) -> Iterator[objects.PodDisruptionBudget]:
        """The budgets that preemption counts a pod against: none with an empty selector, and none that has the pod as disrupted already."""
        for budget in self.covering(pod):
            if budget.spec.selector != _EMPTY and pod.name not in budget.status.disrupted_pods:
                yield budget


_EMPTY = objects.LabelSelector()


def _selector(budget: objects.PodDisruptionBudget) -> matching.Selector:
    """The selector of a budget; an absent or unreadable selector selects nothing."""
    try:
        return matching.label_selector(budget.spec.selector)
    except InvalidObject:
        return matching.NOTHING


@dataclass(frozen=True, slots=True)
class Evictable:
    """The placed pods that may be evicted for one pod: those that all `rules` are true for; `policies` are the names of their policies.

    `depends` is what the answers depend on of the circumstances: they are the same where it is equal.
    """

    policies: tuple[str, ...] = ()
    rules: tuple[Callable[[PodView], bool], ...] = ()
    depends: Hashable = None

    def among(self, pods: Iterable[PodView]) -> list[PodView]:
        """The given pods that may be evicted, in order."""
        return [placed for placed in pods if all(rule(placed) for rule in self.rules)]


ANYONE = Evictable()


def evictable(policies: Sequence[CompiledPolicy], pod: PodView, at: Circumstances) -> Evictable:
    """The pods that the policies governing a pod allow to evict for it."""
    speaking = [policy for policy in policies if policy.victims is not None or _may_change_its_mind(policy)]
    if not speaking:
        return ANYONE
    timed = any(policy.victims is not None and policy.victims.timed for policy in speaking)
    labelled = any(policy.victims is not None and policy.victims.reads_namespaces for policy in speaking)
    return Evictable(
        tuple(policy.name for policy in speaking),
        tuple(_rule(policy, pod, at) for policy in speaking),
        (at.now if timed else None, at.objects.namespace_labels if labelled else None),
    )


def _rule(policy: CompiledPolicy, pod: PodView, at: Circumstances) -> Callable[[PodView], bool]:
    """The predicate of placed pods that a policy allows to evict."""
    return partial(_is_own, policy) if policy.victims is None else policy.victims.allowed(pod, at)


def _may_change_its_mind(policy: CompiledPolicy) -> bool:
    """True for a policy of a namespace with a filter that depends on more than node objects: evictions may change its verdicts."""
    return policy.authority.restricted and any(rule.volatility is not Volatility.STATIC for rule in policy.filters)


def _is_own(policy: CompiledPolicy, placed: PodView) -> bool:
    """True if a placed pod is of the policy's namespace."""
    return policy.authority.confined_to == placed.namespace
