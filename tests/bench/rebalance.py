"""Measures what `wharf rebalance` frees per moved pod: `python -m tests.bench.rebalance [whole|cuts]`.

`whole`: the OpenB trace is placed, pods leave at random, and the nodes and GPUs that a plan frees are counted. `cuts`: some nodes of that
cluster alone, with the optimum of CP-SAT for any moves.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import msgspec
from ortools.sat.python import cp_model

import wharfinger
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate import cluster, openb
from wharfinger.simulate.placing import place_pods
from wharfinger.what_if.rebalance.gains import one_gpu
from wharfinger.what_if.rebalance.plan import Goal, PlanOptions, Rebalance, rebalance

CUTS = 16
OWNER = objects.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="openb", uid="openb", controller=True)
POLICIES: Mapping[str, Sequence[str]] = {"default": (), "gpu-bin-pack": ("policies/gpu-bin-pack.policy",)}


@cache
def chain_of(name: str) -> Chain:
    """The chain of a set of policies."""
    policies: tuple[CompiledPolicy, ...] = wharfinger.load_policies(*POLICIES[name]) if POLICIES[name] else ()
    return assemble(policies)


@cache
def placed(name: str) -> tuple[list[objects.Node], list[PodView]]:
    """The nodes of OpenB, and the pods that a chain has placed on them, each as one of a ReplicaSet."""
    found = cluster.load_cluster(["openb:default"])
    owned = [_owned(pod.object) for pod in found.pending]
    list(place_pods(Decider(chain_of(name)), found.state, owned, watch=lambda *_: None))
    return list(found.objects.nodes), [pod for pod, _ in found.state.placements()]


def _owned(pod: objects.Pod) -> PodView:
    metadata = msgspec.structs.replace(pod.metadata, owner_references=(OWNER,))
    return PodView(msgspec.structs.replace(pod, metadata=metadata))


def state_of(nodes: Sequence[objects.Node], pods: Sequence[PodView]) -> ClusterState:
    """The state with these nodes and placed pods."""
    state = ClusterState()
    for node in nodes:
        state.add_node(node)
    for pod in pods:
        state.add_pod(pod)
    return state


def churned(name: str, seed: int, leaving: float) -> ClusterState:
    """The cluster after a part of its pods has left at random."""
    nodes, pods = placed(name)
    draw = random.Random(seed)
    return state_of(nodes, [pod for pod in pods if draw.random() >= leaving])


def cut(name: str, seed: int, n_nodes: int, leaving: float) -> ClusterState:
    """Some nodes with GPUs of that cluster, with their pods, after a part of these has left."""
    nodes, pods = placed(name)
    draw = random.Random(seed)
    chosen = draw.sample([node for node in nodes if "nvidia.com/gpu" in node.status.allocatable], n_nodes)
    names = {node.metadata.name for node in chosen}
    return state_of(chosen, [pod for pod in pods if pod.node_name in names and draw.random() >= leaving])


def small(name: str, seed: int, n_nodes: int, leaving: float) -> ClusterState:
    """Some nodes of the trace with pods of it that were placed on these nodes alone, after a part of these has left."""
    draw = random.Random(seed)
    found = cluster.load_cluster(["openb:default"])
    nodes = draw.sample([node for node in found.objects.nodes if openb.GPU in node.status.allocatable], n_nodes)
    state = state_of(nodes, [])
    asked = [_owned(pod.object) for pod in draw.sample(found.pending, 8 * n_nodes)]
    list(place_pods(Decider(chain_of(name)), state, asked, watch=lambda *_: None))
    return state_of(nodes, [pod for pod, _ in state.placements() if draw.random() >= leaving])


def plan(name: str, state: ClusterState, goal: Goal, most_moves: int = 10_000, cost: float = 0.0) -> Rebalance:
    """A plan for one goal."""
    return rebalance(chain_of(name), state, PlanOptions(goals=(goal,), most_moves=most_moves, cost=cost))


class NotProved(Exception):
    """The optimum was not proved within the effort."""


def optimum(state: ClusterState, goal: Goal, effort: float = 10.0) -> float:
    """The highest value of the goal of any placement of the pods on these nodes, for any order of moves.

    Raises NotProved if CP-SAT does not find and prove it within an effort, in seconds of its deterministic time.
    """
    snapshot = state.snapshot()
    model = cp_model.CpModel()
    pods = [pod for row in range(snapshot.n_nodes) for pod in snapshot.pods_on(row)]
    on = {(pod.uid, row): model.new_bool_var("") for pod in pods for row in range(snapshot.n_nodes)}
    for pod in pods:
        model.add_exactly_one(on[pod.uid, row] for row in range(snapshot.n_nodes))
    worth = []
    for row in range(snapshot.n_nodes):
        used = {
            name: sum(pod.requests[name] * on[pod.uid, row] for pod in pods if pod.requests.get(name)) for name in snapshot.resource_names
        }
        offered = {name: int(snapshot.allocatable[index, row]) for index, name in enumerate(snapshot.resource_names)}
        for name, amount in used.items():
            model.add(amount <= offered[name])
        model.add(sum(on[pod.uid, row] for pod in pods) <= int(snapshot.allowed_pods[row]))
        if goal is Goal.FREE_NODES:
            free = model.new_bool_var("")
            for pod in pods:
                model.add_implication(free, ~on[pod.uid, row])
        else:
            free = model.new_int_var(0, offered[openb.GPU], "")
            for name, amount in one_gpu(snapshot).items():
                model.add(amount * free + used[name] <= offered[name])
        worth.append(free)
    model.maximize(sum(worth))
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = effort
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        raise NotProved
    return solver.objective_value


def compared(name: str, goal: Goal, make: Callable[[], ClusterState]) -> tuple[float, float, float, int]:
    """(the value before, the value that a plan reaches, the optimum, the moves of the plan) of the cluster that `make` returns."""
    best = optimum(make(), goal)
    reached = plan(name, make(), goal).goals[0]
    return reached.before, reached.after, best, reached.moves


def cuts() -> None:
    """Prints how near plans come to the best on small cuts."""
    print("\n| cuts of 6 to 12 nodes, policies | goal | cuts | before | after | optimum | share of the gain | moves |")
    print("|---|---|---|---|---|---|---|---|")
    for name in POLICIES:
        for goal in (Goal.FREE_NODES, Goal.FREE_GPUS):
            found = []
            for seed in range(CUTS):
                with contextlib.suppress(NotProved):
                    found.append(compared(name, goal, partial(cut, name, seed, 6 + seed % 7, 0.4)))
            before, after, best, moves = map(sum, zip(*found, strict=True))
            share = (after - before) / (best - before)
            row = (name, goal.value, len(found), f"{before:g}", f"{after:g}", f"{best:g}", f"{share:.1%}", moves)
            print("|", *(f"{cell} |" for cell in row), flush=True)


def whole() -> None:
    """Prints what plans free on the whole trace after churn."""
    print("\n| OpenB, policies | goal | moves at most | before | after | moves | gained per move | cordoned at most | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in POLICIES:
        for goal in (Goal.FREE_NODES, Goal.FREE_GPUS):
            for most in (100, 10_000):
                began = time.perf_counter()
                found = plan(name, churned(name, 1, 0.4), goal, most)
                (reached,) = found.goals
                rate = (reached.after - reached.before) / max(1, reached.moves)
                row = (
                    name,
                    goal.value,
                    most,
                    f"{reached.before:g}",
                    f"{reached.after:g}",
                    reached.moves,
                    f"{rate:.2f}",
                    found.most_cordoned,
                )
                print("|", *(f"{cell} |" for cell in row), f"{time.perf_counter() - began:.0f} |", flush=True)


PARTS = {"whole": whole, "cuts": cuts}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
