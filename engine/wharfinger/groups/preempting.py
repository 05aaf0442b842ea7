"""Preemption for a whole group: the pods that must leave so that the group can be placed, the least important ones.

The rule is that of the workload-aware preemption of kube-scheduler 1.36 (pkg/scheduler/framework/preemption/podgrouppreemption.go): all
pods of lower priority are taken away, and put back one after the other, the most important first, as long as the group can be placed. Pods
whose eviction would break a PodDisruptionBudget are put back before the others. Groups that are disrupted as a whole stay or leave as a
whole. So no pod is evicted where the eviction of less important ones is enough.

kube-scheduler asks for each of these pods anew whether the group can be placed. Here the first that must leave is looked for by halving:
whether the group can be placed without the last *n* pods of the order holds from some *n* on, as pods that stay never help (where one helps
by the affinity of members to it, a pod that is not looked at alone may be evicted without need).

kube-scheduler does not preempt for groups with levels of topology. Here each domain is looked at by itself, and the one that is cheapest to
free is taken, by the criteria by which preemption for single pods chooses a node.

Pods are really taken from the state: pass a copy that nobody else uses.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.framework.eviction import Budgets
from wharfinger.framework.plugins.default_preemption import OFFSET
from wharfinger.groups import domains, member_classes
from wharfinger.groups.placing import STEPS, placing
from wharfinger.groups.terms import Disruption, Group, GroupAnswer, Impossible, NotFound, Placed, Preemption
from wharfinger.model.state.cluster_state import put_back

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState

PreemptionAnswer = Preemption | Impossible | NotFound
SOME = 20
"""Pods that are taken away or put back in one step."""
NEVER = "not eligible due to preemptionPolicy=Never."
NO_VICTIMS = "No preemption victims found for incoming preemptor"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class Unit:
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


@dataclass(frozen=True, slots=True)
class _Freed:
    """What has to leave for a placement."""

    placement: Placed
    units: tuple[Unit, ...]
    violations: int

    @property
    def cost(self) -> tuple[int, int, int, int, float, str]:
        """A key that puts the cheapest first (`pickOneNodeForPreemption`)."""
        highest = max((unit.priority for unit in self.units), default=-OFFSET)
        pods = [(pod, unit.priority) for unit in self.units for pod, _, _ in unit.pods]
        started = min((pod.started or math.inf for pod, priority in pods if priority == highest), default=math.inf)
        where = str(sorted(self.placement.domains.items()))
        return self.violations, highest, sum(priority + OFFSET for _, priority in pods), len(pods), -started, where


def preempt(decider: Decider, state: ClusterState, group: Group, others: Iterable[Group] = (), *, steps: int = STEPS) -> PreemptionAnswer:
    """The answer of `preempting`, in one go."""
    search = preempting(decider, state, group, others, steps=steps)
    while True:
        try:
            next(search)
        except StopIteration as end:
            answer: PreemptionAnswer = end.value
            return answer


def preempting(
    decider: Decider, state: ClusterState, group: Group, others: Iterable[Group] = (), *, steps: int = STEPS
) -> Generator[None, None, PreemptionAnswer]:
    """A generator of steps that returns which pods must leave so that the group can be placed, or why that does not help.

    `others` are the other groups; their `placed` members leave together where their terms say so. The state has the same pods on the same
    nodes when the generator ends or is closed. `steps` is the budget of each question if the group can be placed.
    """
    if any(pod.object.spec.preemption_policy == "Never" for pod in group.waiting):
        return Impossible(nearest=(), message=f"preemption: {NEVER}")
    units = possible_victims(decider, state, group, others)
    if not units:
        return Impossible(nearest=(), message=f"preemption: {NO_VICTIMS}")
    search = _Freeing(decider, state, group, steps)
    try:
        return (yield from search.run(units))
    finally:
        search.put_back_all()


def priority_of(group: Group) -> int:
    """The priority of a group: its own, else the highest of its pods."""
    own = group.terms.priority
    return max((pod.priority for pod in (*group.waiting, *group.placed)), default=0) if own is None else own


def possible_victims(decider: Decider, state: ClusterState, group: Group, others: Iterable[Group]) -> list[Unit]:
    """The units of lower priority that policies allow to evict for every member, the most important first, those that break budgets before.

    Terminating pods are leaving already and are no victims; the group's own members never are.
    """
    snapshot = state.snapshot()
    priority = priority_of(group)
    whole = {
        pod.uid: other for other in others if other.terms.disruption is Disruption.GROUP and other.key != group.key for pod in other.placed
    }
    own = {pod.uid for pod in (*group.waiting, *group.placed)}
    together: dict[str, list[tuple[PodView, str, bool]]] = {}
    units: list[Unit] = []
    for pod, assumed in state.placements():
        if pod.uid in own or pod.terminating or snapshot.row(pod.node_name) is None:
            continue
        other = whole.get(pod.uid)
        if other is not None:
            together.setdefault(other.key, []).append((pod, pod.node_name, assumed))
        elif pod.priority < priority:
            units.append(Unit(((pod, pod.node_name, assumed),), pod.priority, pod.object.spec.scheduling_group is not None))
    by_key = {other.key: other for other in whole.values()}
    units += [Unit(tuple(pods), priority_of(by_key[key]), True) for key, pods in together.items() if priority_of(by_key[key]) < priority]
    for each in member_classes.classes(decider, group.waiting, snapshot):
        allowed = decider.evaluation(snapshot, each.pod).evictable(each.pod, snapshot)
        if allowed.rules:
            units = [unit for unit in units if len(allowed.among([pod for pod, _, _ in unit.pods])) == len(unit.pods)]
    units.sort(key=lambda unit: unit.importance)
    broken = _breaking(units, Budgets(snapshot.objects))
    return [unit for unit in units if id(unit) in broken] + [unit for unit in units if id(unit) not in broken]


def _breaking(units: Sequence[Unit], budgets: Budgets) -> set[int]:
    """The identities of the units of which some pod breaks a budget if all are evicted in this order."""
    violating, _ = budgets.split([pod for unit in units for pod, _, _ in unit.pods])
    broken = {pod.uid for pod in violating}
    return {id(unit) for unit in units if any(pod.uid in broken for pod, _, _ in unit.pods)}


class _Freeing:
    """The search: what has been taken from the state."""

    def __init__(self, decider: Decider, state: ClusterState, group: Group, steps: int) -> None:
        self._decider = decider
        self._state = state
        self._group = group
        self._steps = steps
        self._gone: dict[int, Unit] = {}

    def run(self, units: Sequence[Unit]) -> Generator[None, None, PreemptionAnswer]:
        """The cheapest of what frees each domain."""
        required = [level.key for level in self._group.terms.levels if level.required]
        snapshot = self._state.snapshot()
        budgets = Budgets(snapshot.objects)
        places = [(each.labels, {snapshot.names[row] for row in each.rows.tolist()}) for each in domains.domains(required, snapshot)]
        best: _Freed | None = None
        unknown: NotFound | None = None
        for labels, names in places:
            near = [unit for unit in units if not required or any(node in names for _, node, _ in unit.pods)]
            found = yield from self._free(near, labels, budgets)
            if isinstance(found, _Freed) and (best is None or found.cost < best.cost):
                best = found
            elif isinstance(found, NotFound):
                unknown = found
        if best is not None:
            victims = [pod for unit in sorted(best.units, key=lambda unit: unit.importance) for pod, _, _ in unit.pods]
            return Preemption(placement=best.placement, victims=tuple(victims), violations=best.violations)
        return unknown or Impossible(nearest=(), message=f"preemption: {NOT_HELPFUL}")

    def put_back_all(self) -> None:
        """Put back all pods."""
        for unit in list(self._gone.values()):
            self._put_back(unit)

    def _free(self, units: Sequence[Unit], labels: Mapping[str, str], budgets: Budgets) -> Generator[None, None, _Freed | NotFound | None]:
        """What has to leave so that the group can be placed in one domain; None if it cannot be, even without all `units`."""
        victims: list[Unit] = []
        start = 0
        unknown: NotFound | None = None
        while True:
            answer = yield from self._without(victims, labels)
            if isinstance(answer, Placed):
                broken = _breaking(sorted(victims, key=lambda unit: unit.importance), budgets)
                return _Freed(answer, tuple(victims), len(broken))
            fails, fits, size = len(units), -1, 1  # the group can(not) be placed without the units from this number on
            while fits < 0:
                number = max(start, len(units) - size)
                if number >= fails:
                    return unknown
                answer = yield from self._without([*victims, *units[number:]], labels)
                if isinstance(answer, Placed):
                    fits = number
                else:
                    fails = number
                    unknown = answer if isinstance(answer, NotFound) else unknown
                size *= 2
            while fails - fits > 1:
                middle = (fits + fails) // 2
                answer = yield from self._without([*victims, *units[middle:]], labels)
                fits, fails = (middle, fails) if isinstance(answer, Placed) else (fits, middle)
            victims.append(units[fits])
            start = fits + 1

    def _without(self, units: Sequence[Unit], labels: Mapping[str, str]) -> Generator[None, None, GroupAnswer]:
        """The answer for the group with exactly these units gone."""
        wanted = {id(unit): unit for unit in units}
        changes = 0
        for unit in list(self._gone.values()):
            if id(unit) not in wanted:
                self._put_back(unit)
                changes += len(unit.pods)
            if changes >= SOME:
                changes = 0
                yield
        for key, unit in wanted.items():
            if key not in self._gone:
                self._gone[key] = unit
                for pod, _, _ in unit.pods:
                    self._state.remove_pod(pod)
                changes += len(unit.pods)
            if changes >= SOME:
                changes = 0
                yield
        return (yield from placing(self._decider, self._state, self._group, steps=self._steps, within=labels))

    def _put_back(self, unit: Unit) -> None:
        del self._gone[id(unit)]
        for pod, node, assumed in unit.pods:
            put_back(self._state, pod, node, assumed=assumed)
