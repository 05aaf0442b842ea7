"""Preemption for a whole group: the pods that must leave so that the group can be placed, the least important ones.

The rule is that of the workload-aware preemption of kube-scheduler 1.36 (pkg/scheduler/framework/preemption/podgrouppreemption.go): all
pods of lower priority are removed, and restored in sequence, the most important first, as long as the group can be placed. Pods whose
eviction would break a PodDisruptionBudget are put back before the others. Groups that are disrupted as a whole stay or leave as a whole. So
no pod is evicted if the eviction of less important pods is enough.

kube-scheduler checks for each of these pods whether the group can be placed. Here the first pod that must leave is found by binary search:
if the group can be placed without the last *n* pods of the order, it can also be placed without more of them, because pods that stay never
help. If one helps by the affinity of members to it, a pod may be evicted without need.

kube-scheduler does not preempt for groups with levels of topology. Here each domain is examined by itself, and the cheapest one
is freed, by the criteria that preemption of single pods has for nodes.

The search removes pods from the state: pass a copy of it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from wharfinger.framework.eviction import Budgets, Evictable
from wharfinger.framework.plugins.victims import OFFSET, has_lower
from wharfinger.groups import domains
from wharfinger.groups.domains import CHANGES_PER_STEP, TentativePlacement, Work
from wharfinger.groups.exact import member_classes
from wharfinger.groups.membership import WholePodGroups
from wharfinger.groups.placing import MAX_STEPS, placing_with
from wharfinger.groups.terms import Disruption, Group, GroupAnswer, Impossible, NotFound, Placed, Preemption
from wharfinger.model.state.copies import put_back

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.groups.domains import Domain
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot

PreemptionAnswer = Preemption | Impossible | NotFound
READ_PER_STEP = 500
"""Pods that are looked at in one step."""
ASKED_PER_STEP = 50
"""Pods about which rules of policies are asked in one step: the most costly ones that are accepted take 0.1 ms for each."""
NEVER = "not eligible due to preemptionPolicy=Never."
NO_VICTIMS = "No preemption victims found for incoming preemptor"
_NO_VICTIMS = Impossible(nearest=(), message=f"preemption: {NO_VICTIMS}")
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Unit(Struct, frozen=True):
    """Pods that leave together: one pod, or all pods of a group that is disrupted as a whole."""

    pods: tuple[tuple[PodView, str, bool], ...]  # with their nodes, and True for those that are assumed
    priority: int
    in_group: bool

    @property
    def importance(self) -> tuple[int, bool, int, float, str]:
        """A key that puts the more important unit first (`moreImportantVictim`); equal ones by name."""
        size = len(self.pods) if self.in_group else 0
        started = min(math.inf if pod.started is None else pod.started for pod, _, _ in self.pods)
        return -self.priority, not self.in_group, -size, started, self.pods[0][0].key


class _Freed(Struct, frozen=True):
    """The pods that have to leave for a placement."""

    placement: Placed
    units: tuple[Unit, ...]
    violations: int

    @property
    def cost(self) -> tuple[int, int, int, int, float, str]:
        """A key that puts the cheapest first (`pickOneNodeForPreemption`)."""
        highest = max((unit.priority for unit in self.units), default=-OFFSET)
        pods = [pod for unit in self.units if unit.priority == highest for pod, _, _ in unit.pods]
        started = min((math.inf if pod.started is None else pod.started for pod in pods), default=math.inf)
        return *_cost(self.units, self.violations), -started, str(sorted(self.placement.domains.items()))


def _cost(units: Sequence[Unit], violations: int) -> tuple[int, int, int, int]:
    """Broken budgets, the highest priority, the sum of priorities, and the number of pods."""
    priorities = [unit.priority for unit in units for _ in unit.pods]
    return violations, max(priorities, default=-OFFSET), sum(each + OFFSET for each in priorities), len(priorities)


def preempting(  # noqa: PLR0913 — the keywords are independent choices
    decider: Decider, state: ClusterState, group: Group, others: Iterable[Group] = (), *, steps: int = MAX_STEPS, work: Work | None = None
) -> Generator[None, None, PreemptionAnswer]:
    """A generator of steps that returns which pods must leave so that the group can be placed, or why that does not help.

    `others` are the other groups; their `placed` members leave together where their terms say so. The state has the same pods on the same
    nodes when the generator ends or is closed. After `steps` decisions about members the best answer so far is the answer. Steps are
    added to `work`.
    """
    if _never_preempts(group):
        return Impossible(nearest=(), message=f"preemption: {NEVER}")
    units = yield from possible_victims(decider, state, group, others)
    if not units:
        return _NO_VICTIMS
    search = _Freeing(TentativePlacement(decider, state, steps, work), state, group)
    try:
        return (yield from search.run(units))
    finally:
        search.put_back_all()


def _never_preempts(group: Group) -> bool:
    """True if no pod may be evicted for the group, by its own policy or, if it has none, by that of a member."""
    own = group.terms.preemption_policy
    return "Never" in ({own} if own else {pod.object.spec.preemption_policy for pod in group.waiting})


def may_have_victims(priority: int, snapshot: Snapshot) -> bool:
    """False if no pod has a lower priority, and no PodGroup that is disrupted as a whole: its own priority replaces that of its pods."""
    return bool(has_lower(priority, snapshot).any()) or snapshot.objects.following(WholePodGroups).lowest < priority


def no_victims(group: Group, snapshot: Snapshot) -> Impossible | None:
    """The answer if there are no victims for the group, so that nothing has to be searched for; else None."""
    return None if may_have_victims(priority_of(group), snapshot) else _NO_VICTIMS


def priority_of(group: Group) -> int:
    """The priority of a group: its own, else the highest of its pods."""
    own = group.terms.priority
    return max((pod.priority for pod in (*group.waiting, *group.placed)), default=0) if own is None else own


def possible_victims(decider: Decider, state: ClusterState, group: Group, others: Iterable[Group]) -> Generator[None, None, list[Unit]]:
    """A generator of steps that returns the units of lower priority that policies allow to evict for every member.

    Those that break budgets come first, and among these and the others the most important. Pods that are leaving already are no
    victims; the group's own members never are.
    """
    snapshot = state.snapshot()
    places = dict(enumerate(state.placements()))
    budgets = snapshot.objects.following(Budgets)
    allowed = []
    for each in (yield from member_classes.classes(decider, group.waiting, snapshot)):
        rules = decider.chain.pod_rules(each.pod, snapshot).evictable(each.pod, snapshot)
        if rules.rules:
            allowed.append(rules)
        yield
    names, leaving = frozenset(snapshot.names), frozenset(snapshot.evicted)
    yield
    priority = priority_of(group)
    whole = {
        pod.uid: other for other in others if other.terms.disruption is Disruption.GROUP and other.key != group.key for pod in other.placed
    }
    own = {pod.uid for pod in (*group.waiting, *group.placed)}
    together: dict[str, list[tuple[PodView, str, bool]]] = {}
    units: list[Unit] = []
    for number, (pod, assumed) in places.items():
        if number % READ_PER_STEP == READ_PER_STEP - 1:
            yield
        if pod.uid in own or pod.terminating or pod.uid in leaving or pod.node_name not in names:
            continue
        other = whole.get(pod.uid)
        if other is not None:
            together.setdefault(other.key, []).append((pod, pod.node_name, assumed))
        elif pod.priority < priority:
            units.append(Unit(((pod, pod.node_name, assumed),), pod.priority, pod.object.spec.scheduling_group is not None))
    by_key = {other.key: other for other in whole.values()}
    units += [Unit(tuple(pods), priority_of(by_key[key]), True) for key, pods in together.items() if priority_of(by_key[key]) < priority]
    ordered = yield from _by_importance(decider, units, allowed)
    broken = _breaking(ordered, budgets)
    return [unit for unit in ordered if id(unit) in broken] + [unit for unit in ordered if id(unit) not in broken]


def _by_importance(decider: Decider, units: Sequence[Unit], allowed: Sequence[Evictable]) -> Generator[None, None, list[Unit]]:
    """The units that all of `allowed` allow to evict, the most important first; sorted in steps."""
    runs: list[list[tuple[tuple[int, bool, int, float, str], int, Unit]]] = []
    size = ASKED_PER_STEP if allowed else READ_PER_STEP
    for start in range(0, len(units), size):
        some = units[start : start + size]
        for each in allowed:
            rules = decider.measured(each)
            some = [unit for unit in some if len(rules.among([pod for pod, _, _ in unit.pods])) == len(unit.pods)]
        runs.append(sorted((unit.importance, start + number, unit) for number, unit in enumerate(some)))
        yield
    ordered = []
    for number, (_, _, unit) in enumerate(heapq.merge(*runs)):
        ordered.append(unit)
        if number % READ_PER_STEP == READ_PER_STEP - 1:
            yield
    return ordered


def _breaking(units: Sequence[Unit], budgets: Budgets) -> set[int]:
    """The identities of the units that have a pod whose eviction breaks a budget, if all are evicted in this order."""
    violating, _ = budgets.split([pod for unit in units for pod, _, _ in unit.pods])
    broken = {pod.uid for pod in violating}
    return {id(unit) for unit in units if any(pod.uid in broken for pod, _, _ in unit.pods)}


class _Freeing:
    """The search: what has been taken from the state."""

    def __init__(self, tentative: TentativePlacement, state: ClusterState, group: Group) -> None:
        self._tentative = tentative
        self._state = state
        self._group = group
        self._gone: dict[int, Unit] = {}

    def run(self, units: Sequence[Unit]) -> Generator[None, None, PreemptionAnswer]:
        """The cheapest of what frees each domain."""
        required = [level.key for level in self._group.terms.levels if level.required]
        snapshot = self._state.snapshot()
        budgets = snapshot.objects.following(Budgets)
        found = yield from self._nearest_first(domains.domains(required, snapshot))
        places = [(each.labels, {snapshot.names[row] for row in each.rows.tolist()}) for each in found]
        best: _Freed | None = None
        unknown: NotFound | None = None
        for labels, names in places:
            near = [unit for unit in units if not required or any(node in names for _, node, _ in unit.pods)]
            yield
            freed = yield from self._free(near, labels, budgets, best)
            if isinstance(freed, _Freed) and (best is None or freed.cost < best.cost):
                best = freed
            elif isinstance(freed, NotFound):
                unknown = freed
            if self._tentative.steps_left <= 0:
                break
        yield from self._take([])
        if best is not None:
            victims = [pod for unit in sorted(best.units, key=lambda unit: unit.importance) for pod, _, _ in unit.pods]
            return Preemption(placement=best.placement, victims=tuple(victims), violations=best.violations)
        return unknown or Impossible(nearest=(), message=f"preemption: {NOT_HELPFUL}")

    def _nearest_first(self, found: Sequence[Domain]) -> Generator[None, None, list[Domain]]:
        """The domains, first those that may take most members as they are: if the steps do not last for all, these were looked at."""
        if len(found) < 2:
            return list(found)
        snapshot, decider = self._state.snapshot(), self._tentative.decider
        takes = [0] * len(found)
        for each in (yield from member_classes.classes(decider, self._group.waiting, snapshot)):
            room = member_classes.room(decider, snapshot, each.pod)
            for number, domain in enumerate(found):
                takes[number] += min(len(each.members), int(np.minimum(room[domain.rows], len(each.members)).sum()))
            yield
        return [found[number] for number in sorted(range(len(found)), key=lambda number: (-takes[number], str(found[number])))]

    def put_back_all(self) -> None:
        """Put back all pods."""
        for unit in list(self._gone.values()):
            self._put_back(unit)

    def _free(
        self, units: Sequence[Unit], labels: Mapping[str, str], budgets: Budgets, best: _Freed | None
    ) -> Generator[None, None, _Freed | NotFound | None]:
        """The pods that have to leave so that the group can be placed in one domain.

        None if it cannot be, even without all `units`, or if that costs more than the `best` of other domains.
        """
        victims: list[Unit] = []
        start = 0
        unknown: NotFound | None = None
        while True:
            answer = yield from self._without(victims, labels)
            if isinstance(answer, Placed):
                broken = _breaking(sorted(victims, key=lambda unit: unit.importance), budgets)
                return _Freed(answer, tuple(victims), len(broken))
            refused = answer
            fails, fits, size = len(units), -1, 1  # the group can(not) be placed without the units from this number on
            while fits < 0:
                number = max(start, len(units) - size)
                if number >= fails:
                    return unknown
                if self._tentative.steps_left <= 0:
                    return NotFound(nearest=refused.nearest, steps=self._tentative.steps, message=refused.message)
                answer = yield from self._without([*victims, *units[number:]], labels)
                if isinstance(answer, Placed):
                    fits = number
                else:
                    fails, refused = number, answer
                    unknown = answer if isinstance(answer, NotFound) else unknown
                size *= 2
            while fails - fits > 1 and self._tentative.steps_left > 0:
                middle = (fits + fails) // 2
                answer = yield from self._without([*victims, *units[middle:]], labels)
                fits, fails = (middle, fails) if isinstance(answer, Placed) else (fits, middle)
            victims.append(units[fits])
            start = fits + 1
            if best is not None and _cost(victims, 0)[1:] > best.cost[1:4] and not best.violations:
                return None

    def _without(self, units: Sequence[Unit], labels: Mapping[str, str]) -> Generator[None, None, GroupAnswer]:
        """The result for the group without exactly these units."""
        yield from self._take(units)
        return (yield from placing_with(self._tentative, self._group, within=labels))

    def _take(self, units: Sequence[Unit]) -> Generator[None, None, None]:
        """Take exactly these units from the state, and put back all others."""
        wanted = {id(unit): unit for unit in units}
        changes = 0
        for unit in list(self._gone.values()):
            if id(unit) not in wanted:
                self._put_back(unit)
                changes += len(unit.pods)
            if changes >= CHANGES_PER_STEP:
                changes = 0
                yield
        for key, unit in wanted.items():
            if key not in self._gone:
                self._gone[key] = unit
                for pod, _, _ in unit.pods:
                    self._state.remove_pod(pod)
                changes += len(unit.pods)
            if changes >= CHANGES_PER_STEP:
                changes = 0
                yield

    def _put_back(self, unit: Unit) -> None:
        del self._gone[id(unit)]
        for pod, node, assumed in unit.pods:
            put_back(self._state, pod, node, assumed=assumed)
