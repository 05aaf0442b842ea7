"""Where two policies decide differently, as conditions on a pod and the nodes of a world."""

from __future__ import annotations

from typing import Any

from wharfinger.compiler.evaluation.rules import CompiledScore
from wharfinger.framework.rules.lineup import DEFAULT_QUANTUM
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.syntax.ast import MissingAction, Normalize
from wharfinger.prove import rules, totals
from wharfinger.prove.encoder import Encoder, Place
from wharfinger.prove.logic import Condition, both, chosen, either, negated, same_truth
from wharfinger.prove.world import POD, node, of_node, of_pod


def differences(a: Encoder, b: Encoder) -> list[Condition]:
    """Conditions of which one holds wherever nodes that both policies accept are ranked, or pods evicted, in different ways."""
    found = _score_differences(a, b)
    extras = [any((encoder.policy.base, encoder.policy.tie_break, encoder.policy.quantum, encoder.policy.victims)) for encoder in (a, b)]
    if any(extras):
        found.append(negated(same_truth(rules.governs(a), rules.governs(b))))
    found.append(_base(a) != _base(b))
    steps = {*a.policy.quantum, *b.policy.quantum}
    found.append(any(a.policy.quantum.get(tier, DEFAULT_QUANTUM) != b.policy.quantum.get(tier, DEFAULT_QUANTUM) for tier in steps))
    keys = [[key.descending for key in encoder.policy.tie_break] for encoder in (a, b)]
    found.append(keys[0] != keys[1])
    if keys[0] == keys[1]:
        for mine, other in zip(a.policy.tie_break, b.policy.tie_break, strict=True):
            found.append(_differ(totals.tie_value(a, mine.value, 0), totals.tie_value(b, other.value, 0)))
    if a.policy.victims or b.policy.victims:
        found.append(negated(same_truth(*(_evictable(each, Place(0, "any placed pod")) for each in (a, b)))))
    return [each for each in found if each is not False]


def _score_differences(a: Encoder, b: Encoder) -> list[Condition]:
    """Conditions of which one holds wherever the scores of two policies give different totals.

    Scores are compared one by one, in the order in which they are added: a sum of float64 depends on it.
    """
    pairs = [[(rule, known) for rule, known in zip(e.policy.scores, e.compiled.scores, strict=True) if known.weight] for e in (a, b)]
    if [_shape(known) for _, known in pairs[0]] != [_shape(known) for _, known in pairs[1]]:
        return [True]
    found = []
    for (mine, _), (other, _) in zip(*pairs, strict=True):
        (applies, value, present), (applies_, value_, present_) = rules.state(a, mine, 0), rules.state(b, other, 0)
        found.append(either(negated(same_truth(applies, applies_)), both(applies, _differ((present, value), (present_, value_)))))
    return found


def _shape(score: CompiledScore) -> tuple[object, ...]:
    """What two scores must have in common for equal values to give equal totals."""
    spread = score.min_spread if score.normalize is Normalize.MINMAX else None
    instead = score.missing_points if score.on_missing is MissingAction.POINTS else None
    leaves_out = score.on_missing in (None, MissingAction.SKIP)
    handling = None if leaves_out else score.on_missing
    return (score.tier, score.weight, score.normalize, spread, handling, instead, score.volatility, score.plan.domains)


def _base(encoder: Encoder) -> dict[str, tuple[float, object]]:
    """The weights and arguments of the scores of Kubernetes for governed pods."""
    arguments = {entry.plugin: dict(entry.arguments) for entry in encoder.compiled.base if entry.arguments}
    return {name: (weight, arguments.get(name)) for name, weight in totals.base_weights(encoder, governed=True).items()}


def _differ(a: tuple[Condition, Any], b: tuple[Condition, Any]) -> Condition:
    """The condition that of two values one is missing, or both are there and differ."""
    return either(negated(same_truth(a[0], b[0])), both(a[0], b[0], a[1] != b[1]))


def evictions(a: Encoder, b: Encoder) -> list[Condition]:
    """Where an example shows that evictions differ: the pod fits nowhere but in the place of a pod that one policy lets leave."""
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
    taken = both(*(both(rules.governs(each), rules.accepts(each, 0)) for each in (a, b)))
    return [both(fits, alone, taken, negated(same_truth(_evictable(a, place), _evictable(b, place))))]


def _evictable(encoder: Encoder, place: Place) -> Condition:
    """The condition that a placed pod may be evicted."""
    values = [(rule, encoder.value(rule.condition, place)) for rule in encoder.policy.victims]
    return both(*(chosen(value.present, value.term, rule.missing_evicts is True) for rule, value in values))
