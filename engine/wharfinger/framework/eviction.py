"""Evictions before they happen: the pods that preemption may evict for another, and a node supposed to be without them.

Policies and PodDisruptionBudgets limit which pods of lower priority may be evicted. For the pods that would be removed or added, Kubernetes
clones the node and its cycle state. Here a plugin gets the difference (`PreparedFilter.supposing`) and answers for the one node, while the
cluster itself does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from msgspec import Struct

from wharfinger.errors import InvalidObject
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.state.cluster_state import ClusterState

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import EvaluationContext, ObjectStore
    from wharfinger.model.state.snapshot import Snapshot


class Budgets:
    """The PodDisruptionBudgets of a store, which are followed: `store.following(Budgets)`.

    A budget that requires one of some values of a label is found by these, so that a pod is not compared with every budget.
    """

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.PodDisruptionBudget,)

    def __init__(self, _store: ObjectStore) -> None:
        self._selectors: dict[str, matching.Selector] = {}
        self._found_by: dict[Place, dict[str, objects.PodDisruptionBudget]] = {}

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Follow a budget that was added, changed or removed."""
        if isinstance(old, objects.PodDisruptionBudget):
            key = objects.key_of(old)
            selector = self._selectors.pop(key)
            for place in _places(old, selector):
                del self._found_by[place][key]
                if not self._found_by[place]:
                    del self._found_by[place]
            if isinstance(new, objects.PodDisruptionBudget) and new.spec.selector == old.spec.selector:
                self._add(new, selector)  # most changes are of the status
                return
        if isinstance(new, objects.PodDisruptionBudget):
            self._add(new, _selector(new))

    def _add(self, budget: objects.PodDisruptionBudget, selector: matching.Selector) -> None:
        key = objects.key_of(budget)
        self._selectors[key] = selector
        for place in _places(budget, selector):
            self._found_by.setdefault(place, {})[key] = budget

    def covering(self, pod: PodView) -> Iterator[objects.PodDisruptionBudget]:
        """The budgets that cover a pod, by name, as the Eviction API finds them: an empty selector covers every pod that has labels."""
        if not pod.labels or not self._selectors:
            return
        places = [(pod.namespace, None, ""), *((pod.namespace, label, value) for label, value in pod.labels.items())]
        found = {key: budget for place in places for key, budget in self._found_by.get(place, _NO_BUDGETS).items()}
        yield from (found[key] for key in sorted(found) if self._selectors[key].matches(pod.labels))

    def split(self, pods: Sequence[PodView]) -> tuple[list[PodView], list[PodView]]:
        """The pods whose eviction, in this order, would break a budget, and the others, as kube-scheduler's preemption counts."""
        if not self._selectors:
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
_NO_BUDGETS: Mapping[str, objects.PodDisruptionBudget] = {}
Place = tuple[str, str | None, str]
"""A namespace with a label and one of its values, or with None and ""."""


def _places(budget: objects.PodDisruptionBudget, selector: matching.Selector) -> Iterator[Place]:
    """The places where a budget is kept: one of them is that of every pod that it covers."""
    if selector.nothing:
        return
    namespace = budget.metadata.namespace or "default"
    required = next((each for each in selector.requirements if each.operator == "In"), None)
    if required is None:
        yield namespace, None, ""
    else:
        yield from ((namespace, required.key, value) for value in required.values)


def _selector(budget: objects.PodDisruptionBudget) -> matching.Selector:
    """The selector of a budget; an absent or unreadable selector selects nothing."""
    try:
        return matching.label_selector(budget.spec.selector)
    except InvalidObject:
        return matching.NOTHING


class Evictable(Struct, frozen=True):
    """The placed pods that may be evicted for one pod: those that all `rules` are true for; `policies` are the names of their policies.

    `depends` is what the answers depend on of time and objects: they are the same where it is equal.
    """

    policies: tuple[str, ...] = ()
    rules: tuple[Callable[[PodView], bool], ...] = ()
    depends: Hashable = None

    def among(self, pods: Iterable[PodView]) -> list[PodView]:
        """The given pods that may be evicted, in order."""
        return [placed for placed in pods if all(rule(placed) for rule in self.rules)]


ALL_PODS = Evictable()


def evictable(policies: Sequence[CompiledPolicy], pod: PodView, at: EvaluationContext) -> Evictable:
    """The pods that the policies governing a pod allow to evict for it."""
    limiting = [policy for policy in policies if policy.victims is not None or _filters_read_pods(policy)]
    if not limiting:
        return ALL_PODS
    timed = any(policy.victims is not None and policy.victims.reads_time for policy in limiting)
    labelled = any(policy.victims is not None and policy.victims.reads_namespaces for policy in limiting)
    return Evictable(
        tuple(policy.name for policy in limiting),
        tuple(_rule(policy, pod, at) for policy in limiting),
        (at.now if timed else None, at.objects.namespace_labels if labelled else None),
    )


def _rule(policy: CompiledPolicy, pod: PodView, at: EvaluationContext) -> Callable[[PodView], bool]:
    """The predicate of placed pods that a policy allows to evict."""
    return partial(_is_own, policy) if policy.victims is None else policy.victims.allowed(pod, at)


def _filters_read_pods(policy: CompiledPolicy) -> bool:
    """True for a policy of a namespace with a filter that depends on more than node objects: evictions may change its verdicts."""
    return policy.authority.restricted and any(rule.volatility is not Volatility.STATIC for rule in policy.filters)


def _is_own(policy: CompiledPolicy, placed: PodView) -> bool:
    """True if a placed pod is of the policy's namespace."""
    return policy.authority.confined_to == placed.namespace


T = TypeVar("T")


class Supposition:
    """The pods of one node with some removed and some added; `removed` and `added` are by uid.

    `count` and `requests` are the differences to the real number of pods and to the real sums of their requests, by resource.
    """

    __slots__ = ("_memo", "added", "count", "removed", "requests", "row", "snapshot")

    def __init__(self, snapshot: Snapshot, row: int) -> None:
        self.snapshot = snapshot
        self.row = row
        self.removed: dict[str, PodView] = {}
        self.added: dict[str, PodView] = {}
        self.count = 0
        self.requests: dict[str, int] = {}
        self._memo: dict[Hashable, object] = {}

    def pods(self) -> Iterator[PodView]:
        """The pods that are supposed to be on the node."""
        for pod in self.snapshot.pods_on(self.row):
            if pod.uid not in self.removed:
                yield pod
        yield from self.added.values()

    def alone(self) -> Snapshot:
        """A snapshot of a cluster with only this node and its supposed pods, at the same time and without metric samples."""
        state = ClusterState(self.snapshot.now)
        state.add_node(self.snapshot.node(self.row).object)
        for pod in self.pods():
            state.add_pod(pod)
        return state.snapshot(self.snapshot.now)

    def remove(self, pod: PodView) -> None:
        """Suppose that one of the node's pods is removed."""
        self.removed[pod.uid] = pod
        self._count(pod, -1)

    def restore(self, pod: PodView) -> None:
        """Undo `remove`."""
        del self.removed[pod.uid]
        self._count(pod, 1)

    def add(self, pod: PodView) -> None:
        """Suppose that a pod is added to the node."""
        self.added[pod.uid] = pod
        self._count(pod, 1)

    def withdraw(self, pod: PodView) -> None:
        """Undo `add`."""
        del self.added[pod.uid]
        self._count(pod, -1)

    def difference(self, counts: Callable[[PodView], bool]) -> int:
        """The number of added pods that `counts` is true for, less the number of removed ones."""
        return sum(1 for pod in self.added.values() if counts(pod)) - sum(1 for pod in self.removed.values() if counts(pod))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, which is called once per key; for values of the node that do not depend on its pods."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast("T", self._memo[key])

    def _count(self, pod: PodView, sign: int) -> None:
        self.count += sign
        for resource, amount in pod.requests.items():
            self.requests[resource] = self.requests.get(resource, 0) + sign * amount
