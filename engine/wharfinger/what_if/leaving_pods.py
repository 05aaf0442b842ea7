"""Pods that leave their nodes: those that stay instead, the evictions that the API allows, and how controllers create the pods again.

What stays or is refused follows `kubectl drain` (staging/src/k8s.io/kubectl/pkg/drain, Kubernetes 1.36): pods of DaemonSets and static pods
stay; pods that would be lost, and pods with data on the node, make kubectl refuse the whole drain unless flags allow it.

Evictions follow the Eviction API (pkg/registry/core/pod/storage/eviction.go, Kubernetes 1.36). The API takes one disruption from the budget
of the pod; the controller of budgets gives it back when another healthy pod is there. Here `evict` takes it, and `replaced` gives it back.
For a pod that was not healthy, the controller gives it back at once: there are as many healthy pods as before. So `evict` takes none.

Running pods that a question takes from their nodes and places again are named by `all`, `namespace=…` or `selector=…`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.errors import UsageError
from wharfinger.framework.eviction import Budgets
from wharfinger.framework.plugins.taint_toleration import UNSCHEDULABLE_TAINT
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.object_store import ObjectStore

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of the API server's copy of a static pod."""

DAEMON_SET = "a pod of a DaemonSet stays"
STATIC = "a static pod stays: the kubelet runs it from a file"
LOCAL_DATA = "its emptyDir would be deleted with it; kubectl drain needs --delete-emptydir-data"
NO_CONTROLLER = "no controller would create it again; kubectl drain needs --force"

MARKED = datetime.fromtimestamp(0, UTC)
"""The time at which pods are marked as being deleted; only whether there is a mark counts."""

_REPLACE_EARLY = frozenset({"ReplicaSet", "ReplicationController"})
"""Controllers that do not count a pod which is marked as deleted (`FilterActivePods`)."""

_REPLACE_AFTER_DELAY = frozenset({"Job"})
"""Controllers for which a pod that is marked as deleted has failed, and that wait after a failure (`DefaultJobPodFailureBackOff`)."""

MAX_DISRUPTED = 2000
"""The API refuses further evictions while its controller has not confirmed this number."""
ALWAYS_ALLOW = "AlwaysAllow"

EXPECTED = "expected all, namespace=NAME or selector=LABELS"


def cordoned(node: objects.Node) -> objects.Node:
    """The node as it is after `kubectl cordon`: unschedulable, with the taint that the node controller adds."""
    others = tuple(
        taint for taint in node.spec.taints if (taint.key, taint.effect) != (UNSCHEDULABLE_TAINT.key, UNSCHEDULABLE_TAINT.effect)
    )
    return replace(node, spec=replace(node.spec, unschedulable=True, taints=(*others, UNSCHEDULABLE_TAINT)))


def staying(pod: PodView) -> str:
    """The reason why a drain leaves a pod where it is; "" if the pod has to leave."""
    owner = pod.controller
    if owner is not None and owner.kind == "DaemonSet":
        return DAEMON_SET
    return STATIC if MIRROR in pod.annotations else ""


def refusals(pod: PodView, *, force: bool = False, delete_empty_dir_data: bool = False) -> str:
    """The reasons of `kubectl drain` to refuse a node with this pod; "" if it does not refuse."""
    found = []
    if not delete_empty_dir_data and any(volume.empty_dir is not None for volume in pod.object.spec.volumes):
        found.append(LOCAL_DATA)
    if not force and pod.controller is None:
        found.append(NO_CONTROLLER)
    return "; ".join(found)


def replaceable(pod: PodView) -> bool:
    """True if a controller creates the pod again.

    The replacement of a pod that is being deleted exists already, if it does not wait until the pod is gone.
    """
    return pod.controller is not None and not (pod.terminating and may_be_replaced_early(pod))


def replaced_early(pod: PodView) -> bool:
    """True if the controller creates the replacement as soon as the pod is marked as deleted, so that for a time both are there.

    Other controllers, such as StatefulSet, give the replacement the same name, or wait for another reason until the pod is gone.
    """
    owner = pod.controller
    return owner is not None and owner.kind in _REPLACE_EARLY


def replaced_after_delay(pod: PodView) -> bool:
    """True if the controller creates the replacement ten seconds or more after the pod was marked as deleted, which it counts as a failure.

    Most pods are gone by then. One with a longer grace period may still be there.
    """
    owner = pod.controller
    return owner is not None and owner.kind in _REPLACE_AFTER_DELAY


def may_be_replaced_early(pod: PodView) -> bool:
    """True if the pod may still be there when its replacement is created."""
    return replaced_early(pod) or replaced_after_delay(pod)


def recreated(pod: PodView, created: datetime | None = None) -> PodView:
    """The pod as its controller would create it again: on no node, created at `created` (as before if None).

    Of its status, only the names of claims from templates stay. They represent the claims that would be made for it.

    Name and uid stay, so that ties between nodes are decided as for the pod itself. A real controller gives the pod a new uid, and its
    pods of a Deployment new names: among equally good nodes another one may then be chosen.
    """
    own = pod.object
    metadata = replace(own.metadata, deletion_timestamp=None, creation_timestamp=created or own.metadata.creation_timestamp)
    status = objects.PodStatus(resource_claim_statuses=own.status.resource_claim_statuses)
    return PodView(replace(own, metadata=metadata, spec=replace(own.spec, node_name=""), status=status))


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason why an eviction is refused, and the budgets that refuse it.

    `passes` is True if it may be allowed once other pods are healthy again.
    """

    budgets: tuple[str, ...]
    message: str
    passes: bool


class _Count(Struct):
    """The present numbers of a budget: disruptions that it allows, and healthy pods."""

    allowed: int
    healthy: int
    desired: int


class Evictions:
    """The evictions that the budgets of a cluster allow now; updated with each counted eviction, loss and replacement."""

    __slots__ = ("_budgets", "_counted", "_counts")

    def __init__(self, store: ObjectStore) -> None:
        self._budgets = store.following(Budgets)
        self._counts: dict[str, _Count] = {}
        self._counted: dict[str, objects.PodDisruptionBudget] = {}  # those whose counts have changed since `changed` was called

    def covering(self, pod: PodView) -> tuple[objects.PodDisruptionBudget, ...]:
        """The budgets that cover a pod; none for a pod that is starting, has ended or is being deleted, which the API always evicts."""
        if pod.terminating or pod.finished or pod.object.status.phase == "Pending":
            return ()
        return tuple(self._budgets.covering(pod))

    def allowed(self, budget: objects.PodDisruptionBudget) -> int:
        """The disruptions that a budget allows now."""
        return self._count(budget).allowed

    def changed(self) -> Iterator[objects.PodDisruptionBudget]:
        """The budgets that were counted since the last call, with a status that has their present numbers."""
        counted, self._counted = self._counted, {}
        for budget in counted.values():
            now = self._count(budget)
            yield replace(budget, status=replace(budget.status, disruptions_allowed=now.allowed, current_healthy=now.healthy))

    def guarding(self, pod: PodView) -> Mapping[str, int]:
        """The evictions that each budget of the pod allows now, by name; empty for a pod with several budgets."""
        found = self.covering(pod)
        if len(found) > 1:
            return {objects.key_of(budget): 0 for budget in found}
        guards = (budget for budget in found if self._guards(budget, pod))
        return {objects.key_of(budget): 0 if self._exhausted(budget) else self.allowed(budget) for budget in guards}

    def refusal(self, pod: PodView) -> Refusal | None:
        """The reason why the Eviction API would refuse the pod now; None if it would not."""
        found = self.covering(pod)
        if len(found) > 1:
            names = tuple(map(objects.key_of, found))
            return Refusal(budgets=names, message=f"more than one PodDisruptionBudget covers it: {', '.join(names)}", passes=False)
        if not found or not self._guards(found[0], pod):
            return None
        return self._exhausted(found[0])

    def _exhausted(self, budget: objects.PodDisruptionBudget) -> Refusal | None:
        """The reason why a budget allows no disruption now; None if it allows one."""
        name, status, now = objects.key_of(budget), budget.status, self._count(budget)
        passes = True
        if status.observed_generation < budget.metadata.generation:
            why = "the API server is still processing it"
        elif now.allowed < 0 or len(status.disrupted_pods) > MAX_DISRUPTED:
            why, passes = "its status allows no eviction until its controller has repaired it", False
        elif now.allowed == 0:
            why = f"needs {wording.count(now.desired, 'healthy pod')} and has {now.healthy:,}"
        else:
            return None
        return Refusal(budgets=(name,), message=f"PodDisruptionBudget {name}: {why}", passes=passes)

    def evict(self, pod: PodView) -> None:
        """Count an eviction that is not refused."""
        for budget in self.covering(pod):
            if self._guards(budget, pod):
                now = self._changing(budget)
                now.allowed -= healthy(pod)
                now.healthy -= healthy(pod)

    def count_lost(self, pod: PodView) -> None:
        """Count a pod that leaves without the Eviction API, as a victim of preemption does."""
        for budget in self.covering(pod):
            if healthy(pod):
                now = self._changing(budget)
                now.healthy -= 1
                now.allowed = min(now.allowed, max(0, now.healthy - now.desired))

    def replaced(self, pod: PodView) -> None:
        """Count a healthy pod as the replacement of `pod`, which has left."""
        for budget in self._budgets.covering(pod):
            now = self._changing(budget)
            now.healthy += 1
            now.allowed += now.healthy > now.desired

    def _guards(self, budget: objects.PodDisruptionBudget, pod: PodView) -> bool:
        """True if the eviction of the pod takes a disruption; an unhealthy pod may leave without one."""
        now = self._count(budget)
        lenient = budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW or now.healthy >= now.desired > 0
        return healthy(pod) or not lenient

    def _changing(self, budget: objects.PodDisruptionBudget) -> _Count:
        """The numbers of a budget, which the caller changes."""
        self._counted[objects.key_of(budget)] = budget
        return self._count(budget)

    def _count(self, budget: objects.PodDisruptionBudget) -> _Count:
        name, status = objects.key_of(budget), budget.status
        found = self._counts.get(name)
        if found is None:
            desired, allowed, present = status.desired_healthy, status.disruptions_allowed, status.current_healthy
            present = max(present, desired + allowed) if allowed > 0 else present  # a manifest may say no more than what is allowed
            found = self._counts[name] = _Count(allowed, present, desired)
        return found


def healthy(pod: PodView) -> bool:
    """True unless the pod has the condition that it is not ready; a manifest without a status counts as a pod that runs."""
    return all(condition.status == "True" for condition in pod.object.status.conditions if condition.type == "Ready")


def replaced_pods(state: ClusterState, words: Sequence[str]) -> tuple[PodView, ...]:
    """The running pods that any of the words names, in the order of their keys; pods being deleted and mirror pods are left out.

    Raises UsageError for a word of another form and for one that names no pod; InvalidObject for a selector that cannot be read.
    """
    running = sorted(
        (pod for pod, _ in state.placements() if not (pod.finished or pod.terminating or MIRROR in pod.annotations)),
        key=lambda pod: pod.key,
    )
    found: dict[str, PodView] = {}
    for word in words:
        chosen = _chosen(word)
        named = [pod for pod in running if chosen(pod)]
        if not named and word != "all":
            raise UsageError(f"replace {word}: no running pod matches{_nearest(word, running)}")
        found |= {pod.uid: pod for pod in named}
    return tuple(sorted(found.values(), key=lambda pod: pod.key))


def _chosen(word: str) -> Callable[[PodView], bool]:
    """The test for pods that a word means."""
    kind, _, value = word.partition("=")
    if word == "all":
        return lambda _pod: True
    if kind == "namespace" and value:
        return lambda pod: pod.namespace == value
    if kind == "selector" and value.strip():
        wanted = matching.parse_selector(value)
        return lambda pod: wanted.matches(pod.labels)
    raise UsageError(f"replace {word}: {EXPECTED}")


def _nearest(word: str, running: Sequence[PodView]) -> str:
    """The end of an error: the namespace that may be meant."""
    kind, _, value = word.partition("=")
    meant = wording.closest(value, {pod.namespace for pod in running}) if kind == "namespace" else None
    return f"; did you mean namespace={meant}?" if meant else ""
