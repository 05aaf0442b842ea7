"""The choices by the paper's formulas, decision by decision, in plain Python: policy files are compared with them.

Each policy is a function of a node and a pod, written as in the code of the paper's authors, whose constants these are. Slow, and only for
small games.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.league.play import fragmentation
from tests.league.protocol import Machine, Shape, Typical

MAX_CPU, MAX_GPU = 128_000, 8_000


@dataclass(slots=True)
class Node:
    """A node with what is free of it, and how many pods of each kind it has: 0 for shares, else the number of whole GPUs."""

    machine: Machine
    cpu: int
    memory: int
    gpus: list[int]
    kinds: dict[int, int] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """The free thousandths of all GPUs."""
        return sum(self.gpus)

    def can_take(self, shape: Shape) -> bool:
        """True if the pod fits."""
        if self.cpu < shape.cpu or self.memory < shape.memory:
            return False
        if shape.gpus and shape.models and self.machine.model not in shape.models:
            return False
        return sum(left >= shape.milli for left in self.gpus) >= shape.gpus

    def take(self, shape: Shape, gpus: Sequence[int]) -> None:
        """Place a pod."""
        self.cpu -= shape.cpu
        self.memory -= shape.memory
        for gpu in gpus:
            self.gpus[gpu] -= shape.milli
        if shape.gpus:
            kind = _kind(shape)
            self.kinds[kind] = self.kinds.get(kind, 0) + 1


def _kind(shape: Shape) -> int:
    return 0 if shape.milli < 1000 else shape.gpus


Mix = Sequence[Typical]
Raw = Callable[[Node, Shape, Mix], float]
Gpus = Callable[[Node, Shape, Mix], list[int]]


def tightest(node: Node, shape: Shape, _mix: Mix) -> list[int]:
    """The GPUs with the least room that hold the pod, the first of equal ones."""
    room = [gpu for gpu, left in enumerate(node.gpus) if left >= shape.milli]
    return sorted(room, key=lambda gpu: node.gpus[gpu])[: shape.gpus]


def least_fragmented(node: Node, shape: Shape, mix: Mix) -> list[int]:
    """The first GPU with the best FGD score for a share, else the first free GPUs."""
    room = [gpu for gpu, left in enumerate(node.gpus) if left >= shape.milli]
    if shape.gpus != 1 or shape.milli == 1000:
        return room[: shape.gpus]
    return [max(room, key=lambda gpu: (_fgd_with(node, shape, [gpu], mix), -gpu))]


def _fgd_with(node: Node, shape: Shape, gpus: Sequence[int], mix: Mix) -> int:
    after = [left - shape.milli * (gpu in gpus) for gpu, left in enumerate(node.gpus)]
    model = node.machine.model
    drop = fragmentation(node.cpu, node.gpus, model, mix) - fragmentation(node.cpu - shape.cpu, after, model, mix)
    return math.floor(100 / (1 + math.exp(-drop / 1000)))


def fgd(node: Node, shape: Shape, mix: Mix) -> float:
    """Fragmentation gradient descent."""
    return _fgd_with(node, shape, least_fragmented(node, shape, mix), mix)


def best_fit(node: Node, shape: Shape, _mix: Mix) -> float:
    """Best fit, before it is normalised."""
    return _full(node, shape)


def _full(node: Node, shape: Shape) -> int:
    left = Fraction(node.cpu - shape.cpu, MAX_CPU) + Fraction(node.free - shape.demand, MAX_GPU)
    return math.floor(100 * (1 - left / 2))


def dot_product(node: Node, shape: Shape, _mix: Mix) -> float:
    """The dot product of the free amounts and the requests."""
    product = Fraction(node.cpu * shape.cpu, MAX_CPU**2) + Fraction(node.free * shape.demand, MAX_GPU**2)
    return math.floor(100 * (1 - product / 2))


def clustering(node: Node, shape: Shape, _mix: Mix) -> float:
    """Nodes with pods of the same kind first."""
    if not shape.gpus:
        return 0
    used = 25 * (MAX_GPU - node.free) // MAX_GPU
    own = _kind(shape) in node.kinds
    others = len(node.kinds) > own
    return used + (50 if others else 75) if own else used + (0 if others else 25)


def packing(node: Node, shape: Shape, mix: Mix) -> float:
    """GPUs in use first, then free GPUs of nodes in use, then other nodes."""
    if not shape.gpus:
        return 0
    gpus = len(node.gpus)
    if node.free == 1000 * gpus:
        return max(33 - gpus, gpus)
    chosen = tightest(node, shape, mix)
    untouched = sum(node.gpus[gpu] == 1000 for gpu in chosen)
    if untouched:
        return max(50 - untouched, 33)
    return max(100 - sum(node.gpus[gpu] * 100 // 1000 for gpu in chosen) // 10, 50)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to place pods: the keys of a node, compared one after the other, and its GPUs."""

    keys: tuple[Raw, ...]
    gpus: Gpus = tightest


WAYS = {
    "fgd": Way((fgd,), least_fragmented),
    "fgd-best-fit": Way((fgd, best_fit), least_fragmented),
    "best-fit": Way((best_fit,)),
    "dot-product": Way((dot_product,)),
    "clustering": Way((clustering,)),
    "packing": Way((packing,)),
}


def placed(way: Way, machines: Sequence[Machine], shapes: Sequence[Shape], mix: Mix) -> list[tuple[int, tuple[int, ...]]]:
    """(node, GPUs) of each pod, -1 for none; `machines` in the order in which equal ones are taken."""
    nodes = [Node(machine, machine.cpu, machine.memory, [1000] * machine.gpus) for machine in machines]
    found: list[tuple[int, tuple[int, ...]]] = []
    for shape in shapes:
        fitting = [number for number, node in enumerate(nodes) if node.can_take(shape)]
        if not fitting:
            found.append((-1, ()))
            continue
        best = max(fitting, key=lambda number: (*(key(nodes[number], shape, mix) for key in way.keys), -number))
        gpus = way.gpus(nodes[best], shape, mix) if shape.gpus else []
        nodes[best].take(shape, gpus)
        found.append((best, tuple(sorted(gpus))))
    return found
