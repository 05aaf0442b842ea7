"""The rules of a policy as conditions: which nodes its filters let pass, and how many points its scores give.

Points of `normalize` depend on the other feasible nodes. In a general world there may be any others, so only what is true
for all of them is stated: the points lie within 0..100, equal values have equal points, and a larger value has no fewer. An example has its
own nodes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import z3

from wharfinger.compiler.evaluation.rules import CompiledScore
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.syntax.ast import MissingAction, Normalize
from wharfinger.prove.encoder import Encoder, Place
from wharfinger.prove.logic import MAX_SAFE, Condition, Term, Value, as_bool, both, chosen, either, implied, negated, real
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
    """The condition that a filter has a say about a node."""
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


@dataclass(frozen=True, slots=True)
class Counted:
    """What a score gives a node: `weighted` points where it `counts`; its raw value and whether that is there."""

    counts: Condition
    points: Term
    value: Term
    present: Condition
    applies: Condition


def state(encoder: Encoder, rule: typed.Score, index: int) -> tuple[Condition, Term, Condition]:
    """Where a score applies to a node, its raw value, and whether it has one."""
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
    """What a score gives each node of the world; all of them are taken to be feasible."""
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
    """What is known of the points where there are no other nodes."""
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
    """What must hold of the pod and node 0 where Kubernetes lets the pod onto the node; more may be needed."""
    world = encoder.world
    conditions: list[Condition] = [negated(world.attribute(node(0), of_node("unschedulable")).term)] if world.example else []
    for native in NATIVE:
        if (node(0), f"free.{native}") in world.plain or (node(0), f"requested.{native}") in world.plain:
            asked = world.attribute(POD, of_pod(f"requests.{native}", Subject.POD))
            free = world.attribute(node(0), of_node(f"free.{native}"))
            conditions.append(implied(asked.term > 0, asked.term <= free.term))
    conditions.append(world.attribute(node(0), of_node("free.pods")).term >= 1)
    return both(*conditions)
