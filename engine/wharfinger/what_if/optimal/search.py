"""Looks for a placement of all pods where the queue leaves some over: found by CP-SAT (OR-tools), and confirmed by the chain pod by pod.

The model has the requests of pods, the number of devices that fit each request of their claims alone, and the places for pods on each node.
It has the filters of Kubernetes and of policies that depend on a node's object alone, the rules of policies about victims, and the
evictions that PodDisruptionBudgets allow now. Running pods that a controller would create again may move; all others stay, and so do
members of groups. It makes the number of moves small. Only where there is no placement like that, running pods may be evicted without a new
place, for waiting pods of a higher priority: of high priorities as few as possible, then of the next lower one, and so on. Pods that have
no controller, and those of DaemonSets, may be evicted only where that is not enough either. Preemption evicts them too, so a proof must
include them.

A small cluster is solved as a whole. In a larger one, a model of classes of nodes is solved first: if it has no solution, there is none.
Then regions are rearranged, while all other pods stay where they are or where the chain places them; the whole is tried last.

Everything else (affinity to pods, spreading, ports, volumes, what claims request together, policies that read pods or metrics) is in the
chain only: a placement that the chain refuses is excluded, and the search continues. So a plan always holds. The models allow more than the
chain does; therefore, if one has no solution, there is none.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.errors import need_extra
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.membership import group_index, rule_of_policies
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import Checkpoint, restored
from wharfinger.model.state.object_store import EvaluationContext, ObjectStore, TimeAndObjects
from wharfinger.simulate.placing import DirectPlacement, place_on, queue_order
from wharfinger.what_if.leaving_pods import MIRROR, Evictions, recreated, staying
from wharfinger.what_if.optimal.model import Amounts, Answer, Masks, Model, Place, Room, Solution, Task
from wharfinger.what_if.optimal.smaller_tasks import best_fit, regions, relaxed

NEVER = "Never"
"""The preemptionPolicy of a pod that evicts no other pod."""
MAX_CELLS = 2_000_000
"""Pairs of template and node in a model; more would take minutes to build."""
MAX_CELLS_AT_ONCE = 5_000
"""The largest number of pairs of a model that is solved as a whole at once."""
MAX_CELLS_IMPROVED = 20_000
"""The largest number of pairs of the model of all nodes by which a plan for a region is improved."""
TIME_PARTS = 3
"""A model gets one of this number of parts of the time that is left, if others follow."""
MIN_SECONDS = 0.001
"""Seconds that the solver gets even if the time is up."""
LEFT_OUT = "all that move leave at once, so PodDisruptionBudgets count as they are now"
DEVICES_LEFT_OUT = "; for devices, the search counts how many fit each request alone, and the chain confirms the rest"


class Placed(Struct, frozen=True, kw_only=True):
    """A pod, its node before ("" for one that waits) and its node in the plan ("" for one that is evicted)."""

    pod: str
    source: str
    node: str


class Optimal(Struct, frozen=True, kw_only=True):
    """The outcome of a search: `plan` has the pods that move and those that wait, in the order in which the chain places them.

    `evicted` pods leave and find no other node. All pods that leave do so first. `why` is the reason why the outcome is unknown. `fewest`
    is True if no placement has fewer evictions (of the highest priority first), and none with as few has fewer moves, as far as the model
    shows. `left_out` is what the model does not include.
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


def need_ortools() -> None:
    """Raise UsageError if the extra is missing."""
    need_extra("ortools", "--optimal needs OR-tools", "optimal")


def optimal(chain: Chain, cluster: Checkpoint, now: float, pods: Sequence[PodView], seconds: float) -> Optimal:
    """A placement of all of `pods` on a cluster, found within `seconds`; needs the extra `optimal`."""
    need_ortools()
    gated = [pod.key for pod in pods if chain.gate(pod) is not None]
    if gated:
        return Optimal(answer=Answer.UNKNOWN, why=f"pods with a scheduling gate wait for it, not for room: {', '.join(gated[:3])}")
    at = _evaluation_context(cluster, now)
    grouped = group_index(pods, at.objects, rule_of_policies(chain.policies, lambda: at))
    if grouped:
        return Optimal(
            answer=Answer.UNKNOWN, why=f"the model does not include groups of pods, and some wait: {', '.join(list(grouped)[:3])}"
        )
    deadline = time.monotonic() + seconds
    search = _Search(chain, cluster, at, pods, seconds, deadline)
    found = search.run()
    if found.answer is Answer.NONE and search.others:
        found = _Search(chain, cluster, at, pods, seconds, deadline, search.others).run()
    claiming = any(pod.object.spec.resource_claims for pod in (*pods, *cluster.pods))
    return replace(found, left_out=LEFT_OUT + DEVICES_LEFT_OUT) if claiming else found


def _evaluation_context(cluster: Checkpoint, now: float) -> EvaluationContext:
    """The time, and what the cluster has besides nodes and pods."""
    store = ObjectStore()
    for each in cluster.others:
        store.put(each)
    return TimeAndObjects(now, store)


class _MinimumEvictions(Struct, frozen=True):
    """NONE if there is no solution; FOUND if `proved` has the least evictions of each level, UNKNOWN if of the first levels."""

    answer: Answer
    proved: Mapping[int, int]


_NO_EVICTIONS = _MinimumEvictions(Answer.FOUND, {})


def _may_move(pod: PodView) -> bool:
    """True if a controller would create the pod again, for any node."""
    return pod.controller is not None and not staying(pod)


def _apart(pod: PodView) -> PodView:
    """The pod as it would be created again, in a group of pods that do not move."""
    created = recreated(pod)
    return PodView(created.object, created.template + b" stays")


class _Search:
    """One search. Pods of one template are one group; a solution is how many pods of each group are on each node.

    `others` are uids of pods that may be evicted, but do not move; with some, evictions are tried at once. A pod that is equal to a waiting
    one is never evicted: it could have the place of that one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        chain: Chain,
        cluster: Checkpoint,
        at: EvaluationContext,
        pods: Sequence[PodView],
        seconds: float,
        deadline: float,
        others: frozenset[str] = frozenset(),
    ) -> None:
        self._chain = chain
        self._cluster = cluster
        self._at = at
        self._now = at.now
        self._pods = pods
        self._deadline = deadline
        self._seconds = seconds
        asking = {pod.template: pod for pod in pods if pod.object.spec.preemption_policy != NEVER}
        self._asking = [(pod, chain.pod_rules(pod, at).evictable(pod, at)) for pod in asking.values()]
        leaving = [(pod, name) for pod, name in self._may_leave() if _may_move(pod) or pod.uid in others]
        self._moving = {pod.uid: name for pod, name in leaving}
        self._movable = [(_apart(pod) if pod.uid in others else recreated(pod), name) for pod, name in leaving]
        self._size: Counter[bytes] = Counter(pod.template for pod in pods)
        self._size.update(pod.template for pod, _ in self._movable)
        self._one = {pod.template: pod for pod in (*pods, *(pod for pod, _ in self._movable))}
        self._here: Counter[Place] = Counter((pod.template, name) for pod, name in self._movable)
        self._n_waiting = Counter(pod.template for pod in pods)
        self._placed = {pod.uid: pod for pod in cluster.pods}
        self._evictable = {
            pod.uid for pod, _ in self._movable if pod.template not in self._n_waiting and self._is_outranked(self._placed[pod.uid])
        }
        self._guarded: dict[str, Mapping[str, int]] = {}
        self._room = Room(chain, self._emptied(), self._one, self._here)
        self._open_to_nobody = {pod.template: np.zeros(len(self._room.names), np.bool_) for pod, _ in self._movable if pod.uid in others}
        self._evicts_at_once = bool(others)

    @cached_property
    def others(self) -> frozenset[str]:
        """The uids of pods that do not move, but may be evicted for waiting pods."""
        return frozenset(pod.uid for pod, _ in self._may_leave() if not _may_move(pod) and self._is_outranked(pod))

    def run(self) -> Optimal:
        """The outcome."""
        found = Optimal(answer=Answer.NONE)
        for evicting in (True,) if self._evicts_at_once else (False, True):
            if found.answer is Answer.NONE and (not evicting or self._evictable):
                found = self._placement(evicting=evicting)
        return found

    def _placement(self, *, evicting: bool) -> Optimal:
        """The outcome with evictions or without them."""
        room = self._room
        cells = len(self._size) * len(room.names)
        best: Optimal | None = None
        if cells > MAX_CELLS_AT_ONCE:
            proof = self._proof(evicting=evicting)
            if proof.answer is Answer.NONE:
                return Optimal(answer=Answer.NONE)
            best = self._rearranged(proof, evicting=evicting)
        if best is not None and (best.fewest or cells > MAX_CELLS_IMPROVED):
            return best
        if cells > MAX_CELLS:
            why = f"{len(self._size):,} kinds of pods on {len(room.names):,} nodes are too many to search"
            return Optimal(answer=Answer.UNKNOWN, why=why)
        found = Optimal(answer=Answer.NONE)
        for masks in (room.allowed, room.static):  # the nodes that take each pod now; a proof needs those that might
            if found.answer is Answer.NONE:
                found = self._confirmed(*self._task(masks, evicting=evicting), self._deadline, evicting=evicting)
        return found if best is None or self._worse(best, found) else best

    def _proof(self, *, evicting: bool) -> _MinimumEvictions:
        """NONE if there is no placement; otherwise the least evictions of each level, as far as they are known."""
        task, _ = self._task(self._room.static, evicting=evicting)
        priority = {template: self._one[template].priority for template in task.size}
        task, kind_of = relaxed(task, {template: (priority[template], template in self._n_waiting) for template in task.size})
        model, until = Model(task), self._share_of_time()
        waiting = frozenset(kind_of[template] for template in self._n_waiting)
        fewest = self._evict_few(model, {kind: priority[kind] for kind in task.size}, waiting, until) if evicting else _NO_EVICTIONS
        status, _ = model.solve(max(MIN_SECONDS, until - time.monotonic()))
        return _MinimumEvictions(Answer.NONE, {}) if status is Answer.NONE else fewest

    def _rearranged(self, proof: _MinimumEvictions, *, evicting: bool) -> Optimal | None:
        """The best plan in which only the pods of one region move, wait or are evicted; None if none is found."""
        self._pack()
        if not self._without:
            plan, evicted, refused = self._tried(self._base)
            if not refused:
                return Optimal(answer=Answer.FOUND, plan=plan, evicted=evicted, fewest=True)
        best: Optimal | None = None
        room = self._room
        left_over = [(room.requests[template], room.allowed[template]) for template in self._without]
        for rows in regions(left_over, room.amounts, self._used(evicting=evicting)):
            found = self._confirmed(*self._task(room.allowed, evicting=evicting, rows=rows), self._share_of_time(), evicting=evicting)
            if found.answer is not Answer.FOUND:
                continue
            surely = not found.moves and proof.answer is Answer.FOUND and self._evicted(found) == tuple(map(proof.proved.get, self._levels))
            found = replace(found, fewest=surely)
            if best is not None and not self._worse(best, found):
                break
            best = found
            if best.fewest:
                break
        return best

    def _worse(self, one: Optimal, other: Optimal) -> bool:
        """True if `other` is found, with fewer evictions or moves than `one`, or as many that are proved to be the fewest."""
        if other.answer is not Answer.FOUND:
            return False
        return (self._evicted(other), other.moves, not other.fewest) < (self._evicted(one), one.moves, not one.fewest)

    def _evicted(self, found: Optimal) -> tuple[int, ...]:
        """The number of evicted pods of each priority."""
        keys = {each.pod for each in found.evicted}
        number = Counter(pod.priority for pod, _ in self._movable if pod.key in keys)
        return tuple(number[level] for level in self._levels)

    def _used(self, *, evicting: bool) -> list[Amounts]:
        """The used amounts: by pods that stay or are placed by the chain, then by pods that may be evicted, by priority."""
        going = self._evictable if evicting else frozenset()
        staying_there = Counter(self._base)
        by_level: defaultdict[int, list[Place]] = defaultdict(list)
        for pod, name in self._movable:
            if pod.uid in going:
                staying_there[pod.template, name] -= 1
                by_level[pod.priority].append((pod.template, name))
        taken = self._room.taken
        return [taken(staying_there.elements()), *(taken(by_level[level]) for level in self._levels if evicting)]

    def _pack(self) -> None:
        """Begin with pods packed as tightly as they can be one by one, where that leaves fewer over than the chain does."""
        if self._without:
            room, packed = self._room, Counter(self._here)
            used = room.taken(self._here.elements())
            for (template, row), number in best_fit(self._n_waiting, room.requests, room.allowed, room.amounts, used).items():
                packed[template, room.names[row]] += number
            if packed.total() > self._base.total():
                self._base = packed

    @property
    def _without(self) -> Counter[bytes]:
        """The number of pods of each group without a place in `_base`."""
        without = Counter(self._size)
        for (template, _), number in self._base.items():
            without[template] -= number
        return +without

    @cached_property
    def _base(self) -> Counter[Place]:
        """The nodes of all pods if none moves and the chain places those that wait."""
        state, decider = restored(self._cluster, self._now), Decider(self._chain)
        world, base = DirectPlacement(state), Counter(self._here)
        for pod in map(world.claimed, queue_order(self._chain, self._pods)):
            snapshot = state.snapshot()
            node = None if decider.choose(snapshot, pod) is None else decider.decide(snapshot, pod).node
            if node is not None:
                place_on(decider, world, pod, node)
                base[pod.template, node] += 1
        return base

    def _share_of_time(self) -> float:
        """The moment until which a model may be solved that others follow."""
        now = time.monotonic()
        return now + max(0.0, self._deadline - now) / TIME_PARTS

    def _is_unprotected(self, pod: PodView) -> bool:
        """True if no policy protects the pod from evictions."""
        return bool(self._chain.pod_rules(pod, self._at).evictable(pod, self._at).among([pod]))

    def _may_leave(self) -> Iterator[tuple[PodView, str]]:
        """The running pods that no policy, group or deletion keeps where they are, and their nodes. Static pods are not among them."""
        cluster = self._cluster
        nodes = {node.metadata.name for node in cluster.nodes}
        together = group_index(cluster.pods, self._at.objects, rule_of_policies(self._chain.policies, lambda: self._at))
        for pod, name in zip(cluster.pods, cluster.names, strict=True):
            free = together.key_of(pod.uid) is None and not pod.terminating and MIRROR not in pod.annotations
            if name in nodes and free and self._is_unprotected(pod):
                yield pod, name

    def _is_outranked(self, pod: PodView) -> bool:
        """True if a waiting pod with a higher priority may evict the pod."""
        return any(allowed.among([pod]) for other, allowed in self._asking if other.priority > pod.priority)

    def _emptied(self) -> ClusterState:
        """The cluster without the pods that may move; before they leave, the budgets that guard them are noted."""
        state = restored(self._cluster, self._now)
        evictions = Evictions(state.objects)
        self._guarded = {pod.uid: evictions.guarding(self._placed[pod.uid]) for pod, _ in self._movable}
        for pod, _ in self._movable:
            DirectPlacement(state).leave(self._placed[pod.uid])
        return state

    def _task(self, masks: Masks, *, evicting: bool, rows: NDArray[np.intp] | None = None) -> tuple[Task, Solution]:
        """(the pods to place on some rows, by default all; the pods that stay on other rows or are placed there)."""
        room = self._room
        names = room.names if rows is None else [room.names[row] for row in rows.tolist()]
        inside = frozenset(names)
        fixed = {} if rows is None else {place: number for place, number in self._base.items() if place[1] not in inside}
        size = Counter(self._size)
        for (template, _), number in fixed.items():
            size[template] -= number
        size = +size
        evictable = Counter(pod.template for pod, name in self._movable if pod.uid in self._evictable and name in inside)
        waiting = {template: min(size[template], number) for template, number in self._n_waiting.items()}
        chosen = slice(None) if rows is None else rows
        task = Task(
            size=size,
            requests=room.requests,
            open_to={template: self._open_to_nobody.get(template, masks[template])[chosen] for template in size},
            here={place: number for place, number in self._here.items() if place[1] in inside},
            room={name: amounts[chosen] for name, amounts in room.amounts.items()},
            names=names,
            left_over=evictable | Counter(waiting) if evicting else {},
        )
        return task, fixed

    def _confirmed(self, task: Task, fixed: Solution, until: float, *, evicting: bool) -> Optimal:
        """The outcome of a task, with `fixed` pods where they are; NONE only if the model itself has no solution."""
        model = Model(task)
        model.hint({place: number for place, number in self._base.items() if place not in fixed})
        self._limit_by_budgets(model, frozenset(task.names))
        fewest = _NO_EVICTIONS
        if evicting:
            fewest = self._evict_few(
                model,
                {template: self._one[template].priority for template in task.size},
                frozenset(self._n_waiting.keys() & task.size.keys()),
                until,
            )
        found = self._solved(model, fixed, until)
        if found.answer is Answer.FOUND and found.moves:
            model.move_few()
            better = self._solved(model, fixed, until)
            found = better if better.answer is Answer.FOUND and better.moves <= found.moves else replace(found, fewest=False)
        return replace(found, fewest=found.fewest and fewest.answer is Answer.FOUND)

    @property
    def _late(self) -> str:
        return f"not known after {self._seconds:g} s"

    def _limit_by_budgets(self, model: Model, names: frozenset[str]) -> None:
        """Limit the pods that leave these nodes to those that budgets allow now."""
        groups: defaultdict[tuple[str, int], Counter[Place]] = defaultdict(Counter)
        for pod, node in self._movable:
            for budget in self._guarded[pod.uid].items() if node in names else ():
                groups[budget][pod.template, node] += 1
        for (_, limit), guarded in groups.items():
            model.guard(guarded, limit)

    def _evict_few(self, model: Model, priority: Mapping[bytes, int], waiting: frozenset[bytes], until: float) -> _MinimumEvictions:
        """Fix how many pods of each priority are evicted, the highest first.

        For a pod of one priority only pods of higher ones count: those of the same or of lower ones may wait meanwhile.
        """
        proved: dict[int, int] = {}
        surely = True
        for level in self._levels:
            model.place_all(group for group in waiting if priority[group] > level)
            evicted = [group for group in priority if priority[group] == level and group not in waiting]
            status, number = model.evict_few(evicted, max(MIN_SECONDS, (until - time.monotonic()) / 2))
            if status is Answer.NONE:
                return _MinimumEvictions(Answer.NONE, {})
            surely = surely and status is Answer.FOUND
            if surely:
                proved[level] = number
            elif number < 0:
                break
        model.place_all(waiting)
        return _MinimumEvictions(Answer.FOUND if surely else Answer.UNKNOWN, proved)

    @cached_property
    def _levels(self) -> tuple[int, ...]:
        """The priorities of the pods that may be evicted, the highest first."""
        return tuple(sorted({pod.priority for pod, _ in self._movable if pod.uid in self._evictable}, reverse=True))

    def _solved(self, model: Model, fixed: Solution, until: float) -> Optimal:
        """The first solution of the model that the chain confirms; NONE only if the model has no solution."""
        refuses = Optimal(answer=Answer.UNKNOWN, why="the chain refuses every solution that the model had")
        while (left := until - time.monotonic()) > 0:
            status, solution = model.solve(left)
            if status is Answer.NONE:
                return refuses if model.narrowed else Optimal(answer=Answer.NONE)
            if solution is None:
                break
            plan, evicted, refused = self._tried({**fixed, **solution})
            if not refused:
                return Optimal(answer=Answer.FOUND, plan=plan, evicted=evicted, fewest=status is Answer.FOUND and not model.narrowed)
            if not model.exclude(refused):
                return refuses
        return Optimal(answer=Answer.UNKNOWN, why=self._late)

    def _tried(self, solution: Solution) -> tuple[tuple[Placed, ...], tuple[Placed, ...], dict[Place, int]]:
        """(the plan as far as the chain confirms it, the evicted pods, the refused placements: the number placed by group and node)."""
        state, waiting = restored(self._cluster, self._now), list(self._pods)
        places = dict(solution)
        kept: Counter[Place] = Counter()
        for pod, name in sorted(self._movable, key=self._late_to_leave):
            if kept[pod.template, name] < places.get((pod.template, name), 0):
                kept[pod.template, name] += 1
                continue
            DirectPlacement(state).leave(self._placed[pod.uid])
            waiting.append(pod)
        evicted = self._left_over(waiting, places)
        nodes: defaultdict[bytes, Counter[str]] = defaultdict(Counter)
        for (template, name), number in places.items():
            nodes[template][name] = number - kept[template, name]
        decider, world, plan = Decider(self._chain), DirectPlacement(state), []
        left = [(pod.template, pod) for pod in queue_order(self._chain, waiting)]
        while left:
            again = []
            for template, pod in left:
                claimed = world.claimed(pod)
                node = self._node(decider, state, claimed, nodes[template])
                if node is None:
                    again.append((template, claimed))
                    continue
                place_on(decider, world, claimed, node)
                nodes[template][node] -= 1
                plan.append(Placed(pod=pod.key, source=self._moving.get(pod.uid, ""), node=node))
            if len(again) == len(left):
                refused = {template for template, _ in again}
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
            left = again
        return tuple(plan), tuple(evicted), {}

    def _left_over(self, waiting: list[PodView], places: Solution) -> list[Placed]:
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
        """Sort pods so that those that a budget guards or that may not be evicted keep their places first."""
        pod, _ = placed
        return not self._guarded[pod.uid], pod.uid in self._evictable, pod.key

    @staticmethod
    def _node(decider: Decider, state: ClusterState, pod: PodView, nodes: Mapping[str, int]) -> str | None:
        """A node of the solution for the pod that the chain accepts; the chain's own choice if it is one of them."""
        snapshot = state.snapshot()
        decision = decider.decide(snapshot, pod)
        if decision.node is None:
            return None
        if nodes.get(decision.node, 0) > 0:
            return decision.node
        feasible = decision.evaluation.filtering.feasible
        rows = ((name, snapshot.row(name)) for name, number in nodes.items() if number > 0)
        return next((name for name, row in rows if row is not None and feasible[row]), None)
