"""Which of two nodes wins: totals of weighted points with the scores of Kubernetes, compared tier by tier.

The scores of Kubernetes have no model in a general world but their bounds: 0..100 points each, times their weight. In an example, those
that a test can move are there: taints that a node would rather not have, and how full a node is.
"""

from __future__ import annotations

from typing import Any

import z3

from wharfinger.framework import extension
from wharfinger.framework.registry import default_registry
from wharfinger.framework.rules.lineup import DEFAULT_QUANTUM
from wharfinger.language.semantics.types import Kind
from wharfinger.prove import rules
from wharfinger.prove.encoded_calls import COUNTED_BY_SCORES, least_allocated
from wharfinger.prove.encoder import Encoder, Place
from wharfinger.prove.logic import Condition, Term, as_bool, both, chosen, either, negated, real
from wharfinger.prove.world import World, node


def base_weights(encoder: Encoder, *, governed: bool) -> dict[str, float]:
    """The weight of each score plugin of the chain for pods that the policy governs, or for others."""
    registry = default_registry()
    weights = {name: float(plugin.default_weight) for name, plugin in registry.items() if issubclass(plugin, extension.ScorePlugin)}
    overrides = {entry.plugin: entry.weight for entry in encoder.compiled.base if entry.weight is not None} if governed else {}
    return {**weights, **overrides}


def quantum(encoder: Encoder, tier: int) -> float:
    """The step to which totals of a tier are rounded, at most."""
    return max(encoder.policy.quantum.get(tier, DEFAULT_QUANTUM), DEFAULT_QUANTUM)


def tiers(encoder: Encoder) -> dict[int, list[Term]]:
    """The totals of both nodes in each tier, in the order of the tiers."""
    world = encoder.world
    found: dict[int, list[list[Term]]] = {1: [_base(encoder, index) for index in range(world.n_nodes)]}
    for rule, compiled in zip(encoder.policy.scores, encoder.compiled.scores, strict=True):
        if not compiled.weight:
            continue
        sums = found.setdefault(compiled.tier, [[] for _ in range(world.n_nodes)])
        for index, given in enumerate(rules.points(encoder, rule, compiled)):
            sums[index].append(chosen(given.counts, given.points * real(compiled.weight), real(0)))
    return {tier: [z3.Sum(*terms) if terms else real(0) for terms in found[tier]] for tier in sorted(found)}


def heaviest(encoder: Encoder) -> float:
    """An upper bound of all totals."""
    own = sum(compiled.weight for compiled in encoder.compiled.scores)
    base = max(sum(base_weights(encoder, governed=governed).values()) for governed in (True, False))
    return 100.0 * (own + base)


def may_beat(encoder: Encoder) -> Condition:
    """A condition that holds whenever node 0 wins against node 1, or is its equal before ties are broken."""
    slack = max(heaviest(encoder), 1.0) * 2.0**-40  # far above what the rounding of sums can do
    result: Condition = True
    for tier, (mine, other) in reversed(tiers(encoder).items()):
        step = quantum(encoder, tier) + slack
        equal = both(mine - other <= real(step), other - mine <= real(step))
        result = either(mine - other > real(-slack), both(equal, result))
    return result


def beats(encoder: Encoder, winner: int, loser: int, margin: float) -> Condition:
    """A condition under which one node of an example wins against the other, if its other points are as they are taken to be."""
    result: Condition = _tie(encoder, winner, loser)
    for tier, totals in reversed(tiers(encoder).items()):
        step = max(margin, 2 * quantum(encoder, tier))
        gap = totals[winner] - totals[loser]
        result = either(gap > real(step), both(gap == 0, result))
    return result


def _tie(encoder: Encoder, winner: int, loser: int) -> Condition:
    result: Condition = False
    for key in reversed(encoder.policy.tie_break):
        mine, other = (tie_value(encoder, key.value, index) for index in (winner, loser))
        better = mine[1] > other[1] if key.descending else mine[1] < other[1]
        ahead = both(mine[0], either(negated(other[0]), better))
        level = either(both(mine[0], other[0], mine[1] == other[1]), both(negated(mine[0]), negated(other[0])))
        result = either(ahead, both(level, result))
    return both(rules.governs(encoder), result)


def tie_value(encoder: Encoder, key: Any, index: int) -> tuple[Condition, Term]:
    """Where a key of the tie break has a value, and the value."""
    value = encoder.value(key, Place(index))
    term = value.term
    if isinstance(term, bool) or z3.is_bool(term):
        term = chosen(term, real(1), real(0))
    return both(encoder.in_force(key), value.present), term


def _base(encoder: Encoder, index: int) -> list[Term]:
    """The weighted points of the scores of Kubernetes at a node."""
    world = encoder.world
    governed, others = (base_weights(encoder, governed=which) for which in (True, False))
    governs = as_bool(rules.governs(encoder))
    found = []
    for name in governed:
        points = _points_of_example(world, name, index) if world.example else _any_points(world, name, index)
        if points is None:
            continue
        weight = real(governed[name]) if governed[name] == others[name] else z3.If(governs, real(governed[name]), real(others[name]))
        if governed[name] == others[name]:
            found.append(points * weight)
        else:
            found.append(z3.If(governs, points * real(governed[name]), points * real(others[name])))
    return found


def _any_points(world: World, name: str, index: int) -> Term:
    return world.free(f"points of {name} at {node(index)}", Kind.NUMBER, low=0.0, high=100.0).term


def _points_of_example(world: World, name: str, index: int) -> Term | None:
    if name == "TaintToleration":
        taints = world.free(f"{node(index)} taints PreferNoSchedule", Kind.COUNT, low=0.0, high=2.0**20, whole=True)
        world.facts.append(taints.term <= 1)
        return z3.If(taints.term == 0, real(100), real(0))
    if name == "NodeResourcesFit":
        return least_allocated(world, index, dict.fromkeys(COUNTED_BY_SCORES, 1.0))
    return None
