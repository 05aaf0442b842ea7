"""Types, intervals and presence found by the checker hold in the interpreter, on random policies and clusters.

The checker computes which values are never missing, which numbers are possible and which conditions are always true. All later stages rely
on that.
"""

from __future__ import annotations

import math

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.load_source import load_source
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.language.check.constant_conditions import ConditionTruth
from wharfinger.language.check.context import WorkBudget
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.intervals import Intervals
from wharfinger.language.semantics.typed import walk
from wharfinger.language.semantics.types import NUMERIC, Kind
from wharfinger.model.objects.pod_view import PodView

from . import clusters, policy_expressions

NOW = 1_010.0
PARAMS = {"limit": 3.0, "keep": 0.1}
slow = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
)


@st.composite
def interpreters(draw: st.DrawFn, policy: typed.Policy) -> Interpreter:
    """An interpreter of the policy for a pod on a cluster of a few nodes."""
    state, names = clusters.drawn_state(draw, max_nodes=3, max_pods=4)
    samples = st.tuples(st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([1_000.0, 1_009.0]))
    state.set_metric("load", draw(st.dictionaries(st.sampled_from(names), samples)))
    pod = PodView(draw(clusters.pods(st.just("incoming"))))
    return Interpreter(policy, PARAMS, pod, state.snapshot(now=NOW))


def checked(text: str) -> tuple[typed.Policy | None, Diagnostics]:
    diagnostics = Diagnostics()
    return load_source(Source(name="random.policy", text=text), CATALOGUE, diagnostics), diagnostics


def mended(text: str) -> typed.Policy:
    """The policy of a text, with `on missing` added to the lines that need it and to no others."""
    policy, diagnostics = checked(text)
    if policy is None:
        assert {d.code.name for d in diagnostics if d.severity.value == "error"} <= {"P401", "P402"}, text
        lines = text.splitlines()
        for line in {d.span.line for d in diagnostics if d.code.name in ("P401", "P402")}:
            lines[line - 1] += " on missing skip" if lines[line - 1].startswith("score") else " on missing reject"
        policy, _ = checked("\n".join(lines))
    assert policy is not None, text
    return policy


def sub_expressions(policy: typed.Policy) -> list[typed.Expr]:
    """Everything in the policy that has one value per node, outside of selections."""
    roots = [let.value for let in policy.lets] + [clause.condition for rule in policy.filters for clause in rule.clauses]
    roots += [score.value for score in policy.scores]
    inside = {id(part) for root in roots for e in walk(root) if isinstance(e, typed.Select | typed.Aggregate) for part in list(walk(e))[1:]}
    plain = NUMERIC | {Kind.BOOL, Kind.STRING}
    return [e for root in roots for e in walk(root) if id(e) not in inside and e.type.kind in plain]


@slow
@given(st.data())
def test_values_are_as_their_types_say(data: st.DataObject) -> None:
    policy = mended(data.draw(policy_expressions.policies()))
    interpreter = data.draw(interpreters(policy))
    intervals = Intervals(params={p.name: (p.low, p.high) for p in policy.params})
    for let in policy.lets:
        intervals.lets[let.name] = intervals.of(let.value)
    truths = ConditionTruth({let.name: let for let in policy.lets}, intervals, WorkBudget())
    for expr in sub_expressions(policy):
        value = interpreter.value(expr, 0)
        assert value is not None or expr.type.optional, describe(expr)
        if value is not None and expr.type.kind in NUMERIC and math.isfinite(value):
            low, high = intervals.of(expr)
            slack = 1e-9 * abs(value)
            assert low - slack <= value <= high + slack, (describe(expr), value, low, high)
        if value is not None and expr.type.kind is Kind.BOOL:
            assert value in truths.of(expr), describe(expr)


@slow
@given(st.data())
def test_values_without_a_required_missing_rule_are_never_missing(data: st.DataObject) -> None:
    policy = mended(data.draw(policy_expressions.policies()))
    interpreter = data.draw(interpreters(policy))
    for row in range(interpreter.snapshot.n_nodes):
        for rule in policy.filters:
            for clause, answer in interpreter.filter(rule, row):
                assert answer is not None or clause.missing_passes is not None, describe(clause.condition)
                if not answer:
                    break  # what comes next is only promised to nodes that got this far
        for score in policy.scores:
            assert score.on_missing is not None or interpreter.score(score, row) is not None, describe(score.value)


@slow
@given(st.sampled_from(sorted(policy_expressions.LEAVES)).flatmap(lambda kind: policy_expressions.expressions(kind, 3)))
def test_a_description_means_the_expression(text: str) -> None:
    header = f'policy "random"\n{policy_expressions.DECLARATIONS}'
    first = mended(f"{header}let value = {text}\n")
    described = describe(first.lets[-1].value)
    assume("(…)" not in described)  # the result of a call too long to be named after it
    again = mended(f"{header}let value = {described}\n")
    assert again.lets[-1].value == first.lets[-1].value
