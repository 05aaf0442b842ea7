"""One question to z3: can a statement be false? First in general, for the proof, then in examples that can be written as a test.

The answer: the statement is proved, refuted by a test block, or beyond what is modelled.

z3 is given a budget in units of its own work, and a fixed seed, so that the same question gets the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import z3
from msgspec import Struct

from wharfinger.errors import printable
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import NUMERIC
from wharfinger.prove.editable_policy import EditablePolicy, Trial, formatted
from wharfinger.prove.encoded_calls import MODELLED
from wharfinger.prove.encoder import EncodedExpression, Encoder, Shared, Unmodelled, shown
from wharfinger.prove.encoding import ExpressionEncoder
from wharfinger.prove.example import Example
from wharfinger.prove.logic import Condition, as_bool, real
from wharfinger.prove.world import World

PROOF = 600_000
SEARCH = 600_000
"""The work that z3 may do for the proof of a statement, and for examples; in its own units, together about a second."""
MAX_TOGETHER = 30_000_000
"""The work for all statements of one examination together, in the same units: about half a minute to a minute."""
ENCODED = 300
"""The work of giving the terms of a proof and of examples to an expression, in the same units."""
MAX_TRIES = 6  # examples of one setting
MAX_TRIED = 100_000
"""Characters of policies that are checked with an example as a test in them, for one statement; one example is tried in any case."""
MAX_PREFERENCES = 24
GIBI = 1 << 30
SETTINGS: tuple[Mapping[str, int], ...] = (
    {"allocatable.cpu": 8000, "allocatable.memory": 32 * GIBI, "capacity.cpu": 8000, "capacity.memory": 32 * GIBI},
    {},
)
"""The amounts of nodes of examples: with known amounts most quotients are linear."""


class Verdict(Enum):
    """The verdict about a statement."""

    PROVED = "proved"
    REFUTED = "counterexample"
    UNKNOWN = "unknown"


class Answer(Struct, frozen=True, kw_only=True):
    """The verdict about one statement.

    `counterexample` is a `test` block in the language, formatted; it fails as a test of `fails_with`, the name of a policy's file.
    `because` describes for an unknown verdict what is not modelled, and its position.
    """

    statement: str
    verdict: Verdict
    counterexample: str | None = None
    fails_with: str | None = None
    because: str | None = None

    def __str__(self) -> str:
        if self.verdict is Verdict.PROVED:
            otherwise = f"\n# expects otherwise, and fails with {printable(self.fails_with or '')}\n{self.counterexample}"
            return f"proved: {self.statement}\n" + (otherwise if self.counterexample is not None else "")
        if self.verdict is Verdict.UNKNOWN:
            return f"beyond what is modelled: {self.statement}\n  {self.because}\n"
        return f"not so: {self.statement}\n\n# fails with {printable(self.fails_with or '')}\n{self.counterexample}"


class Side(Struct, frozen=True, kw_only=True):
    """A policy of a statement: as it was compiled, and with the conditions of the statement typed together with it."""

    text: EditablePolicy
    policy: typed.Policy


class Statement(Struct, frozen=True, kw_only=True):
    """A statement about policies.

    `violations` are the conditions under which it is false; each is solved separately. `shown` writes the expectations that a test of an
    example could have, and `confirmed` says with which policy's file a test fails for the expected reason, or None.
    """

    text: str
    sides: tuple[Side, ...]
    n_nodes: int
    violations: Callable[[Sequence[Encoder]], Sequence[Condition]]
    shown: Callable[[Example, Sequence[Encoder]], Sequence[Sequence[str]]]
    confirmed: Callable[[Mapping[int, Trial], Example], str | None]
    not_refutable: Callable[[Mapping[int, Trial], Example], bool] = lambda _trials, _example: False
    """For an example that no expectation can confirm."""
    examples: Callable[[Sequence[Encoder]], Sequence[Condition]] | None = None
    """The violations that examples are looked for of, in order; None for those of the proof."""
    together: bool = False
    """The sides are policies that are enforced together, and no versions of one: a test names the metrics of its own policy only."""
    blocked: Callable[[Sequence[Encoder]], str | None] = lambda _encoders: None
    """A text about why the statement cannot be proved although no violation is possible."""


class SolverBudget:
    """The part of the budget for z3 that is left."""

    def __init__(self, budget: int) -> None:
        self.left = budget
        self.tried = 0  # characters of MAX_TRIED

    def solver(self) -> Any:
        """A solver with a fixed seed."""
        found = z3.Solver()
        found.set("random_seed", 0)
        return found

    def check(self, solver: Any) -> Any:
        """The answer of a solver: sat, unsat, or unknown where the budget is used up."""
        if self.left <= 0:
            return z3.unknown
        solver.set("rlimit", self.left)
        before = _work(solver)
        answer = solver.check()
        self.left -= _work(solver) - before
        return answer

    def impossible(self, world: World, facts: list[Condition]) -> bool:
        """True if facts cannot hold together in a world as it is known so far."""
        solver = self.solver()
        solver.add(*world.facts, *map(as_bool, facts))
        return bool(self.check(solver) == z3.unsat)


class CommonBudget:
    """The budget of several statements together; `left_out` is what was not examined, because nothing of it was left."""

    def __init__(self, budget: int) -> None:
        self._left = budget
        self.left_out: list[str] = []

    def examined(self, about: str, n_expressions: int, question: Callable[[], Answer]) -> Answer | None:
        """The answer to a question about that many expressions; None, with `about` left out, if nothing of the budget is left."""
        if self._left <= 0:
            self.left_out.append(about)
            return None
        before = _work(z3.Solver())
        answer = question()
        self._left -= _work(z3.Solver()) - before + ENCODED * n_expressions
        return answer


def _work(solver: Any) -> int:
    """The work that z3 has done in this process."""
    found = solver.statistics()
    return int(found.get_key_value("rlimit count")) if "rlimit count" in found.keys() else 0  # noqa: SIM118 — no mapping


def _encoders(statement: Statement, world: World, budget: SolverBudget) -> list[Encoder]:
    shared = Shared(world, impossible=budget.impossible)
    return [ExpressionEncoder(shared, side.text.compiled, side.policy) for side in statement.sides]


def answer(statement: Statement) -> Answer:
    """The verdict about a statement."""
    try:
        return _answer(statement)
    except Unmodelled as unmodelled:
        return _unknown(statement, unmodelled.because)


def _unknown(statement: Statement, because: str) -> Answer:
    return Answer(statement=statement.text, verdict=Verdict.UNKNOWN, because=because)


def _answer(statement: Statement) -> Answer:
    world, budget = World(statement.n_nodes), SolverBudget(PROOF)
    encoders = _encoders(statement, world, budget)
    violations = [as_bool(each) for each in statement.violations(encoders)]
    world.close()
    if all(budget.impossible(world, [violation]) for violation in violations):
        because = statement.blocked(encoders)
        return _unknown(statement, because) if because else Answer(statement=statement.text, verdict=Verdict.PROVED)
    doubt: EncodedExpression | None = None
    search = SolverBudget(SEARCH)
    for setting in SETTINGS:
        found, differing = _refuted(statement, setting, search)
        if found is not None:
            return found
        doubt = differing or doubt
    return _unknown(statement, _because(encoders, doubt))


def _because(encoders: Sequence[Encoder], doubt: EncodedExpression | None) -> str:
    if doubt is not None:
        return f"`{shown(doubt.expr)}` ({doubt.expr.span})"
    opaque = next((asked.expr for asked in encoders[0].shared.encoded if _is_opaque(asked.expr)), None)
    if opaque is not None:
        return f"`{shown(opaque)}` ({opaque.span})"
    victim = next((rule for encoder in encoders for rule in encoder.policy.victims), None)
    if victim is not None:
        return f"`preemption` ({victim.span}), of which no example can be written"
    return "no example of it can be written as a test, and no proof was found within the budget"


def _is_opaque(expr: typed.Expr) -> bool:
    """True for an expression without an exact model."""
    return isinstance(expr, (typed.Aggregate, typed.MetricRef)) or (isinstance(expr, typed.Call) and expr.function.name not in MODELLED)


def _refuted(statement: Statement, setting: Mapping[str, int], budget: SolverBudget) -> tuple[Answer | None, EncodedExpression | None]:
    """A confirmed counterexample, or None and the expression that made examples wrong."""
    world = World(statement.n_nodes, example=True, fixed=[dict(setting)] * statement.n_nodes)
    encoders = _encoders(statement, world, budget)
    violations = [as_bool(each) for each in (statement.examples or statement.violations)(encoders)]
    world.close()
    doubt: EncodedExpression | None = None
    for violation in violations:
        solver = budget.solver()
        solver.add(*world.facts, violation)
        for _ in range(MAX_TRIES):
            if budget.tried > MAX_TRIED or budget.check(solver) != z3.sat:
                break
            example = Example(world, _simplest(solver, world, budget), encoders)
            found, trials = _tried(statement, example, encoders, budget)
            if found is not None:
                return found, None
            differing = _differing(encoders, example, trials)
            if differing is None:
                break
            doubt, pinned = differing
            solver.add(pinned)
    return None, doubt


def _simplest(solver: Any, world: World, budget: SolverBudget) -> Any:
    """A model with few pods and few optional values; the question is unchanged."""
    model = solver.model()
    solver.push()
    preferences = [slot.number == 0 for slot in world.slots]
    preferences += [z3.Not(as_bool(value.present)) for _, value in world.plain.values() if value.present is not True]
    for (owner, _), (attribute, keys) in world.keyed.items():
        values = [world.attribute(owner, attribute, key) for key in keys]
        preferences += [z3.Not(as_bool(value.present)) for value in values if value.present is not True]
    preferences += [slot.number <= 1 for slot in world.slots]
    for preference in preferences[:MAX_PREFERENCES]:
        if z3.is_true(model.eval(preference, model_completion=True)):
            solver.add(preference)
            continue
        solver.push()
        solver.add(preference)
        if budget.check(solver) == z3.sat:
            model = solver.model()
        else:
            solver.pop()
    while solver.num_scopes():
        solver.pop()
    return model


def _tried(
    statement: Statement, example: Example, encoders: Sequence[Encoder], budget: SolverBudget
) -> tuple[Answer | None, Mapping[int, Trial]]:
    trials: dict[int, Trial] = {}
    for expectations in statement.shown(example, encoders):
        if budget.tried > MAX_TRIED:
            break
        budget.tried += sum(len(side.policy.source.text) for side in statement.sides)
        trials = {}
        texts = {}
        for number, side in enumerate(statement.sides):
            policies = [encoders[number]] if statement.together else encoders
            texts[number] = example.written(side.text.settings(), statement.text, expectations, policies)
            trial = side.text.tried(texts[number])
            if trial is not None:
                trials[number] = trial
        if len(trials) < len(statement.sides):
            continue
        if statement.not_refutable(trials, example):
            break
        name = statement.confirmed(trials, example)
        if name is not None:
            number = next(n for n, side in enumerate(statement.sides) if side.policy.source.name == name and not trials[n].passed)
            return Answer(
                statement=statement.text, verdict=Verdict.REFUTED, counterexample=formatted(texts[number]), fails_with=name
            ), trials
    return None, trials


def _differing(encoders: Sequence[Encoder], example: Example, trials: Mapping[int, Trial]) -> tuple[EncodedExpression, Any] | None:
    """An expression that has another value than in the example, and that the next example gives it its true value."""
    if not encoders or not trials:
        return None
    for asked in encoders[0].shared.encoded:
        number = next((n for n, encoder in enumerate(encoders) if encoder.compiled is asked.policy and n in trials), None)
        if number is None or asked.expr.type.kind not in NUMERIC or not z3.is_expr(asked.value.term):
            continue
        attempt = trials[number].attempt
        row = attempt.snapshot.row(example.nodes[asked.place.node])
        if row is None:
            continue
        actual = _of_interpreter(trials[number], asked.expr, row)
        if actual is None or not example.holds(asked.value.present):
            continue
        if abs(actual - example.number(asked.value.term)) > 1e-9 * max(1.0, abs(actual)):
            return asked, z3.And(
                asked.value.term <= real(actual + abs(actual) * 1e-9), asked.value.term >= real(actual - abs(actual) * 1e-9)
            )
    return None


def _of_interpreter(trial: Trial, expr: typed.Expr, row: int) -> float | None:
    """The value of an expression in a trial; None where it is missing or no number."""
    try:
        value = trial.attempt.interpreter.value(expr, row)
    except (KeyError, TypeError):
        return None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
