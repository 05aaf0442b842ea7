"""A placement of all pods where the queue leaves some over: found by CP-SAT (OR-tools), and confirmed by the chain pod by pod.

The model has the requests of pods, how many devices fit each request of their claims alone, the places for pods on each node, those
filters of Kubernetes and of policies that depend on a node's object alone, what policies say about victims, and what PodDisruptionBudgets
allow now. Running pods that a controller would create again may move; all others stay, and so do members of groups. It makes the number of
moves small. Only where there is no placement like that, running pods may be evicted without a new place, for waiting pods of a higher
priority: of high priorities as few as possible, then of the next lower one, and so on.

Everything else (affinity to pods, spreading, ports, volumes, what claims ask for together, policies that read pods or metrics) is in the
chain only: a placement that the chain refuses is excluded, and the search goes on. So a plan always holds. The model allows more than the
chain does; therefore, where it has no solution at all, there is none.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.plugins.resources.node_resources_fit import NodeResourcesFit
from wharfinger.groups.membership import group_index
from wharfinger.groups.policy_groups import rule_of_policies
from wharfinger.groups.tentative import allocations
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import Checkpoint, ClusterState, restored
from wharfinger.model.state.tables import Circumstances, ObjectStore, TimeAndObjects
from wharfinger.simulate.placing import Direct, queue_order
from wharfinger.what_if.device_room import devices_of, room_for
from wharfinger.what_if.evictions import Evictions
from wharfinger.what_if.leaving_pods import recreated, staying

NEVER = "Never"
"""The preemptionPolicy of a pod that evicts nobody."""
MOST_CELLS = 2_000_000
"""Pairs of template and node in a model; more would take minutes to build."""
LEFT_OUT = "all that move leave at once, so PodDisruptionBudgets count as they are now"
DEVICES_LEFT_OUT = "; of devices the search knows how many fit each request alone, and the chain confirms the rest"


class Answer(Enum):
    """The outcome of a search."""

    FOUND = "found"
    """A placement of all pods, which the chain confirms."""
    NONE = "none"
    """There is no placement of all pods."""
    UNKNOWN = "unknown"
    """Neither was found in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod, its node before ("" for one that waits) and its node in the plan ("" for one that is evicted)."""

    pod: str
    source: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimal:
    """The outcome of a search: `plan` has the pods that move and those that wait, in the order in which the chain places them.

    `evicted` pods leave and find no other node. All pods that leave do so first. `why` says why the outcome is not known. `fewest` is True
    if no placement has fewer moves, as far as the model knows. `left_out` says what the model does not know.
    """

    answer: Answer
    plan: tuple[Placed, ...] = ()
    evicted: tuple[Placed, ...] = ()
    fewest: bool = False
    why: str = ""
    left_out: str = LEFT_OUT

    @property
    def moves(self) -> int:
        """The number of running pods that move."""
        return sum(bool(placed.source) for placed in self.plan)


def optimal(chain: Chain, cluster: Checkpoint, now: float, pods: Sequence[PodView], seconds: float) -> Optimal:
    """A placement of all of `pods` on a cluster, found within so many seconds; needs the extra `optimal`."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401, PLC0415 — an extra
    except ImportError as error:
        raise UsageError("--optimal needs OR-tools: pip install 'wharfinger[optimal]'") from error
    gated = [pod.key for pod in pods if chain.gate(pod) is not None]
    if gated:
        return Optimal(answer=Answer.UNKNOWN, why=f"pods with a scheduling gate wait for it, not for room: {', '.join(gated[:3])}")
    at = _circumstances(cluster, now)
    grouped = group_index(pods, at.objects, rule_of_policies(chain.policies, lambda: at))
    if grouped:
        return Optimal(answer=Answer.UNKNOWN, why=f"the model knows no groups of pods, and some wait: {', '.join(list(grouped)[:3])}")
    found = _Search(chain, cluster, at, pods, seconds).run()
    claiming = any(pod.object.spec.resource_claims for pod in (*pods, *cluster.pods))
    return replace(found, left_out=LEFT_OUT + DEVICES_LEFT_OUT) if claiming else found


def _circumstances(cluster: Checkpoint, now: float) -> Circumstances:
    """The time, and what the cluster has besides nodes and pods."""
    store = ObjectStore()
    for each in cluster.others:
        store.put(each)
    return TimeAndObjects(now, store)


class _Search:
    """One search. Pods of one template are one group; a solution is how many pods of each group are on each node."""

    def __init__(self, chain: Chain, cluster: Checkpoint, at: Circumstances, pods: Sequence[PodView], seconds: float) -> None:
        self._chain = chain
        self._cluster = cluster
        self._at = at
        self._now = at.now
        self._pods = pods
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        nodes = {node.metadata.name for node in cluster.nodes}
        together = group_index(cluster.pods, at.objects, rule_of_policies(chain.policies, lambda: at))
        self._moving = {
            pod.uid: name
            for pod, name in zip(cluster.pods, cluster.names, strict=True)
            if name in nodes and pod.controller is not None and together.key_of(pod.uid) is None
            if not staying(pod) and not pod.terminating and self._spared_by_none(pod)
        }
        asking = {pod.template: pod for pod in pods if pod.object.spec.preemption_policy != NEVER}
        self._asking = [(pod, chain.lineup(pod, at).evictable(pod, at)) for pod in asking.values()]
        self._movable = [(recreated(pod), name) for pod, name in zip(cluster.pods, cluster.names, strict=True) if pod.uid in self._moving]
        self._size: Counter[bytes] = Counter(pod.template for pod in pods)
        self._size.update(pod.template for pod, _ in self._movable)
        self._one = {pod.template: pod for pod in (*pods, *(pod for pod, _ in self._movable))}
        self._here: Counter[tuple[bytes, str]] = Counter((pod.template, name) for pod, name in self._movable)
        self._n_waiting = Counter(pod.template for pod in pods)
        self._placed = {pod.uid: pod for pod in cluster.pods}
        self._evictable = {pod.uid for pod, _ in self._movable if self._may_go(self._placed[pod.uid])}
        self._guarded: dict[str, Mapping[str, int]] = {}
        self._asks: dict[bytes, Mapping[str, int]] = {}  # of each group, resources and devices

    def run(self) -> Optimal:
        """The outcome."""
        if len(self._size) * len(self._cluster.nodes) > MOST_CELLS:
            return Optimal(
                answer=Answer.UNKNOWN, why=f"{len(self._size):,} kinds of pods on {len(self._cluster.nodes):,} nodes are too many to search"
            )
        state = self._emptied()
        allowed, static = self._masks(state)
        room = self._room(state)
        found = Optimal(answer=Answer.NONE)
        for evicting in (False, True):
            for masks in (allowed, static):  # the nodes that take each pod now; a proof needs those that might
                if found.answer is Answer.NONE and (not evicting or self._evictable):
                    found = self._confirmed(masks, room, state, evicting=evicting)
        return found

    def _spared_by_none(self, pod: PodView) -> bool:
        """True if no policy protects the pod from evictions."""
        return bool(self._chain.lineup(pod, self._at).evictable(pod, self._at).among([pod]))

    def _may_go(self, pod: PodView) -> bool:
        """True if a waiting pod of another kind with a higher priority may evict the pod."""
        asking = (allowed for other, allowed in self._asking if other.priority > pod.priority)
        return recreated(pod).template not in self._n_waiting and any(allowed.among([pod]) for allowed in asking)

    def _emptied(self) -> ClusterState:
        """The cluster without the pods that may move; before they leave, the budgets that guard them are noted."""
        state = restored(self._cluster, self._now)
        evictions = Evictions(state.objects)
        self._guarded = {pod.uid: evictions.guarding(self._placed[pod.uid]) for pod, _ in self._movable}
        for pod, _ in self._movable:
            Direct(state).leave(self._placed[pod.uid])
        return state

    def _masks(self, state: ClusterState) -> tuple[Mapping[bytes, NDArray[np.bool_]], Mapping[bytes, NDArray[np.bool_]]]:
        """(the rows that all filters let each group on, the rows that no filter rejects for the sake of the node's object alone)."""
        decider = Decider(self._chain)
        allowed, static = {}, {}
        for template, pod in self._one.items():
            claimed = Direct(state).claimed(pod)
            filtering = decider.decide(state.snapshot(), claimed).evaluation.filtering
            self._asks[template] = {**pod.requests, **devices_of(claimed, state.snapshot())}
            allowed[template] = np.array(filtering.feasible, np.bool_)
            static[template] = filtering.by_object
        return allowed, static

    def _room(self, state: ClusterState) -> dict[tuple[str, int], int]:
        """What each node has for the pods that may move or wait, by resource and row; at least what those take that are there now."""
        snapshot = state.snapshot()
        wanted = sorted({name for pod in self._one.values() for name in pod.requests if self._counts(name)})
        of_devices = {name for template, asked in self._asks.items() for name in asked if name not in self._one[template].requests}
        room = {("pods", row): int(snapshot.allowed_pods[row] - snapshot.pod_count[row]) for row in range(snapshot.n_nodes)}
        for name in wanted:
            index = snapshot.resource_index(name)
            for row in range(snapshot.n_nodes):
                room[name, row] = 0 if index is None else int(snapshot.allocatable[index][row] - snapshot.requested[index][row])
        for name in sorted(of_devices):
            room |= {(name, row): fit for row, fit in enumerate(room_for(name, snapshot)) if fit is not None}
        used: Counter[tuple[str, int]] = Counter()
        for pod, node in self._movable:
            at = snapshot.row(node)
            if at is not None:
                used["pods", at] += 1
                used.update({(name, at): amount for name, amount in self._asks[pod.template].items()})
        return {place: max(amount, used[place], 0) for place, amount in room.items()}

    def _counts(self, resource: str) -> bool:
        """True if a filter of the chain compares requests of this resource with what is free."""
        fit = self._chain.plugin(NodeResourcesFit.name)
        return isinstance(fit, NodeResourcesFit) and fit.checks(resource)

    def _confirmed(
        self, masks: Mapping[bytes, NDArray[np.bool_]], room: Mapping[tuple[str, int], int], state: ClusterState, *, evicting: bool
    ) -> Optimal:
        """The outcome with these rows allowed; NONE only if the model itself has no solution."""
        names = state.snapshot().names
        model = _Model(self._size, self._asks, self._here, masks, room, names, self._most_evicted() if evicting else {})
        self._ask_budgets(model)
        if evicting and not self._evict_few(model):
            return Optimal(answer=Answer.UNKNOWN, why=self._late)
        first = self._solved(model)
        if first.answer is not Answer.FOUND or not first.moves:
            return first
        model.move_few()
        better = self._solved(model)
        return better if better.answer is Answer.FOUND and better.moves <= first.moves else replace(first, fewest=False)

    @property
    def _late(self) -> str:
        return f"not known after {self._seconds:g} s"

    def _most_evicted(self) -> Mapping[bytes, int]:
        """How many pods of each group may be evicted without a new place; of a group that waits, all may wait at first."""
        return Counter(pod.template for pod, _ in self._movable if pod.uid in self._evictable) | self._n_waiting

    def _ask_budgets(self, model: _Model) -> None:
        """Let no more pods leave than budgets allow now."""
        groups: defaultdict[tuple[str, int], Counter[tuple[bytes, str]]] = defaultdict(Counter)
        for pod, node in self._movable:
            for budget in self._guarded[pod.uid].items():
                groups[budget][pod.template, node] += 1
        for (_, most), guarded in groups.items():
            model.guard(guarded, most)

    def _evict_few(self, model: _Model) -> bool:
        """Fix how many pods of each priority are evicted, the highest first; False if the time is up.

        For a pod of one priority only pods of higher ones count: those of the same or of lower ones may wait meanwhile.
        """
        of_group = {template: pod.priority for template, pod in self._one.items()}
        for priority in sorted({of_group[pod.template] for pod, _ in self._movable if pod.uid in self._evictable}, reverse=True):
            model.place_all(template for template in self._n_waiting if of_group[template] > priority)
            left = self._deadline - time.monotonic()
            evicted = [template for template in of_group if of_group[template] == priority and template not in self._n_waiting]
            if left <= 0 or model.evict_few(evicted, left) is Answer.UNKNOWN:
                return False
        model.place_all(self._n_waiting)
        return True

    def _solved(self, model: _Model) -> Optimal:
        """The first solution of the model that the chain confirms; NONE only if the model has no solution at all."""
        while (left := self._deadline - time.monotonic()) > 0:
            status, solution = model.solve(left)
            if status is Answer.NONE:
                why = "the chain refuses every solution that the model had"
                return Optimal(answer=Answer.UNKNOWN, why=why) if model.narrowed else Optimal(answer=Answer.NONE)
            if solution is None:
                break
            plan, evicted, refused = self._tried(solution)
            if not refused:
                return Optimal(answer=Answer.FOUND, plan=plan, evicted=evicted, fewest=status is Answer.FOUND and not model.narrowed)
            model.exclude(refused)
        return Optimal(answer=Answer.UNKNOWN, why=self._late)

    def _tried(
        self, solution: Mapping[tuple[bytes, str], int]
    ) -> tuple[tuple[Placed, ...], tuple[Placed, ...], dict[tuple[bytes, str], int]]:
        """(the plan as far as the chain confirms it, who is evicted, what it refuses: by group and node, how many were placed there)."""
        state, waiting = restored(self._cluster, self._now), list(self._pods)
        places = dict(solution)
        kept: Counter[tuple[bytes, str]] = Counter()
        for pod, name in sorted(self._movable, key=self._late_to_leave):
            if kept[pod.template, name] < places.get((pod.template, name), 0):
                kept[pod.template, name] += 1
                continue
            Direct(state).leave(self._placed[pod.uid])
            waiting.append(pod)
        evicted = self._left_over(waiting, places)
        nodes: defaultdict[bytes, Counter[str]] = defaultdict(Counter)
        for (template, name), number in places.items():
            nodes[template][name] = number - kept[template, name]
        decider, world, plan = Decider(self._chain), Direct(state), []
        waiting = queue_order(self._chain, waiting)
        while waiting:
            again = []
            for pod in map(world.claimed, waiting):
                node = self._node(decider, state, pod, nodes[pod.template])
                if node is None:
                    again.append(pod)
                    continue
                snapshot = state.snapshot()
                assigned = self._chain.assigned_on(pod, snapshot, node)
                world.place(assigned, node, allocations(decider, snapshot, pod, node))
                nodes[pod.template][node] -= 1
                plan.append(Placed(pod=pod.key, source=self._moving.get(pod.uid, ""), node=node))
            if len(again) == len(waiting):
                refused = {pod.template for pod in again}
                return (
                    tuple(plan),
                    (),
                    {
                        (template, name): places[template, name] - number
                        for template in refused
                        for name, number in nodes[template].items()
                        if number > 0
                    },
                )
            waiting = again
        return tuple(plan), tuple(evicted), {}

    def _left_over(self, waiting: list[PodView], places: Mapping[tuple[bytes, str], int]) -> list[Placed]:
        """The pods for which a solution has no place, taken from those that wait."""
        gone = Counter(self._size)
        for (template, _), number in places.items():
            gone[template] -= number
        evicted = []
        for pod in sorted((pod for pod in waiting if pod.uid in self._evictable), key=lambda pod: pod.key):
            if gone[pod.template] > 0:
                gone[pod.template] -= 1
                waiting.remove(pod)
                evicted.append(Placed(pod=pod.key, source=self._moving[pod.uid], node=""))
        return evicted

    def _late_to_leave(self, placed: tuple[PodView, str]) -> tuple[bool, bool, str]:
        """Sorts pods so that those that a budget guards or that may not be evicted keep their places first."""
        pod, _ = placed
        return not self._guarded[pod.uid], pod.uid in self._evictable, pod.key

    @staticmethod
    def _node(decider: Decider, state: ClusterState, pod: PodView, nodes: Mapping[str, int]) -> str | None:
        """A node that the solution has for the pod and that the chain lets it on: the chain's own choice if it is one of them."""
        snapshot = state.snapshot()
        decision = decider.decide(snapshot, pod)
        if decision.node is None:
            return None
        if nodes.get(decision.node, 0) > 0:
            return decision.node
        feasible = decision.evaluation.filtering.feasible
        rows = ((name, snapshot.row(name)) for name, number in nodes.items() if number > 0)
        return next((name for name, row in rows if row is not None and feasible[row]), None)


class _Model:
    """The model: integers for the pods of a group on a node, and the room of the nodes.

    `narrowed` is True once a solution was excluded for the sake of the chain.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — the parts of the model
        self,
        size: Mapping[bytes, int],
        asks: Mapping[bytes, Mapping[str, int]],
        here: Mapping[tuple[bytes, str], int],
        masks: Mapping[bytes, NDArray[np.bool_]],
        room: Mapping[tuple[str, int], int],
        names: Sequence[str],
        left_over: Mapping[bytes, int],
    ) -> None:
        from ortools.sat.python import cp_model  # noqa: PLC0415 — an extra

        self._cp = cp_model
        self._model: Any = cp_model.CpModel()
        self._on: dict[tuple[bytes, str], Any] = {}
        self._last: Mapping[tuple[bytes, str], int] = {}
        weights: defaultdict[tuple[str, int], list[tuple[int, Any]]] = defaultdict(list)
        self._stays: dict[tuple[bytes, str], Any] = {}
        self._left_over = {template: self._model.new_int_var(0, most, "") for template, most in left_over.items()}
        self._here = here
        self._best = 0
        self.narrowed = False
        for template, number in size.items():
            for row, name in enumerate(names):
                present = here.get((template, name), 0)
                if not masks[template][row] and not present:
                    continue
                most = number if masks[template][row] else present
                variable = self._on[template, name] = self._model.new_int_var(0, most, "")
                weights["pods", row].append((1, variable))
                for resource, amount in asks[template].items():
                    if amount and (resource, row) in room:
                        weights[resource, row].append((amount, variable))
                if present:
                    stay = self._model.new_int_var(0, present, "")
                    self._model.add(stay <= variable)
                    self._stays[template, name] = stay
                    self._model.add_hint(variable, present)
                    self._model.add_hint(stay, present)
            placed = sum(self._on[template, name] for name in names if (template, name) in self._on)
            self._model.add(placed + self._left_over.get(template, 0) == number)
        for place, terms in weights.items():
            self._model.add(sum(amount * variable for amount, variable in terms) <= room[place])

    def move_few(self) -> None:
        """From now on, look for the solution with the fewest moves; the last solution is where the search begins."""
        self._model.clear_hints()
        for place, variable in self._on.items():
            self._model.add_hint(variable, self._last.get(place, 0))
        self._model.maximize(sum(self._stays.values()))

    def guard(self, guarded: Mapping[tuple[bytes, str], int], most: int) -> None:
        """Of so many guarded pods of each group on each node no more than `most` may leave together; the others of a group leave first."""
        leaving = []
        for place, number in guarded.items():
            free = self._here[place] - number
            leaves = self._model.new_int_var(0, number, "")
            self._model.add(leaves >= self._here[place] - self._stays[place] - free)
            leaving.append(leaves)
        self._model.add(sum(leaving) <= max(0, most))

    def place_all(self, templates: Iterable[bytes]) -> None:
        """From now on, leave none of these groups over."""
        for template in templates:
            if template in self._left_over:
                self._model.add(self._left_over[template] == 0)

    def evict_few(self, templates: Sequence[bytes], seconds: float) -> Answer:
        """Leave as few as possible of these groups over from now on; NONE if there is no solution, UNKNOWN if the time is up."""
        left_over = sum(self._left_over[template] for template in templates if template in self._left_over)
        self._model.minimize(left_over)
        status, solution = self.solve(seconds)
        if status is Answer.FOUND and solution is not None:
            self._model.add(left_over <= self._best)
        self._model.clear_objective()
        return status

    def solve(self, seconds: float) -> tuple[Answer, Mapping[tuple[bytes, str], int] | None]:
        """(FOUND for the best solution, UNKNOWN for one or none in time, NONE if there is none; the solution)."""
        solver: Any = self._cp.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        status = solver.solve(self._model)
        if status == self._cp.INFEASIBLE:
            return Answer.NONE, None
        if status not in {self._cp.OPTIMAL, self._cp.FEASIBLE}:
            return Answer.UNKNOWN, None
        solution = {place: number for place, variable in self._on.items() if (number := solver.value(variable))}
        self._last = solution
        self._best = round(solver.objective_value)
        return (Answer.FOUND if status == self._cp.OPTIMAL else Answer.UNKNOWN), solution

    def exclude(self, refused: Mapping[tuple[bytes, str], int]) -> None:
        """No more pods of these groups on these nodes than so many."""
        self.narrowed = True
        for place, number in refused.items():
            self._model.add(self._on[place] <= number)
