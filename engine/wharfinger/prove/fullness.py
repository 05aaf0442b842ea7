"""How full the nodes of an example are, as the scores of Kubernetes count it, where what a node has is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import z3

from wharfinger.language.semantics.catalogue import Subject
from wharfinger.prove.logic import Term, real
from wharfinger.prove.world import POD, World, node, of_node, of_pod

NATIVE = ("cpu", "memory")
DEFAULTS = {"cpu": 100, "memory": 200 << 20}  # what a container without requests counts for in scores


def fill(world: World, index: int, resource: str) -> tuple[Term, float] | None:
    """What would be in use of a resource of a node of an example, as scores count it, and what there is; None where that is not known."""
    if not world.fixed or f"allocatable.{resource}" not in world.fixed[index]:
        return None
    asks = of_pod(f"requests.{resource}", Subject.POD)
    placed = of_pod(f"requests.{resource}", Subject.ITEM)
    offered = world.attribute(node(index), of_node(f"allocatable.{resource}"))
    world.attribute(node(index), of_node(f"requested.{resource}"))
    amounts = [_counted(world.attribute(POD, asks).term, resource)]
    for slot in world.slots:
        if slot.node == index:
            one = _counted(world.attribute(slot.owner, placed).term, resource)
            crowd = z3.ToReal(slot.number) * real(DEFAULTS[resource])
            amounts.append(crowd if slot.owner.endswith("crowd") else z3.If(slot.number > 0, one, real(0)))
    return z3.Sum(*amounts), float(offered.low)


def _counted(asked: Term, resource: str) -> Term:
    return z3.If(asked > 0, asked, real(DEFAULTS[resource]))


def least_allocated(world: World, index: int, weights: Mapping[str, float]) -> Term | None:
    """The points of NodeResourcesFit for room, in an example; None where they are not known."""
    return _mean(world, index, weights, lambda used, offered: z3.If(used > real(offered), real(0), real(offered) - used))


def most_allocated(world: World, index: int, weights: Mapping[str, float]) -> Term | None:
    """The points of NodeResourcesFit for fullness, in an example; None where they are not known."""
    return _mean(world, index, weights, lambda used, offered: z3.If(used > real(offered), real(offered), used))


def _mean(world: World, index: int, weights: Mapping[str, float], part: Any) -> Term | None:
    fills = {resource: fill(world, index, resource) for resource in weights if resource in NATIVE}
    if len(fills) < len(weights) or any(each is None for each in fills.values()) or not sum(weights.values()):
        return None
    terms = [part(*each) * real(100 * weights[resource] / each[1] / sum(weights.values())) for resource, each in fills.items() if each]
    return z3.Sum(*terms)
