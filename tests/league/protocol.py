"""The arriving pods of the paper's experiment, its nodes, and the order.

Source: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023,
and the simulator of its authors. The 1,213 nodes with GPUs; the pods of the trace shuffled, and then further random pods of the trace as
long as all together ask for at most 130 % of the GPUs. They come one by one, none leaves, and one that does not fit is not tried again.
Nodes that are equally good are taken in one order, which is random but the same for the whole run.

The seeds are those of the paper; the numbers that are drawn from them are NumPy's, not Go's, so single runs differ and means agree.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from wharfinger.simulate import openb

SEEDS = tuple(range(42, 52))
INFLATION = 1.3
TYPICAL = 0.95
"""The part of all pods that the most frequent shapes make up, which are taken as typical."""


class Half(Enum):
    """The pods of a trace that take part: all, or every other one, from the first or from the second."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"

    def of(self, count: int) -> range:
        """The numbers of these pods among that many."""
        return range(self is Half.SECOND, count, 1 if self is Half.BOTH else 2)


@dataclass(frozen=True, slots=True)
class Shape:
    """The requests of a pod: mCPU, MiB, GPUs, thousandths of each GPU, and the models that it can use (empty: any)."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str] = frozenset()

    @property
    def demand(self) -> int:
        """Thousandths of all GPUs."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Typical:
    """A typical request, without memory, and how common it is (0 to 1)."""

    cpu: int
    gpus: int
    milli: int
    models: frozenset[str]
    weight: float


@dataclass(frozen=True, slots=True)
class Machine:
    """A node: mCPU, MiB, GPUs and their model."""

    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Game:
    """One run: the nodes in the order in which equal ones are taken, and the pods in that of their arrival, as numbers in the lists."""

    nodes: tuple[int, ...]
    pods: tuple[int, ...]


@lru_cache(maxsize=1)
def node_manifests() -> list[dict[str, Any]]:
    """The nodes with GPUs."""
    return [node for node in openb.node_manifests() if openb.GPU in node["status"]["allocatable"]]


@lru_cache(maxsize=2)
def pod_manifests(variant: openb.Variant) -> list[dict[str, Any]]:
    """The pods of a trace."""
    return openb.pod_manifests(variant)


@lru_cache(maxsize=1)
def machines() -> tuple[Machine, ...]:
    """The nodes with GPUs, as numbers."""
    return tuple(_machine(node) for node in node_manifests())


@lru_cache(maxsize=2)
def shapes(variant: openb.Variant) -> tuple[Shape, ...]:
    """The requests of each pod of a trace."""
    return tuple(_shape(pod) for pod in pod_manifests(variant))


def game(variant: openb.Variant, seed: int, half: Half = Half.BOTH) -> Game:
    """The run of a seed, with the pods of the trace or of a half of it, and copies of these."""
    asked, taking_part = shapes(variant), half.of(len(shapes(variant)))
    rng = np.random.default_rng(seed)
    arriving = [taking_part[place] for place in rng.permutation(len(taking_part)).tolist()]
    most = INFLATION * sum(machine.gpus for machine in machines()) * 1000
    demand = sum(asked[number].demand for number in arriving)
    while demand + asked[further := taking_part[int(rng.integers(len(taking_part)))]].demand <= most:
        demand += asked[further].demand
        arriving.append(further)
    return Game(nodes=tuple(rng.permutation(len(machines())).tolist()), pods=tuple(arriving))


@lru_cache(maxsize=2)
def typical(variant: openb.Variant) -> tuple[Typical, ...]:
    """The most frequent shapes without memory, until they are 95 % of all pods."""
    asked = shapes(variant)
    counted = Counter((shape.cpu, shape.gpus, shape.milli, shape.models) for shape in asked)
    chosen, reached = [], 0
    for key, count in counted.most_common():
        if reached >= TYPICAL * len(asked):
            break
        chosen.append((key, count))
        reached += count
    return tuple(Typical(*key, count / reached) for key, count in chosen)


def _machine(node: dict[str, Any]) -> Machine:
    offer = node["status"]["allocatable"]
    model = node["metadata"]["labels"][openb.GPU_PRODUCT]
    return Machine(_number(offer["cpu"], "m"), _number(offer["memory"], "Mi"), int(offer[openb.GPU]), model)


def _shape(pod: dict[str, Any]) -> Shape:
    spec = pod["spec"]
    requests = spec["containers"][0]["resources"]["requests"]
    total = int(requests.get(openb.GPU_MILLI, "0"))
    gpus = int(requests.get(openb.GPU, "1" if total else "0"))
    models: frozenset[str] = frozenset()
    if "affinity" in spec:
        terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        models = frozenset(terms[0]["matchExpressions"][0]["values"])
    return Shape(_number(requests["cpu"], "m"), _number(requests["memory"], "Mi"), gpus, total // gpus if gpus else 0, models)


def _number(text: str, unit: str) -> int:
    return int(text.removesuffix(unit))
