"""A placement of all pods where the queue leaves some over: found by CP-SAT (OR-tools), and confirmed by the chain pod by pod.

The model has the requests of pods, the places for pods on each node, and those filters of Kubernetes and of policies that depend on a
node's object alone. Running pods that a controller would create again may move; all others stay, and every running pod keeps a place. It
makes the number of moves small. Everything else (affinity to pods, spreading, ports, volumes, policies that read pods or metrics) is in
the chain only: a placement that the chain refuses is excluded, and the search goes on. So a plan always holds. The model allows more than
the chain does; therefore, where it has no solution at all, there is none.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.plugins.resources.node_resources_fit import NodeResourcesFit
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import Checkpoint, ClusterState, restored
from wharfinger.simulate.dry_run import bind_claims, queue_order
from wharfinger.what_if.kubectl_drain import staying
from wharfinger.what_if.recreated import recreated

MOST_CELLS = 2_000_000
"""Pairs of template and node in a model; more would take minutes to build."""
LEFT_OUT = "moves do not ask PodDisruptionBudgets; nobody is evicted without a new place"


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
    """A pod, its node before ("" for one that waits) and its node in the plan."""

    pod: str
    source: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimal:
    """The outcome of a search: `plan` has the pods that move and those that wait, in the order in which the chain places them.

    All pods that move leave first. `why` says why the outcome is not known. `fewest` is True if no placement has fewer moves, as far as the
    model knows.
    """

    answer: Answer
    plan: tuple[Placed, ...] = ()
    fewest: bool = False
    why: str = ""

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
    return _Search(chain, cluster, now, pods, seconds).run()


class _Search:
    """One search. Pods of one template are one group; a solution is how many pods of each group are on each node."""

    def __init__(self, chain: Chain, cluster: Checkpoint, now: float, pods: Sequence[PodView], seconds: float) -> None:
        self._chain = chain
        self._cluster = cluster
        self._now = now
        self._pods = pods
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        nodes = {node.metadata.name for node in cluster.nodes}
        self._moving = {
            pod.uid: name
            for pod, name in zip(cluster.pods, cluster.names, strict=True)
            if name in nodes and pod.controller is not None and not staying(pod) and not pod.terminating
        }
        self._movable = [(recreated(pod), name) for pod, name in zip(cluster.pods, cluster.names, strict=True) if pod.uid in self._moving]
        self._size: Counter[bytes] = Counter(pod.template for pod in pods)
        self._size.update(pod.template for pod, _ in self._movable)
        self._one = {pod.template: pod for pod in (*pods, *(pod for pod, _ in self._movable))}
        self._here: Counter[tuple[bytes, str]] = Counter((pod.template, name) for pod, name in self._movable)

    def run(self) -> Optimal:
        """The outcome."""
        if len(self._size) * len(self._cluster.nodes) > MOST_CELLS:
            return Optimal(
                answer=Answer.UNKNOWN, why=f"{len(self._size):,} kinds of pods on {len(self._cluster.nodes):,} nodes are too many to search"
            )
        state = self._emptied()
        allowed, static = self._masks(state)
        room = self._room(state)
        found = self._confirmed(allowed, room, state)
        if found.answer is Answer.NONE:  # among the nodes that take each pod now; a proof needs those that might
            found = self._confirmed(static, room, state)
        return found

    def _emptied(self) -> ClusterState:
        """The cluster without the pods that may move."""
        state = restored(self._cluster, self._now)
        for pod, _ in self._movable:
            state.remove_pod(pod)
        return state

    def _masks(self, state: ClusterState) -> tuple[Mapping[bytes, NDArray[np.bool_]], Mapping[bytes, NDArray[np.bool_]]]:
        """(the rows that all filters let each group on, the rows that no filter rejects for the sake of the node's object alone)."""
        decider, snapshot = Decider(self._chain), state.snapshot()
        allowed, static = {}, {}
        for template, pod in self._one.items():
            filtering = decider.decide(snapshot, pod).evaluation.filtering
            allowed[template] = np.array(filtering.feasible, np.bool_)
            static[template] = filtering.by_object
        return allowed, static

    def _room(self, state: ClusterState) -> dict[tuple[str, int], int]:
        """What each node has for the pods that may move or wait, by resource and row; at least what those take that are there now."""
        snapshot = state.snapshot()
        wanted = sorted({name for pod in self._one.values() for name in pod.requests if self._counts(name)})
        room = {("pods", row): int(snapshot.allowed_pods[row] - snapshot.pod_count[row]) for row in range(snapshot.n_nodes)}
        for name in wanted:
            index = snapshot.resource_index(name)
            for row in range(snapshot.n_nodes):
                room[name, row] = 0 if index is None else int(snapshot.allocatable[index][row] - snapshot.requested[index][row])
        used: Counter[tuple[str, int]] = Counter()
        for pod, node in self._movable:
            at = snapshot.row(node)
            if at is not None:
                used["pods", at] += 1
                used.update({(name, at): amount for name, amount in pod.requests.items()})
        return {place: max(amount, used[place], 0) for place, amount in room.items()}

    def _counts(self, resource: str) -> bool:
        """True if a filter of the chain compares requests of this resource with what is free."""
        fit = self._chain.plugin(NodeResourcesFit.name)
        return isinstance(fit, NodeResourcesFit) and fit.checks(resource)

    def _confirmed(self, masks: Mapping[bytes, NDArray[np.bool_]], room: Mapping[tuple[str, int], int], state: ClusterState) -> Optimal:
        """The outcome with these rows allowed; NONE only if the model itself has no solution."""
        names = state.snapshot().names
        model = _Model(self._size, self._one, self._here, masks, room, names)
        first = self._solved(model)
        if first.answer is not Answer.FOUND or not first.moves:
            return first
        model.move_few()
        better = self._solved(model)
        return better if better.answer is Answer.FOUND and better.moves <= first.moves else replace(first, fewest=False)

    def _solved(self, model: _Model) -> Optimal:
        """The first solution of the model that the chain confirms; NONE only if the model has no solution at all."""
        while (left := self._deadline - time.monotonic()) > 0:
            status, solution = model.solve(left)
            if status is Answer.NONE:
                why = "the chain refuses every solution that the model had"
                return Optimal(answer=Answer.UNKNOWN, why=why) if model.narrowed else Optimal(answer=Answer.NONE)
            if solution is None:
                break
            plan, refused = self._tried(solution)
            if not refused:
                return Optimal(answer=Answer.FOUND, plan=plan, fewest=status is Answer.FOUND and not model.narrowed)
            model.exclude(refused)
        return Optimal(answer=Answer.UNKNOWN, why=f"not known after {self._seconds:g} s")

    def _tried(self, solution: Mapping[tuple[bytes, str], int]) -> tuple[tuple[Placed, ...], dict[tuple[bytes, str], int]]:
        """(the plan as far as the chain confirms it, what it refuses: by group and node, how many were placed there)."""
        state, waiting = restored(self._cluster, self._now), list(self._pods)
        places = dict(solution)
        kept: Counter[tuple[bytes, str]] = Counter()
        for pod, name in sorted(self._movable, key=lambda placed: placed[0].key):
            if kept[pod.template, name] < places.get((pod.template, name), 0):
                kept[pod.template, name] += 1
            else:
                state.remove_pod(pod)
                waiting.append(pod)
        nodes: defaultdict[bytes, Counter[str]] = defaultdict(Counter)
        for (template, name), number in places.items():
            nodes[template][name] = number - kept[template, name]
        decider, plan = Decider(self._chain), []
        waiting = queue_order(self._chain, waiting)
        while waiting:
            again = []
            for pod in waiting:
                node = self._node(decider, state, pod, nodes[pod.template])
                if node is None:
                    again.append(pod)
                    continue
                bind_claims(state, pod, node)
                state.assume(pod, node)
                nodes[pod.template][node] -= 1
                plan.append(Placed(pod=pod.key, source=self._moving.get(pod.uid, ""), node=node))
            if len(again) == len(waiting):
                refused = {pod.template for pod in again}
                return tuple(plan), {
                    (template, name): places[template, name] - number
                    for template in refused
                    for name, number in nodes[template].items()
                    if number > 0
                }
            waiting = again
        return tuple(plan), {}

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
        one: Mapping[bytes, PodView],
        here: Mapping[tuple[bytes, str], int],
        masks: Mapping[bytes, NDArray[np.bool_]],
        room: Mapping[tuple[str, int], int],
        names: Sequence[str],
    ) -> None:
        from ortools.sat.python import cp_model  # noqa: PLC0415 — an extra

        self._cp = cp_model
        self._model: Any = cp_model.CpModel()
        self._on: dict[tuple[bytes, str], Any] = {}
        self._last: Mapping[tuple[bytes, str], int] = {}
        weights: defaultdict[tuple[str, int], list[tuple[int, Any]]] = defaultdict(list)
        self._stays: list[Any] = []
        self.narrowed = False
        for template, number in size.items():
            for row, name in enumerate(names):
                present = here.get((template, name), 0)
                if not masks[template][row] and not present:
                    continue
                most = number if masks[template][row] else present
                variable = self._on[template, name] = self._model.new_int_var(0, most, "")
                weights["pods", row].append((1, variable))
                for resource, amount in one[template].requests.items():
                    if amount and (resource, row) in room:
                        weights[resource, row].append((amount, variable))
                if present:
                    stay = self._model.new_int_var(0, present, "")
                    self._model.add(stay <= variable)
                    self._stays.append(stay)
            self._model.add(sum(self._on[template, name] for name in names if (template, name) in self._on) == number)
        for place, terms in weights.items():
            self._model.add(sum(amount * variable for amount, variable in terms) <= room[place])

    def move_few(self) -> None:
        """From now on, look for the solution with the fewest moves; the last solution is where the search begins."""
        for place, variable in self._on.items():
            self._model.add_hint(variable, self._last.get(place, 0))
        self._model.maximize(sum(self._stays))

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
        return (Answer.FOUND if status == self._cp.OPTIMAL else Answer.UNKNOWN), solution

    def exclude(self, refused: Mapping[tuple[bytes, str], int]) -> None:
        """No more pods of these groups on these nodes than so many."""
        self.narrowed = True
        for place, number in refused.items():
            self._model.add(self._on[place] <= number)
