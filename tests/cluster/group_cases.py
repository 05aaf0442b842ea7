"""Groups of pods, each with its own few nodes, whose placements are known.

They are known by brute force over all assignments: which request goes to which node. Members of one request are interchangeable.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.cluster import objects

HOSTNAME = "kubernetes.io/hostname"
Placement: TypeAlias = frozenset[tuple[tuple[int, str], int]]
"""How many members of each request (in CPUs) are on each node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCase:
    """A group and its nodes: the CPUs of each node by name, the rack of each, the CPUs that each member requests."""

    name: str
    nodes: dict[str, int]
    rack_of: dict[str, str]
    requests: tuple[int, ...]
    min_count: int
    one_rack: bool
    apart: bool

    @property
    def rack_key(self) -> str:
        """The label of racks, of this case alone."""
        return f"rack-of-{self.name}"

    def node_objects(self) -> list[dict[str, Any]]:
        """The nodes; others' members do not select them."""
        return [
            objects.node(name, cpu=str(cpu), labels={"case": self.name, self.rack_key: self.rack_of[name]})
            for name, cpu in self.nodes.items()
        ]

    def pod_objects(self, scheduler: str) -> list[dict[str, Any]]:
        """The members, the first of them the oldest."""
        labels = {"group": self.name}
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
        apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}} if self.apart else {}
        return [
            objects.pod(
                f"{self.name}-{index}",
                cpu=str(cpu),
                labels=labels,
                scheduler=scheduler,
                nodeSelector={"case": self.name},
                schedulingGroup={"podGroupName": self.name},
                **apart,
            )
            for index, cpu in enumerate(self.requests)
        ]

    def podgroup(self) -> dict[str, Any]:
        """The PodGroup."""
        return objects.podgroup(self.name, self.min_count, within=self.rack_key if self.one_rack else "")

    def placements(self, count: int) -> set[Placement]:
        """Every placement of some `count` members that leaves no node overcommitted."""
        found = set()
        for members in set(itertools.combinations(self.requests, count)):
            for nodes in itertools.product(self.nodes, repeat=count):
                if self._holds(members, nodes):
                    found.add(frozenset(Counter(zip(members, nodes, strict=True)).items()))
        return found

    def is_sound(self, placement: Placement) -> bool:
        """True for a placement of no members, or of at least as many as there must be, that leaves no node overcommitted."""
        count = sum(members for _, members in placement)
        return not count or (count >= self.min_count and placement in self.placements(count))

    def _holds(self, requests: tuple[int, ...], nodes: tuple[str, ...]) -> bool:
        if self.one_rack and len({self.rack_of[node] for node in nodes}) > 1:
            return False
        if self.apart and len(set(nodes)) < len(nodes):
            return False
        used: Counter[str] = Counter()
        for cpu, node in zip(requests, nodes, strict=True):
            used[node] += cpu
        return all(used[node] <= self.nodes[node] for node in used)


def drawn(rng: random.Random, name: str) -> GroupCase:
    """A case of two or three racks with one or two nodes each, and two to four members."""
    nodes: dict[str, int] = {}
    rack_of = {}
    for rack in range(rng.randint(2, 3)):
        for _ in range(rng.randint(1, 2)):
            node = f"{name}-n{len(nodes)}"
            nodes[node] = rng.randint(1, 5)
            rack_of[node] = f"r{rack}"
    requests = tuple(rng.randint(1, 3) for _ in range(rng.randint(2, 4)))
    return GroupCase(
        name=name,
        nodes=nodes,
        rack_of=rack_of,
        requests=requests,
        min_count=max(1, len(requests) - rng.choice((0, 0, 0, 1))),
        one_rack=rng.random() < 0.6,
        apart=rng.random() < 0.25,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """Cases by what is known of them: exactly one answer, an answer with some of the members, no answer."""

    one: list[GroupCase]
    partial: list[GroupCase]
    hopeless: list[GroupCase]

    @property
    def all(self) -> list[GroupCase]:
        """All cases."""
        return [*self.one, *self.partial, *self.hopeless]


def cases(seed: int, *, one: int, partial: int, hopeless: int) -> Cases:
    """The given numbers of cases. In `one` are groups that need all their members and have one placement."""
    rng = random.Random(seed)
    found = Cases(one=[], partial=[], hopeless=[])
    while len(found.one) < one or len(found.partial) < partial or len(found.hopeless) < hopeless:
        case = drawn(rng, f"case-{len(found.all):03d}")
        answers = case.placements(case.min_count)
        if not answers:
            sort, most = found.hopeless, hopeless
        elif case.min_count < len(case.requests):
            sort, most = found.partial, partial
        elif len(answers) == 1:
            sort, most = found.one, one
        else:
            continue
        if len(sort) < most:
            sort.append(case)
    return found
