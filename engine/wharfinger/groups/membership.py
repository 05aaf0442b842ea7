"""The group of each pod, and the terms of each group.

A pod names its group itself: in `spec.schedulingGroup`, or in a label of the coscheduling plugin. Otherwise a policy may put it into one.
The requirements of the group are read from its PodGroup at each call, so a PodGroup that is added, changed or deleted needs no event here.
`GroupIndex` stores the members. Every pod is passed to it; pods without a group are not stored.

Several policies may govern a pod. The pod itself names the group; otherwise the first policy, by name, that has a group for the pod. Other
policies count only if they put the pod into the same group. Their terms are combined: all levels and topology keys, the largest minimum,
and the shortest timeout.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from wharfinger.groups.terms import Disruption, Group, GroupTerms, Level
from wharfinger.model import objects
from wharfinger.model.objects.pod_groups import GROUP_LABELS, DisruptionModes, labelled_group, podgroup_name
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import ObjectStore

if TYPE_CHECKING:
    from wharfinger.compiler.pod_programs import CompiledGroup, Membership
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.model.state.object_store import EvaluationContext

COSCHEDULING_TIMEOUT = 60.0
"""Seconds that the coscheduling plugin waits if the PodGroup does not say (permitWaitingTimeSeconds, sigs.k8s.io/scheduler-plugins)."""

GroupRule: TypeAlias = Callable[[PodView], tuple[str, GroupTerms] | None]
"""The group of policies for a pod: its name within the namespace, and what holds for it; None for a pod that no policy puts into one."""


def no_rule(_pod: PodView) -> tuple[str, GroupTerms] | None:
    """Return None: no policy has groups."""
    return None


def named_group(pod: PodView) -> str:
    """The name of the group that a pod itself names, or ""."""
    return podgroup_name(pod.object) or labelled_group(pod.object)


def podgroup_terms(group: objects.PodGroup) -> GroupTerms:
    """The terms of a PodGroup of Kubernetes."""
    spec = group.spec
    gang, constraints = spec.scheduling_policy.gang, spec.scheduling_constraints
    return GroupTerms(
        min_count=0 if gang is None else gang.min_count,
        source=f"PodGroup {objects.key_of(group)}",
        levels=tuple(Level(each.key) for each in (constraints.topology if constraints is not None else ())),
        disruption=Disruption.GROUP if _is_whole(spec.disruption_mode) else Disruption.POD,
        priority=spec.priority,
        preemption_policy=spec.preemption_policy,
    )


class WholePodGroups:
    """The own priorities of the PodGroups that are disrupted as a whole: in preemption for groups, each replaces those of its pods."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.PodGroup,)

    def __init__(self, _store: ObjectStore) -> None:
        self._numbers: Counter[int] = Counter()

    @property
    def lowest(self) -> float:
        """The lowest of the priorities; ∞ if there are none."""
        return min(self._numbers, default=math.inf)

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Follow a PodGroup that was added, changed or removed."""
        for group, number in ((old, -1), (new, 1)):
            if isinstance(group, objects.PodGroup) and group.spec.priority is not None and _is_whole(group.spec.disruption_mode):
                self._numbers[group.spec.priority] += number
                if not self._numbers[group.spec.priority]:
                    del self._numbers[group.spec.priority]


def _is_whole(mode: str | DisruptionModes | None) -> bool:
    return mode.all is not None if isinstance(mode, DisruptionModes) else mode == Disruption.GROUP.value


def coscheduling_terms(group: objects.CoschedulingPodGroup) -> GroupTerms:
    """The terms of a PodGroup of the coscheduling plugin; `minResources` adds nothing, because the members themselves are placed."""
    timeout = group.spec.schedule_timeout_seconds
    return GroupTerms(
        min_count=group.spec.min_member,
        source=f"PodGroup {objects.key_of(group)} of the coscheduling plugin",
        timeout=COSCHEDULING_TIMEOUT if timeout is None else float(timeout),
    )


def narrowed(terms: GroupTerms, policy: GroupTerms) -> GroupTerms:
    """The terms of a PodGroup with those that a policy adds: levels, spread, reservation, and a minimum if the PodGroup has none."""
    known = {level.key for level in terms.levels}
    return replace(
        terms,
        min_count=terms.min_count or policy.min_count,
        levels=(*(level for level in policy.levels if level.key not in known), *terms.levels),
        spread=policy.spread,
        reserve=policy.reserve,
    )


class _Members(Struct):
    by_uid: dict[str, PodView] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    by_spec: set[str] = field(default_factory=set)
    """Those that name the group in `spec.schedulingGroup`."""
    of_policies: dict[str, GroupTerms] = field(default_factory=dict)
    """The terms by policies, from the members that were added; those of the member that was added last count."""
    of_podgroup: tuple[objects.PodGroup, GroupTerms] | None = None
    """The PodGroup that was read last, and its terms."""


class GroupIndex:
    """The groups of the pods that were put into it. `store` has the PodGroups, `rule` the groups of policies.

    `served` returns True if the API server has PodGroups of the coscheduling plugin, so that members of a group without one wait for it; it
    is taken as true once such a PodGroup was there. `sized` is called with the key of a group and the number of its members whenever that
    changes.
    """

    def __init__(self, store: ObjectStore, rule: GroupRule = no_rule, served: Callable[[], bool] = lambda: False) -> None:
        self._store = store
        self._rule = rule
        self._groups: dict[str, _Members] = {}
        self._key_of: dict[str, str] = {}
        self._served = served
        self._next: GroupIndex | None = None  # of another rule, while it is filled
        self._since: set[str] = set()  # the pods that have changed meanwhile
        self.sized: Callable[[str, int], None] | None = None

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[str]:
        """The keys of all groups that have members."""
        return iter(self._groups)

    def put(self, pod: PodView) -> str | None:
        """Add or update a pod, which is placed if it has a node; returns the key of its group, or None."""
        if self._next is not None:
            self._since.add(pod.uid)
            self._next.put(pod)
        if self._rule is not no_rule:
            return self._assign(pod)
        own, uid = pod.object.spec.scheduling_group, pod.uid
        if uid in self._key_of:
            key = self._key_of[uid]
            members = self._groups[key]
            if own is None or uid not in members.by_spec or own != members.by_uid[uid].object.spec.scheduling_group:
                return self._assign(pod)
            members.by_uid[uid] = pod
            (members.placed.add if pod.node_name else members.placed.discard)(uid)
            return key
        labels = pod.labels
        if own is None and (not labels or (GROUP_LABELS[0] not in labels and GROUP_LABELS[1] not in labels)):
            return None
        return self._assign(pod)

    def _assign(self, pod: PodView) -> str | None:
        """Add a pod whose group is not known yet; returns the key of its group, or None."""
        name, policy = named_group(pod), self._rule(pod)
        if not name and policy is not None:
            name = policy[0]
        old = self._key_of.get(pod.uid)
        if not name:
            self._forget(pod.uid)
            return None
        key = f"{pod.namespace}/{name}"
        if old != key:
            self._forget(pod.uid)
        members = self._groups.get(key)
        if members is None:
            members = self._groups[key] = _Members()
        members.by_uid[pod.uid] = pod
        members.of_policies.pop(pod.uid, None)
        if policy is not None:
            members.of_policies[pod.uid] = policy[1]
        (members.placed.add if pod.node_name else members.placed.discard)(pod.uid)
        (members.by_spec.add if podgroup_name(pod.object) else members.by_spec.discard)(pod.uid)
        self._key_of[pod.uid] = key
        if self.sized is not None and old != key:
            self.sized(key, len(members.by_uid))
        return key

    def remove(self, uid: str) -> str | None:
        """Forget a pod; returns the key of the group it belonged to, or None."""
        if self._next is not None:
            self._since.add(uid)
            self._next.remove(uid)
        return self._forget(uid)

    def _forget(self, uid: str) -> str | None:
        """Forget a pod by the present rule only, as the next rule may put it into a group; returns the key of its group, or None."""
        key = self._key_of.pop(uid, None)
        if key is not None:
            members = self._groups[key]
            del members.by_uid[uid]
            members.placed.discard(uid)
            members.by_spec.discard(uid)
            members.of_policies.pop(uid, None)
            if not members.by_uid:
                del self._groups[key]
            if self.sized is not None:
                self.sized(key, len(members.by_uid))
        return key

    def only(self, key: str, store: ObjectStore) -> GroupIndex:
        """An index of one group alone, with the PodGroups of another store."""
        found = GroupIndex(store, self._rule, self._served)
        for pod in self.members(key):
            found.put(pod)
        return found

    def follow_rule(self, rule: GroupRule, pods: Iterable[PodView]) -> Generator[None, None, None]:
        """Use other policies, in steps of one pod or group. The former groups are valid until all pods have been evaluated.

        `pods` are all that are known, with the nodes of those that are assumed. A later call takes the place of one that has not ended.
        """
        self._next = following = GroupIndex(self._store, rule, self._served)
        self._since = set()
        for pod in pods:
            if pod.uid not in self._since:
                following.put(pod)
            yield
        former = self._groups
        self._rule, self._groups, self._key_of, self._next = rule, following._groups, following._key_of, None
        for key in former | self._groups:
            if self.sized is not None:
                found = self._groups.get(key)
                self.sized(key, 0 if found is None else len(found.by_uid))
            yield

    def __contains__(self, key: str) -> bool:
        """True if the group of that key has members."""
        return key in self._groups

    def key_of(self, uid: str) -> str | None:
        """The key of the group that a pod belongs to, or None."""
        return self._key_of.get(uid)

    def members(self, key: str) -> tuple[PodView, ...]:
        """All members of a group, by priority, then age, then in the order in which they came; empty for an unknown key."""
        found = self._groups.get(key)
        return () if found is None else tuple(sorted(found.by_uid.values(), key=_order))

    def size(self, key: str) -> int:
        """The number of members of a group, placed or not; 0 for an unknown key."""
        found = self._groups.get(key)
        return 0 if found is None else len(found.by_uid)

    def n_placed(self, key: str) -> int:
        """The number of placed members of a group; 0 for an unknown key."""
        found = self._groups.get(key)
        return 0 if found is None else len(found.placed)

    def is_placed(self, uid: str) -> bool:
        """True if a pod is a placed member of a group."""
        key = self._key_of.get(uid)
        return key is not None and uid in self._groups[key].placed

    def terms(self, key: str) -> GroupTerms | None:
        """The terms of a group; None if the PodGroup that its members name does not exist, and for an unknown key."""
        members = self._groups.get(key)
        return None if members is None else self._terms(key, members)

    def _terms(self, key: str, members: _Members) -> GroupTerms | None:
        terms = self._podgroup_terms(key, members)
        if terms is not None and not members.of_policies:
            return terms
        if terms is None and not members.by_spec:
            terms = self._coscheduling_terms(key)
        of_policies = next(reversed(members.of_policies.values()), None)
        if terms is not None:
            return terms if of_policies is None else narrowed(terms, of_policies)
        if members.by_spec:
            return None
        if of_policies is not None:
            return of_policies
        if self._served() or self._uses_coscheduling(key.partition("/")[0]):
            return None
        return GroupTerms(min_count=0, source=f"label {_label(next(iter(members.by_uid.values())))}")

    def _podgroup_terms(self, key: str, members: _Members) -> GroupTerms | None:
        """The terms of Kubernetes' PodGroup of that name."""
        namespace, _, name = key.partition("/")
        group = self._store.get(objects.PodGroup, name, namespace)
        if group is None:
            return None
        if members.of_podgroup is None or members.of_podgroup[0] is not group:
            members.of_podgroup = group, podgroup_terms(group)
        return members.of_podgroup[1]

    def _coscheduling_terms(self, key: str) -> GroupTerms | None:
        """The terms of the PodGroup of the coscheduling plugin, for members that name it in a label."""
        namespace, _, name = key.partition("/")
        older = self._store.get(objects.CoschedulingPodGroup, name, namespace)
        return None if older is None else coscheduling_terms(older)

    def _uses_coscheduling(self, namespace: str) -> bool:
        """True if a namespace has a PodGroup of the coscheduling plugin; those of others must not show in a preview."""
        return any((group.metadata.namespace or "default") == namespace for group in self._store.all(objects.CoschedulingPodGroup))

    def group(self, key: str) -> Group | None:
        """The group as it is now; None if its `terms` are not known."""
        terms = self.terms(key)
        if terms is None:
            return None
        placed = self._groups[key].placed
        members = self.members(key)
        return Group(
            key=key,
            terms=terms,
            waiting=tuple(pod for pod in members if pod.uid not in placed),
            placed=tuple(pod for pod in members if pod.uid in placed),
        )

    def disrupted_as_whole(self) -> list[Group]:
        """The groups with placed members that preemption can only evict as a whole."""
        whole = (key for key in self if (terms := self.terms(key)) is not None and terms.disruption is Disruption.GROUP)
        return [group for key in whole if (group := self.group(key)) is not None and group.placed]

    def waiting_reason(self, key: str) -> str | None:
        """The reason why the members of a group cannot be tried yet, in kube-scheduler's words, or None.

        Source: PreEnqueue, plugins/gangscheduling/gangscheduling.go, Kubernetes 1.36.
        """
        members = self._groups.get(key)
        if members is None:
            return None
        terms = self._terms(key, members)
        if terms is None:
            return f'waiting for pods\'s pod group "{key.partition("/")[2]}" to appear in scheduling queue'
        if len(members.by_uid) < terms.min_count:
            return "waiting for minCount pods from a gang to appear in scheduling queue"
        return None


def group_index(pods: Iterable[PodView], store: ObjectStore, rule: GroupRule = no_rule) -> GroupIndex:
    """The groups of these pods; finished ones do not count."""
    index = GroupIndex(store, rule)
    for pod in pods:
        if not pod.finished:
            index.put(pod)
    return index


def _order(pod: PodView) -> tuple[int, float]:
    """The order of kube-scheduler, with the creation in place of the first attempt (podGroupInfoForPod, schedule_one_podgroup.go)."""
    created = pod.created
    return -pod.priority, float("inf") if created is None else created


def _label(pod: PodView) -> str:
    return next(f"{key}: {pod.labels[key]}" for key in GROUP_LABELS if pod.labels.get(key))


def group_of_policy(policy: CompiledPolicy, pod: PodView, at: EvaluationContext) -> tuple[str, GroupTerms] | None:
    """The name of the pod's group within its namespace, and the terms of one policy for it.

    None where the policy puts the pod into no group.
    """
    membership = None if policy.group is None else policy.group.of(pod, at)
    return None if policy.group is None or membership is None else (membership.name, _terms(policy.name, policy.group, membership))


def _terms(policy: str, group: CompiledGroup, membership: Membership) -> GroupTerms:
    terms = group.terms
    return GroupTerms(
        min_count=membership.min_count,
        source=f"policy {policy}",
        levels=tuple(Level(level.key, required=level.required) for level in terms.levels),
        spread=terms.spread_over,
        timeout=membership.timeout,
        disruption=Disruption.GROUP if terms.whole else Disruption.POD,
        reserve=terms.reserve,
    )


def group_of_policies(policies: Sequence[CompiledPolicy], pod: PodView, at: EvaluationContext) -> tuple[str, GroupTerms] | None:
    """The name of the pod's group and its terms by all policies together; None if no policy puts the pod into a group."""
    found = [group for policy in policies if policy.group is not None and (group := group_of_policy(policy, pod, at)) is not None]
    if not found:
        return None
    name = found[0][0]
    return name, joined([terms for other, terms in found if other == name])


def joined(several: Sequence[GroupTerms]) -> GroupTerms:
    """The terms of several policies for one group, joined; a level that one of them requires is required."""
    if len(several) == 1:
        return several[0]
    required: dict[str, bool] = {}
    for level in (level for terms in several for level in terms.levels):
        required[level.key] = required.get(level.key, False) or level.required
    return GroupTerms(
        min_count=max(terms.min_count for terms in several),
        source=", ".join(terms.source for terms in several),
        levels=tuple(Level(key, required=hard) for key, hard in required.items()),
        spread=tuple(dict.fromkeys(key for terms in several for key in terms.spread)),
        timeout=min(terms.timeout for terms in several),
        disruption=Disruption.GROUP if any(terms.disruption is Disruption.GROUP for terms in several) else Disruption.POD,
        reserve=any(terms.reserve for terms in several),
    )


def rule_of_policies(policies: Sequence[CompiledPolicy], at: Callable[[], EvaluationContext]) -> GroupRule:
    """The rule that puts pods into groups (for `GroupIndex`); `no_rule` if no policy has groups; then pods are not evaluated."""
    having = tuple(sorted((policy for policy in policies if policy.group is not None), key=lambda policy: policy.name))
    return (lambda pod: group_of_policies(having, pod, at())) if having else no_rule
