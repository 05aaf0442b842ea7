"""Every value that the interpreter computes is possible in a proof: otherwise a false statement could be proved."""

from __future__ import annotations

import math

import z3
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import compile_policy
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.types import NUMERIC, Kind
from wharfinger.prove.encoder import Place, Shared, Unmodelled
from wharfinger.prove.encoding import ExpressionEncoder
from wharfinger.prove.logic import as_bool, real
from wharfinger.prove.world import POD, TEXTS, World, node

from . import policy_expressions
from .test_check_sound import interpreters, mended, sub_expressions

few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
)


def equal(world, value, actual, kind):
    """The condition that a value is that of the interpreter."""
    if actual is None:
        return z3.Not(as_bool(value.present))
    same = value.term == (world.text(actual) if kind in TEXTS else real(actual)) if kind is not Kind.BOOL else as_bool(value.term) == actual
    return z3.And(as_bool(value.present), same)


def read(interpreter, owner, row):
    return interpreter.pod if owner == POD else interpreter.snapshot.node(row)


def pins(world, interpreter, row):
    """The conditions that the unknowns of the world are what the cluster has."""
    for (owner, _), (attribute, value) in list(world.plain.items()):
        if attribute.type.kind is not Kind.SET and owner in (POD, node(0)):
            yield equal(world, value, attribute.read(read(interpreter, owner, row)), attribute.type.kind)
    for (owner, _), (attribute, keys) in list(world.keyed.items()):
        for key in keys if owner in (POD, node(0)) else ():
            if z3.is_int_value(key):
                kind = Kind.STRING if attribute.type.kind is Kind.LABELS else attribute.type.kind
                actual = attribute.read(read(interpreter, owner, row), world.texts[key.as_long()])
                yield equal(world, world.attribute(owner, attribute, key), actual, kind)


def samples(encoder, interpreter, row):
    for metric in encoder.policy.metrics:
        found = interpreter.snapshot.metric(*metric.key.names)
        value, age = encoder.sample(metric.name, 0)
        there = found is not None and bool(found.present[row])
        yield as_bool(value.present) == there
        if there:
            yield z3.And(value.term == real(float(found.values[row])), age == real(interpreter.snapshot.now - float(found.times[row])))


@few
@given(st.data())
def test_a_proof_covers_the_behaviour_of_the_interpreter(data):
    policy = mended(data.draw(policy_expressions.policies()))
    compiled = compile_policy(policy, {})
    interpreter = data.draw(interpreters(policy))
    interpreter = Interpreter(policy, compiled.params, interpreter.pod, interpreter.snapshot)
    row = 0
    world = World(1)
    encoder = ExpressionEncoder(Shared(world), compiled, policy)
    claims = {}
    for expr in sub_expressions(policy):
        actual = interpreter.value(expr, row)
        assume(not isinstance(actual, float) or math.isfinite(actual))
        try:
            value = encoder.value(expr, Place(0))
        except Unmodelled:
            continue
        if expr.type.kind in NUMERIC | TEXTS | {Kind.BOOL}:
            claims[describe(expr)] = equal(world, value, actual, expr.type.kind)
    fixed = [*pins(world, interpreter, row), *samples(encoder, interpreter, row)]
    world.close()
    fixed += pins(world, interpreter, row)
    asked = z3.Solver()
    asked.set("rlimit", 2_000_000)
    asked.add(*world.facts, *fixed)
    for number, claim in enumerate(claims.values()):
        asked.assert_and_track(claim, f"claim {number}")
    if asked.check() == z3.unsat:
        core = {str(each) for each in asked.unsat_core()}
        raise AssertionError([text for number, text in enumerate(claims) if f"claim {number}" in core])
