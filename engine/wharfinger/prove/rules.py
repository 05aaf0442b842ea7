"""The rules of a policy as conditions: which nodes pass, their points, the chosen node, and where two policies differ.

Points of `normalize` depend on the other feasible nodes. In a general world there may be any others, so only properties of all of them are
stated: the points lie within 0..100, equal values have equal points, and a larger value has no fewer. An example has its own nodes alone.

Of two nodes the one with the larger totals wins, compared tier by tier: sums of weighted points with the scores of Kubernetes. Those have
no model in a general world but their bounds: 0..100 points each, times their weight. In an example, those that a test can move are there:
taints that a node would rather not have, and how full a node is.
"""

from __future__ import annotations

from typing import Any

import z3
from msgspec import Struct

from wharfinger.compiler.rules import CompiledScore
from wharfinger.framework import extension
from wharfinger.framework.registry import default_registry
from wharfinger.framework.rules.pod_rules import DEFAULT_QUANTUM
from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.types import Kind
from wharfinger.prove.encoded_calls import COUNTED_BY_SCORES, least_allocated
from wharfinger.prove.encoder import Encoder, Place
from wharfinger.prove.logic import MAX_SAFE, Condition, Term, Value, as_bool, both, chosen, either, implied, negated, real, same_truth
from wharfinger.prove.world import NATIVE, POD, World, node, of_node, of_pod

NAMESPACE = of_pod("namespace", Subject.POD)


def governs(encoder: Encoder) -> Condition:
    """The condition that the policy governs the pod."""
    namespace = encoder.policy.authority.namespace
    scope = encoder.true(encoder.policy.scope, Place(0))
    if namespace is None:
        return scope
    return both(scope, encoder.world.attribute(POD, NAMESPACE).term == encoder.world.text(namespace))


def applies(encoder: Encoder, rule: typed.Filter, index: int) -> Condition:
    """The condition that a filter applies to a node."""
    in_force = encoder.in_force(rule.when, *(clause.condition for clause in rule.clauses))
    return both(in_force, encoder.true(rule.when, Place(index)))


def clause_passes(encoder: Encoder, clause: typed.Clause, index: int) -> Condition:
    """The condition that a clause lets a node pass."""
    value = encoder.value(clause.condition, Place(index))
    return chosen(value.present, value.term, clause.missing_passes is True)


def passes(encoder: Encoder, rule: typed.Filter, index: int) -> Condition:
    """The condition that a filter lets a node pass, for a governed pod."""
    clauses = both(*(clause_passes(encoder, clause, index) for clause in rule.clauses))
    return implied(applies(encoder, rule, index), clauses)


def accepts(encoder: Encoder, index: int) -> Condition:
    """The condition that the policy lets a node pass."""
    return implied(governs(encoder), both(*(passes(encoder, rule, index) for rule in encoder.policy.filters)))


class Counted(Struct, frozen=True):
    """The result of a score for a node: `weighted` points where it `counts`; its raw value, and whether it is present."""

    counts: Condition
    points: Term
    value: Term
    present: Condition
    applies: Condition


def state(encoder: Encoder, rule: typed.Score, index: int) -> tuple[Condition, Term, Condition]:
    """(true if a score applies to a node, true if it has a value there, the raw value)."""
    value = encoder.value(rule.value, Place(index))
    applying = both(governs(encoder), encoder.in_force(rule.when, rule.value), encoder.true(rule.when, Place(index)))
    return applying, value.term, both(value.present, _finite(encoder.world, value))


def _finite(world: World, value: Value) -> Condition:
    """The condition that a number is not infinite; a score without one counts as missing."""
    if world.example or value.largest <= MAX_SAFE or not z3.is_real(value.term):
        return True
    finite = z3.Function("is finite", z3.RealSort(), z3.BoolSort())(value.term)
    world.facts.append(z3.Implies(z3.And(value.term <= real(MAX_SAFE), value.term >= real(-MAX_SAFE)), finite))
    return finite


def points(encoder: Encoder, rule: typed.Score, compiled: CompiledScore) -> list[Counted]:
    """The points of a score for each node of the world; all nodes are assumed to be feasible."""
    world = encoder.world
    nodes = range(world.n_nodes)
    states = [state(encoder, rule, index) for index in nodes]
    tag = f"{encoder.policy.source.name} {rule.name}"
    given = [_scaled(world, tag, index, states, compiled) for index in nodes]
    filled = _filled(world, tag, given, states, compiled)
    found = []
    for index, (applying, value, present) in enumerate(states):
        skips = compiled.on_missing in (MissingAction.SKIP, None)
        counts = both(applying, present) if skips else applying
        found.append(Counted(counts, chosen(present, given[index], filled), value, present, applying))
    return found


def _clamped(term: Term) -> Term:
    return z3.If(term > 0, z3.If(term < 100, term, real(100)), real(0))


def _scaled(world: World, tag: str, index: int, states: list[tuple[Condition, Term, Condition]], compiled: CompiledScore) -> Term:
    """The points of a node that has a value."""
    value = states[index][1]
    if compiled.normalize is Normalize.NONE:
        return _clamped(value)
    term = z3.Real(f"points of {tag} at {index}")
    world.facts.extend((term >= 0, term <= 100))
    others = [(i, z3.Real(f"points of {tag} at {i}"), states[i]) for i in range(len(states)) if i != index]
    for _, other, (applying, raw, present) in others:
        ranked = both(applying, present, states[index][0], states[index][2])
        rising = True if compiled.normalize is Normalize.MINMAX else z3.And(value >= 0, raw >= 0)
        world.facts.append(as_bool(implied(both(ranked, value == raw), term == other)))
        world.facts.append(as_bool(implied(both(ranked, rising, value < raw), term <= other)))
    if world.example:
        _exactly(world, index, term, states, compiled)
    return term


def _exactly(world: World, index: int, term: Term, states: list[tuple[Condition, Term, Condition]], compiled: CompiledScore) -> None:
    """The facts about the points if there are no other nodes."""
    value = states[index][1]
    ranked = [both(applying, present) for applying, _, present in states]
    lowest = both(*(implied(there, value <= raw) for there, (_, raw, _) in zip(ranked, states, strict=True)))
    highest = both(*(implied(there, value >= raw) for there, (_, raw, _) in zip(ranked, states, strict=True)))
    facts = world.facts
    if compiled.normalize is Normalize.MAX:
        facts.append(as_bool(implied(both(highest, value > 0), term == 100)))
        return
    wide = either(
        *(
            both(there, either(value - raw >= real(compiled.min_spread), raw - value >= real(compiled.min_spread)), value != raw)
            for there, (_, raw, _) in zip(ranked, states, strict=True)
        )
    )
    facts.append(as_bool(implied(negated(wide), term == 50)))
    facts.append(as_bool(implied(both(wide, lowest), term == 0)))
    facts.append(as_bool(implied(both(wide, highest), term == 100)))


def _filled(world: World, tag: str, given: list[Term], states: list[tuple[Condition, Term, Condition]], compiled: CompiledScore) -> Term:
    """The points of a node whose value is missing."""
    if compiled.on_missing is not MissingAction.NEUTRAL:
        return real(compiled.missing_points)
    mean = z3.Real(f"mean of {tag}")
    facts = world.facts
    facts.extend((mean >= 0, mean <= 100))
    if world.example:
        ranked = [both(applying, present) for applying, _, present in states]
        for alone, points_ in zip(ranked, given, strict=True):
            others = both(*(negated(other) for other in ranked if other is not alone))
            facts.append(as_bool(implied(both(alone, others), mean == points_)))
        facts.append(as_bool(implied(negated(either(*ranked)), mean == 50)))
    return mean


def fits(encoder: Encoder) -> Condition:
    """Conditions that are true if Kubernetes accepts the pod on node 0; they are necessary, and may not be sufficient."""
    world = encoder.world
    conditions: list[Condition] = [negated(world.attribute(node(0), of_node("unschedulable")).term)] if world.example else []
    for native in NATIVE:
        if (node(0), f"free.{native}") in world.plain or (node(0), f"requested.{native}") in world.plain:
            requested = world.attribute(POD, of_pod(f"requests.{native}", Subject.POD))
            free = world.attribute(node(0), of_node(f"free.{native}"))
            conditions.append(implied(requested.term > 0, requested.term <= free.term))
    conditions.append(world.attribute(node(0), of_node("free.pods")).term >= 1)
    return both(*conditions)


# ── which of two nodes wins ──


def _base_weights(encoder: Encoder, *, governed: bool) -> dict[str, float]:
    """The weight of each score plugin of the chain for pods that the policy governs, or for others."""
    registry = default_registry()
    weights = {name: float(plugin.default_weight) for name, plugin in registry.items() if issubclass(plugin, extension.ScorePlugin)}
    overrides = {entry.plugin: entry.weight for entry in encoder.compiled.base if entry.weight is not None} if governed else {}
    return {**weights, **overrides}


def _quantum(encoder: Encoder, tier: int) -> float:
    """The step to which totals of a tier are rounded, at most."""
    return max(encoder.policy.quantum.get(tier, DEFAULT_QUANTUM), DEFAULT_QUANTUM)


def _tiers(encoder: Encoder) -> dict[int, list[Term]]:
    """The totals of both nodes in each tier, in the order of the tiers."""
    world = encoder.world
    found: dict[int, list[list[Term]]] = {1: [_base_points(encoder, index) for index in range(world.n_nodes)]}
    for rule, compiled in zip(encoder.policy.scores, encoder.compiled.scores, strict=True):
        if not compiled.weight:
            continue
        sums = found.setdefault(compiled.tier, [[] for _ in range(world.n_nodes)])
        for index, given in enumerate(points(encoder, rule, compiled)):
            sums[index].append(chosen(given.counts, given.points * real(compiled.weight), real(0)))
    return {tier: [z3.Sum(*terms) if terms else real(0) for terms in found[tier]] for tier in sorted(found)}


def _heaviest(encoder: Encoder) -> float:
    """An upper bound of all totals."""
    own = sum(compiled.weight for compiled in encoder.compiled.scores)
    base = max(sum(_base_weights(encoder, governed=governed).values()) for governed in (True, False))
    return 100.0 * (own + base)


def may_beat(encoder: Encoder) -> Condition:
    """A condition that holds whenever node 0 wins against node 1, or is its equal before ties are broken."""
    slack = max(_heaviest(encoder), 1.0) * 2.0**-40  # far above what the rounding of sums can do
    result: Condition = True
    for tier, (mine, other) in reversed(_tiers(encoder).items()):
        step = _quantum(encoder, tier) + slack
        equal = both(mine - other <= real(step), other - mine <= real(step))
        result = either(mine - other > real(-slack), both(equal, result))
    return result


def beats(encoder: Encoder, winner: int, loser: int, margin: float) -> Condition:
    """A condition under which one node of an example wins against the other, if the assumed other points are right."""
    result: Condition = _tie(encoder, winner, loser)
    for tier, totals in reversed(_tiers(encoder).items()):
        step = max(margin, 2 * _quantum(encoder, tier))
        gap = totals[winner] - totals[loser]
        result = either(gap > real(step), both(gap == 0, result))
    return result


def _tie(encoder: Encoder, winner: int, loser: int) -> Condition:
    result: Condition = False
    for key in reversed(encoder.policy.tie_break):
        mine, other = (_tie_value(encoder, key.value, index) for index in (winner, loser))
        better = mine[1] > other[1] if key.descending else mine[1] < other[1]
        ahead = both(mine[0], either(negated(other[0]), better))
        level = either(both(mine[0], other[0], mine[1] == other[1]), both(negated(mine[0]), negated(other[0])))
        result = either(ahead, both(level, result))
    return both(governs(encoder), result)


def _tie_value(encoder: Encoder, key: Any, index: int) -> tuple[Condition, Term]:
    """(true if a key of the tie break has a value, the value)."""
    value = encoder.value(key, Place(index))
    term = value.term
    if isinstance(term, bool) or z3.is_bool(term):
        term = chosen(term, real(1), real(0))
    return both(encoder.in_force(key), value.present), term


def _base_points(encoder: Encoder, index: int) -> list[Term]:
    """The weighted points of the scores of Kubernetes at a node."""
    world = encoder.world
    governed, others = (_base_weights(encoder, governed=which) for which in (True, False))
    is_governed = as_bool(governs(encoder))
    found = []
    for name in governed:
        points = _points_of_example(world, name, index) if world.example else _any_points(world, name, index)
        if points is None:
            continue
        if governed[name] == others[name]:
            found.append(points * real(governed[name]))
        else:
            found.append(z3.If(is_governed, points * real(governed[name]), points * real(others[name])))
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


# ── where two policies differ ──


def differences(a: Encoder, b: Encoder) -> list[Condition]:
    """Conditions; one of them is true whenever two policies rank nodes that both accept, or evict pods, differently."""
    found = _score_differences(a, b)
    extras = [any((encoder.policy.base, encoder.policy.tie_break, encoder.policy.quantum, encoder.policy.victims)) for encoder in (a, b)]
    if any(extras):
        found.append(negated(same_truth(governs(a), governs(b))))
    found.append(_base_scores(a) != _base_scores(b))
    steps = {*a.policy.quantum, *b.policy.quantum}
    found.append(any(a.policy.quantum.get(tier, DEFAULT_QUANTUM) != b.policy.quantum.get(tier, DEFAULT_QUANTUM) for tier in steps))
    keys = [[key.descending for key in encoder.policy.tie_break] for encoder in (a, b)]
    found.append(keys[0] != keys[1])
    if keys[0] == keys[1]:
        for mine, other in zip(a.policy.tie_break, b.policy.tie_break, strict=True):
            found.append(_differ(_tie_value(a, mine.value, 0), _tie_value(b, other.value, 0)))
    if a.policy.victims or b.policy.victims:
        found.append(negated(same_truth(*(_evictable(each, Place(0, "any placed pod")) for each in (a, b)))))
    return [each for each in found if each is not False]


def _score_differences(a: Encoder, b: Encoder) -> list[Condition]:
    """Conditions; one of them is true whenever the scores of two policies give different totals.

    Scores are compared one by one, in the order in which they are added: a sum of float64 depends on it.
    """
    pairs = [[(rule, known) for rule, known in zip(e.policy.scores, e.compiled.scores, strict=True) if known.weight] for e in (a, b)]
    if [_shape(known) for _, known in pairs[0]] != [_shape(known) for _, known in pairs[1]]:
        return [True]
    found = []
    for (mine, _), (other, _) in zip(*pairs, strict=True):
        (applies, value, present), (applies_, value_, present_) = state(a, mine, 0), state(b, other, 0)
        found.append(either(negated(same_truth(applies, applies_)), both(applies, _differ((present, value), (present_, value_)))))
    return found


def _shape(score: CompiledScore) -> tuple[object, ...]:
    """The properties that two scores must share so that equal values give equal totals."""
    spread = score.min_spread if score.normalize is Normalize.MINMAX else None
    instead = score.missing_points if score.on_missing is MissingAction.POINTS else None
    leaves_out = score.on_missing in (None, MissingAction.SKIP)
    handling = None if leaves_out else score.on_missing
    return (score.tier, score.weight, score.normalize, spread, handling, instead, score.volatility, score.plan.domains)


def _base_scores(encoder: Encoder) -> dict[str, tuple[float, object]]:
    """The weights and arguments of the scores of Kubernetes for governed pods."""
    arguments = {entry.plugin: dict(entry.arguments) for entry in encoder.compiled.base if entry.arguments}
    return {name: (weight, arguments.get(name)) for name, weight in _base_weights(encoder, governed=True).items()}


def _differ(a: tuple[Condition, Any], b: tuple[Condition, Any]) -> Condition:
    """The condition that one of two values is missing, or that both are present and differ."""
    return either(negated(same_truth(a[0], b[0])), both(a[0], b[0], a[1] != b[1]))


def evictions(a: Encoder, b: Encoder) -> list[Condition]:
    """The condition of an example of different evictions: the pod fits only in the place of a pod that one policy allows to evict."""
    if not (a.policy.victims or b.policy.victims):
        return []
    world = a.world
    victim, *others = sorted(world.slots, key=lambda slot: (slot.node, not slot.owner.endswith("other")))
    place = Place(0, victim.owner)
    asked, room = world.attribute(POD, of_pod("requests.cpu", Subject.POD)), world.attribute(node(0), of_node("allocatable.cpu"))
    held = world.attribute(victim.owner, of_pod("requests.cpu", Subject.ITEM))
    world.attribute(node(0), of_node("requested.cpu"))
    lower = world.attribute(victim.owner, of_pod("priority", Subject.ITEM)).term
    fits = both(
        asked.term <= room.term, asked.term + held.term > room.term, lower < world.attribute(POD, of_pod("priority", Subject.POD)).term
    )
    alone = both(victim.number == 1, *(slot.number == 0 for slot in others), world.attribute(node(1), of_node("unschedulable")).term)
    taken = both(*(both(governs(each), accepts(each, 0)) for each in (a, b)))
    return [both(fits, alone, taken, negated(same_truth(_evictable(a, place), _evictable(b, place))))]


def _evictable(encoder: Encoder, place: Place) -> Condition:
    """The condition that a placed pod may be evicted."""
    values = [(rule, encoder.value(rule.condition, place)) for rule in encoder.policy.victims]
    return both(*(chosen(value.present, value.term, rule.missing_evicts is True) for rule, value in values))
