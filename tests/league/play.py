"""A run of the league: the pods of a game placed one by one by the chain that a policy file makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from tests.league import energy
from tests.league.protocol import Game, Machine, Typical, machines, node_manifests, pod_manifests, typical
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.plugins.default_preemption import DefaultPreemption
from wharfinger.model import objects
from wharfinger.model.devices.shared_gpus import GpuNames
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate import openb

FOLDER = Path(__file__).parent / "policies"
NAMES = GpuNames()


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The outcome of each pod: `node` (its number, -1 for none) and `gpus`.

    And after it, in thousandths of GPUs, what had arrived, was allocated, and what was of no use to typical pods. `watts` when pods for all
    GPUs had arrived.
    """

    node: tuple[int, ...]
    gpus: tuple[tuple[int, ...], ...]
    arrived: tuple[int, ...]
    allocated: tuple[int, ...]
    fragmented: tuple[float, ...]
    watts: float

    def unallocated(self, load: float = 1.0) -> float:
        """The part of all GPUs that is not allocated when pods for `load` of them have arrived (the last one of them included)."""
        total = sum(machine.gpus for machine in machines()) * 1000
        last = min(int(np.searchsorted(self.arrived, load * total)), len(self.arrived) - 1)
        return 1 - self.allocated[last] / total


@lru_cache(maxsize=2)
def views(variant: openb.Variant) -> tuple[PodView, ...]:
    """The pods of a trace as the chain reads them."""
    return tuple(map(PodView, msgspec.convert(pod_manifests(variant), list[objects.Pod])))


@lru_cache(maxsize=1)
def nodes() -> tuple[objects.Node, ...]:
    """The nodes with GPUs as the chain reads them."""
    return tuple(msgspec.convert(node_manifests(), list[objects.Node]))


def chain(policies: Sequence[CompiledPolicy]) -> Chain:
    """The chain of the paper's experiment: Kubernetes' filters, and no score and no preemption but the policies' own."""
    bare = assemble(policies, ChainConfig(disabled=(DefaultPreemption.name,)))
    weights = {entry.name: 0 for entry in bare.entries if entry.weight is not None}
    return assemble(policies, ChainConfig(disabled=(DefaultPreemption.name,), weights=weights))


def cluster(order: Sequence[int]) -> ClusterState:
    """The empty nodes of a game, named so that sorting the names gives the order in which equal ones are taken."""
    state = ClusterState(openb.EPOCH.timestamp())
    for place, number in enumerate(order):
        node = nodes()[number]
        name = f"{place:04d}-{node.metadata.name}"
        labels = {**node.metadata.labels, "kubernetes.io/hostname": name}
        state.add_node(msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, name=name, labels=labels)))
    return state


def play(of: Chain, variant: openb.Variant, game: Game, *, fragmented: bool = True) -> Played:
    """The run of a game under a chain; without `fragmented` the fragmentation is not computed."""
    state, decider, pods = cluster(game.nodes), Decider(of), views(variant)
    mix, free = typical(variant), Free([machines()[number] for number in game.nodes])
    node, gpus, arrived, allocated, lost = [], [], [], [], []
    total = taken = 0
    watts, full = 0.0, sum(machine.gpus for machine in machines()) * 1000
    by_row = [free.useless(row, mix) for row in range(len(game.nodes))] if fragmented else []
    useless = sum(by_row)
    for place, number in enumerate(game.pods):
        pod = pods[number]
        wanted = NAMES.wanted(pod)
        demand = wanted.count * wanted.milli if wanted else 0
        before, total = total, total + demand
        decision = decider.decide(state.snapshot(), _again(pod, place))
        chosen: tuple[int, ...] = ()
        if decision.node is not None and decision.row is not None:
            assigned = decision.assigned
            state.assume(assigned, decision.node)
            row = int(decision.node[:4])
            chosen = NAMES.indexes(assigned) or ()
            free.take(row, pod.requests.get("cpu", 0), chosen, wanted.milli if wanted else 0)
            taken += demand
            if fragmented:
                useless -= by_row[row]
                by_row[row] = free.useless(row, mix)
                useless += by_row[row]
        node.append(-1 if decision.node is None else game.nodes[int(decision.node[:4])])
        gpus.append(chosen)
        arrived.append(total)
        allocated.append(taken)
        lost.append(useless)
        if before < full <= total:
            watts = free.watts()
    return Played(
        node=tuple(node), gpus=tuple(gpus), arrived=tuple(arrived), allocated=tuple(allocated), fragmented=tuple(lost), watts=watts
    )


def _again(pod: PodView, place: int) -> PodView:
    """The pod under a new name: a pod of the trace may come several times."""
    metadata = msgspec.structs.replace(pod.object.metadata, name=f"{pod.name}-{place}")
    return PodView(msgspec.structs.replace(pod.object, metadata=metadata), pod.template)


class Free:
    """The free amounts of each node: mCPU and the thousandths of each GPU."""

    def __init__(self, nodes_: Sequence[Machine]) -> None:
        self.nodes = nodes_
        self.cpu = [machine.cpu for machine in nodes_]
        self.gpus = [[1000] * machine.gpus for machine in nodes_]

    def take(self, row: int, cpu: int, gpus: Sequence[int], milli: int) -> None:
        """Count a pod."""
        self.cpu[row] -= cpu
        for gpu in gpus:
            self.gpus[row][gpu] -= milli

    def useless(self, row: int, mix: Sequence[Typical]) -> float:
        """The fragmentation of a node: the thousandths of its GPUs that typical pods cannot use, on average."""
        return fragmentation(self.cpu[row], self.gpus[row], self.nodes[row].model, mix)

    def watts(self) -> float:
        """The power of all nodes, in watts."""
        return sum(energy.watts(machine, cpu, gpus) for machine, cpu, gpus in zip(self.nodes, self.cpu, self.gpus, strict=True))


def fragmentation(cpu: float, free: Sequence[int], model: str, mix: Sequence[Typical]) -> float:
    """The thousandths of a node's GPUs that typical pods cannot use, on average, with so much of it free.

    A pod that does not fit, or requests no GPU, could use none of them; any other could not use those with less than its request.
    """
    everything = sum(free)
    if not everything:
        return 0.0
    found = 0.0
    for each in mix:
        fits = 0 < each.gpus <= sum(left >= each.milli for left in free) and cpu >= each.cpu and (not each.models or model in each.models)
        found += each.weight * (sum(left for left in free if left < each.milli) if fits else everything)
    return found
