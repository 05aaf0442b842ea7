"""A call of a declared function means what its body means with the arguments written out; kernels and interpreter agree on both."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property import policy_expressions
from tests.property.test_check_sound import PARAMS, interpreters, mended, slow
from tests.property.test_evaluators import differences
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import compile_policy
from wharfinger.language.semantics import typed

some = settings(slow, max_examples=60)
BODIES = (
    "{x}",
    "{x} + {x} * {y}",
    "if {x} > {y} then {x} ?? 1 else {y} - here",
    "({x} ?? limit) + inner({x} - {y})",
    "sum(pods where it.priority > 3, inner(it.priority), on: node) + inner({x}) * {y}",
    "worth[node.labels['disk']] ?? inner(inner({y}))",
    "count(chosen('app'), on: node) + {x}",
)
INNER = "let inner(z: number) = (z ?? 0) + max(z, 1) / 2\nlet worth = { 'a': 7, 'ssd': -3 }\n"
CHOSEN = "let chosen(key: string) = pods where it.labels[key] == pod.labels[key] and inner(it.priority) < 100\n"


@some
@given(st.data())
def test_a_call_is_its_body_with_the_arguments(data: st.DataObject) -> None:
    body = data.draw(st.sampled_from(BODIES))
    x, y = (data.draw(policy_expressions.expressions("count", data.draw(st.integers(0, 2)))) for _ in range(2))
    header = f'policy "random"\n{policy_expressions.DECLARATIONS}{INNER}{CHOSEN}'
    function = f"let f(x: number, y: number) = {body.format(x='x', y='y')}\n"
    called = mended(f"{header}{function}score s = f({x}, y: {y}) normalize minmax\nfilter f {{\n  require f({x}, {y}) > 2\n}}\n")
    written = mended(f"{header}score s = {body.format(x=f'({x})', y=f'({y})')} normalize minmax\n")
    interpreter = data.draw(interpreters(called))
    other = type(interpreter)(written, PARAMS, interpreter.pod, interpreter.snapshot)
    rows = range(interpreter.snapshot.n_nodes)
    found = [interpreter.score(called.scores[0], row) for row in rows]
    assert found == [other.score(written.scores[0], row) for row in rows]
    assert called.scores[0].value.type.optional == written.scores[0].value.type.optional
    agree(called, interpreter)


@some
@given(st.data())
def test_kernels_agree_on_texts(data: st.DataObject) -> None:
    policy = mended(data.draw(policy_expressions.policies()))
    agree(policy, data.draw(interpreters(policy)))


def agree(policy: typed.Policy, interpreter: Interpreter) -> None:
    """The compiled policy agrees with the interpreter."""
    compiled = compile_policy(policy, {param.name: PARAMS[param.name] for param in policy.params})
    bound = BoundPolicy(compiled, interpreter.pod, interpreter.snapshot)
    assert not list(differences(compiled, bound, interpreter.pod, interpreter.snapshot))
