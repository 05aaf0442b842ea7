"""Runs the `test` blocks of policies: follows their steps, checks their expectations, and returns failures and coverage."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import WharfingerError
from wharfinger.explain import conditions
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.groups.terms import Placed
from wharfinger.language import ast, test_steps
from wharfinger.language.report import wording
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics import typed
from wharfinger.language.test_steps import ABOUT_PODS, Expectation, GroupState
from wharfinger.policies.coverage import Coverage, Covered
from wharfinger.policies.scenario import Attempt, GroupAttempt, Scenario, literal

_COMPARE: Mapping[ast.BinaryOp, Callable[[Any, Any], bool]] = {
    ast.BinaryOp.EQ: operator.eq,
    ast.BinaryOp.NE: operator.ne,
    ast.BinaryOp.LT: operator.lt,
    ast.BinaryOp.LE: operator.le,
    ast.BinaryOp.GT: operator.gt,
    ast.BinaryOp.GE: operator.ge,
}
_TOLERANCE = 1e-9  # points are sums and quotients of floats; an author writes 33.3 for 33.333…


class Failure(Struct, frozen=True, kw_only=True):
    """One expectation that does not hold: where, one sentence, and lines that show why."""

    at: Span
    sentence: str
    details: tuple[str, ...] = ()


class Result(Struct, frozen=True, kw_only=True):
    """One test and what failed in it."""

    policy: str
    title: str
    at: Span
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> bool:
        """True if nothing failed."""
        return not self.failures


class Report(Struct, frozen=True, kw_only=True):
    """All tests of all policies, in the order of the files."""

    results: tuple[Result, ...]
    coverage: tuple[Covered, ...]
    untested: tuple[str, ...]

    @property
    def failed(self) -> int:
        """The number of failed tests."""
        return sum(not result.passed for result in self.results)


def check(scenario: Scenario, step: test_steps.Expect) -> Failure | None:
    """The failure of an expectation; None if it holds."""
    attempt = _attempt(scenario, step)
    if attempt is None:
        return Failure(at=step.span, sentence="nothing has been placed that this could be about")
    return _CHECKS[step.expectation](scenario, attempt, step)


def _attempt(scenario: Scenario, step: test_steps.Expect) -> Attempt | None:
    """The placement that an `expect` is about: that of its subject pod, else of the pod before the colon, else the last one."""
    if step.expectation in ABOUT_PODS:
        return scenario.attempts.get(step.subject)
    pod = getattr(step, "pod", None)
    return scenario.attempts.get(pod) if pod is not None else scenario.last


def _on(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    wanted = [name for name, _ in step.nodes]
    if attempt.decision.node in wanted:
        return None
    details = [line for name in wanted for line in _why_not(scenario, attempt, name)]
    return Failure(at=step.span, sentence=f"{_actual_outcome(attempt.decision)}, not on {' or '.join(wanted)}", details=tuple(details))


def _on_device(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    del scenario
    wanted = sorted(step.devices)
    if sorted(attempt.devices) == wanted:
        return None
    if attempt.decision.node is None:
        return Failure(at=step.span, sentence=f"{_actual_outcome(attempt.decision)}, without {' and '.join(wanted)}")
    has = " and ".join(attempt.devices) or "no device"
    return Failure(at=step.span, sentence=f"{_actual_outcome(attempt.decision)} and has {has}, not {' and '.join(wanted)}")


def _not_on(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    del scenario
    if attempt.decision.node not in [name for name, _ in step.nodes]:
        return None
    sentence = f"{_actual_outcome(attempt.decision)}, expected it not to be"
    return Failure(at=step.span, sentence=sentence, details=tuple(_score_lines(attempt.decision, [])))


def _pending(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    decision = attempt.decision
    if decision.node is not None:
        sentence = f"{_actual_outcome(decision)}, expected it to be pending"
        return Failure(at=step.span, sentence=sentence, details=tuple(_score_lines(decision, [])))
    rejections = (each for name in attempt.snapshot.names for each in _rejections(scenario, attempt, name))
    return _message_missing(step, itertools.chain([decision.message], (each.sentence for each in rejections)))


def _rejected(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    found = _rejections(scenario, attempt, step.subject)
    rule = None if step.rule is None else f"{scenario.policy.name}/{step.rule}"
    by_rule = [each.sentence for each in found if rule is None or each.rule in (rule, step.rule)]
    if by_rule:
        return _message_missing(step, by_rule)
    by = "" if step.rule is None else f" by {step.rule}"
    others = _quoted(found)
    conditions = [clause.condition for each in scenario.policy.policy.filters if each.name == step.rule for clause in each.clauses]
    return Failure(
        at=step.span,
        sentence=f"{step.subject} was not rejected{by}" + (f", but by {'; '.join(others)}" if others else ": every filter let it pass"),
        details=_operand_lines(scenario, attempt, conditions, step.subject),
    )


def _accepted(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    found = _rejections(scenario, attempt, step.subject)
    if not found:
        return None
    details = [line for each in found[:MAX_TEXTS_QUOTED] for line in each.operands(scenario, attempt, step.subject)]
    sentence = f"{step.subject} was rejected: {'; '.join(_quoted(found))}"
    return Failure(at=step.span, sentence=sentence, details=tuple(details))


def _evicted(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    """The failure of an expectation that a pod was evicted, or was not; None if it holds."""
    del scenario
    wanted = step.expectation is Expectation.EVICTED
    if (step.subject in attempt.evicted) == wanted:
        return None
    others = f"but {', '.join(attempt.evicted)}" if attempt.evicted else "nor was any other pod"
    sentence = f"{step.subject} was not evicted, {others}" if wanted else f"{step.subject} was evicted, expected it to stay"
    return Failure(at=step.span, sentence=f"{sentence}; {_actual_outcome(attempt.decision)}")


def _held(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    """The failure of an expectation that a placed pod waits for a permit, or does not; None if it holds."""
    if attempt.decision.node is None:
        return Failure(at=step.span, sentence=f"{_actual_outcome(attempt.decision)}, so no permit is asked")
    waits = scenario.held(step.subject)
    if step.expectation is Expectation.NOT_HELD:
        messages = "; ".join(f"{permit}: {message}" for permit, message in waits)
        return Failure(at=step.span, sentence=f"{step.subject} is held by {messages}") if waits else None
    if not waits:
        return Failure(at=step.span, sentence=f"{step.subject} is not held: every permit lets it be bound")
    return _message_missing(step, [message for _, message in waits])


def check_group(scenario: Scenario, step: test_steps.ExpectGroup) -> Failure | None:
    """The failure of an expectation about a group; None if it holds."""
    tried = scenario.groups.get(step.group)
    if tried is None:
        return Failure(at=step.span, sentence=f"the group {step.group} has not been placed")
    nodes = {name: attempt.decision.node for name, attempt in tried.attempts.items() if attempt.decision.node is not None}
    where = ", ".join(f"{name} on {node}" for name, node in nodes.items())
    if step.outcome is GroupState.PENDING:
        if isinstance(tried.answer, Placed):
            return Failure(
                at=step.span, sentence=f"{step.group} is placed ({where or 'nothing was left to place'}), expected it to be pending"
            )
        messages = [tried.answer.message, *(f"{fit.key} {fit.value}: {text}" for fit in tried.answer.nearest for text in fit.reasons)]
        return _message_missing(step, messages)
    if not isinstance(tried.answer, Placed):
        return Failure(at=step.span, sentence=f"{step.group} is pending: {tried.answer.message}")
    return None if step.key is None else _not_together(tried, step.key.value, step)


def _not_together(tried: GroupAttempt, key: str, step: test_steps.ExpectGroup) -> Failure | None:
    """The failure of an expectation that members are together, the members that were placed before included."""
    found: dict[str, list[str]] = {}
    snapshot = next((attempt.snapshot for attempt in tried.attempts.values()), None)
    places = {pod.name: pod.node_name for pod in tried.group.placed}
    places |= {name: attempt.decision.node for name, attempt in tried.attempts.items() if attempt.decision.node is not None}
    for name, node in places.items():
        row = None if snapshot is None else snapshot.row(node)
        value = None if snapshot is None or row is None else snapshot.node(row).labels.get(key)
        found.setdefault(value if value is not None else f"no {key}", []).append(f"{name} on {node}")
    if len(found) == 1 and f"no {key}" not in found:
        return None
    lines = tuple(f"{value}: {', '.join(members)}" for value, members in sorted(found.items()))
    return Failure(at=step.span, sentence=f"{step.group} is not together in {key}", details=lines)


def _score(scenario: Scenario, attempt: Attempt, step: test_steps.Expect) -> Failure | None:
    assert step.op is not None and step.points is not None  # noqa: S101, PT018 — the grammar gives a `scores` both
    wanted = literal(step.points)
    name = f"{scenario.policy.name}/{step.rule}"
    parts = {part.name: part for part in attempt.decision.scores_at(step.subject)}
    if name not in parts:
        why = next(iter(_rejections(scenario, attempt, step.subject)), None)
        reason = f"it was rejected by {why.rule}" if why is not None else "the rule does not apply or has weight 0"
        return Failure(at=step.span, sentence=f"{step.subject} has no points of {step.rule}: {reason}")
    points = parts[name].points
    rounded = wanted if abs(points - wanted) <= _TOLERANCE * max(1.0, abs(wanted)) else points
    if _COMPARE[step.op](rounded, wanted):
        return None
    values = [score.value for score in scenario.policy.policy.scores if score.name == step.rule]
    return Failure(
        at=step.span,
        sentence=f"{step.subject} has {wording.number(points)} points of {step.rule}, expected {step.op.value} {wording.number(wanted)}",
        details=_operand_lines(scenario, attempt, values, step.subject),
    )


MAX_TEXTS_QUOTED = 20
"""Messages that a failure shows where another one was expected."""


def _message_missing(step: test_steps.Expect | test_steps.ExpectGroup, messages: Iterable[str]) -> Failure | None:
    """The failure of an expected message that no text in `said` contains; reads no more of them than necessary."""
    if step.message is None:
        return None
    shown: list[str] = []
    for text in messages:
        if step.message.value in text:
            return None
        if len(shown) < MAX_TEXTS_QUOTED:
            shown.append(f"said: {text}")
    return Failure(at=step.message.span, sentence=f"no message contains {step.message.value!r}", details=tuple(shown))


def _actual_outcome(decision: Decision) -> str:
    return (
        f"{decision.pod.name} is on {decision.node}" if decision.node is not None else f"{decision.pod.name} is pending: {decision.message}"
    )


def _why_not(scenario: Scenario, attempt: Attempt, name: str) -> list[str]:
    found = _rejections(scenario, attempt, name)
    if not found:
        return _score_lines(attempt.decision, [name])
    return [
        line
        for each in found[:MAX_TEXTS_QUOTED]
        for line in (f"{name} was rejected by {each.rule}: {each.sentence}", *each.operands(scenario, attempt, name))
    ]


class _Rejection(Struct, frozen=True, kw_only=True):
    """The reason of a rule that rejects a node: the sentence, and the condition of the clause if the rule is the policy's own."""

    rule: str
    sentence: str
    condition: typed.Expr | None = None

    def operands(self, scenario: Scenario, attempt: Attempt, node: str) -> tuple[str, ...]:
        """The lines that show the values in the condition."""
        return () if self.condition is None else _operand_lines(scenario, attempt, [self.condition], node)


def _quoted(found: Sequence[_Rejection]) -> list[str]:
    """Rejections in words; of many the first ones, and how many there are more."""
    more = [f"and {len(found) - MAX_TEXTS_QUOTED:,} more"] if len(found) > MAX_TEXTS_QUOTED else []
    return [*(f"{each.rule}: {each.sentence}" for each in found[:MAX_TEXTS_QUOTED]), *more]


def _rejections(scenario: Scenario, attempt: Attempt, name: str) -> list[_Rejection]:
    """Every rejection of a node."""
    return attempt.once(("rejections", name), lambda: list(_new_rejections(scenario, attempt, name)))


def _new_rejections(scenario: Scenario, attempt: Attempt, name: str) -> Iterator[_Rejection]:
    row = attempt.snapshot.row(name)
    if row is None:
        return
    filters = {f"{scenario.policy.name}/{rule.name}": rule for rule in scenario.policy.policy.filters}
    for rejection in attempt.decision.diagnosis.at(row):
        rule = filters.get(rejection.plugin)
        if rule is None:
            yield from (_Rejection(rule=rejection.plugin, sentence=reason.text) for reason in rejection.reasons)
            continue
        for clause, answer in attempt.interpreter.filter(rule, row):
            if not conditions.passes(clause, answer):
                sentence = attempt.interpreter.message(clause, row)
                yield _Rejection(rule=rejection.plugin, sentence=sentence, condition=clause.condition)


def _operand_lines(scenario: Scenario, attempt: Attempt, expressions: Iterable[typed.Expr], name: str) -> tuple[str, ...]:
    """The lines that show the values of expressions at a node."""
    row = attempt.snapshot.row(name)
    if row is None:
        return ()
    return tuple(line for expression in expressions for line in _operands(scenario, attempt, expression, row))


def _operands(scenario: Scenario, attempt: Attempt, expression: typed.Expr, row: int) -> list[str]:
    """The lines that show the values of an expression of the policy in a row."""
    policy = scenario.policy.policy
    return attempt.once(("operands", id(expression), row), lambda: conditions.operands(attempt.interpreter, policy, expression, row))


def _score_lines(decision: Decision, others: Sequence[str]) -> list[str]:
    """The scores of the chosen node and of others side by side."""
    names = [name for name in (decision.node, *others) if name is not None]
    by_node = {name: decision.scores_at(name) for name in names}
    rows: list[Sequence[str]] = [("score", *names)]
    for index, part in enumerate(by_node[names[0]] if names else ()):
        rows.append((part.name, *(wording.number(by_node[name][index].weighted) for name in names)))
    rows.append(("total", *(wording.number(sum(part.weighted for part in by_node[name])) for name in names)))
    return wording.columns(rows, right=frozenset(range(1, len(rows[0])))).splitlines()


_CHECKS: Mapping[Expectation, Callable[[Scenario, Attempt, test_steps.Expect], Failure | None]] = {
    Expectation.ON: _on,
    Expectation.ON_DEVICE: _on_device,
    Expectation.NOT_ON: _not_on,
    Expectation.PENDING: _pending,
    Expectation.REJECTED: _rejected,
    Expectation.ACCEPTED: _accepted,
    Expectation.SCORE: _score,
    Expectation.EVICTED: _evicted,
    Expectation.NOT_EVICTED: _evicted,
    Expectation.HELD: _held,
    Expectation.NOT_HELD: _held,
}


Observe = Callable[[ast.Test, Scenario, Attempt], None]
"""Called after each `place` of a test."""


def run(policies: Sequence[typed.Policy], once: CompileCache | None = None, observe: Observe | None = None) -> Report:
    """The results of every test of every policy, and their coverage; `once` shares compiled policies with other callers."""
    results: list[Result] = []
    coverages = [Coverage(policy) for policy in policies]
    for policy, coverage in zip(policies, coverages, strict=True):
        compiled = once or CompileCache()
        results += [_run(policy, test, coverage, compiled, observe) for test in policy.tests]
    return Report(
        results=tuple(results),
        coverage=tuple(point for coverage in coverages for point in coverage.points()),
        untested=tuple(policy.name for policy in policies if not policy.tests),
    )


class CompileCache:
    """Compiles a policy, and makes its chain, once for all callers that give its params the same values."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[tuple[str, Any], ...]], CompiledPolicy] = {}
        self._chains: dict[CompiledPolicy, Chain] = {}

    def __call__(self, policy: typed.Policy, given: Mapping[str, Any]) -> CompiledPolicy:
        """The policy with these values of its params; raises UsageError for wrong ones."""
        key = (
            id(policy),
            tuple((name, repr(value)) for name, value in sorted(given.items())),
        )  # a compiled policy keeps its typed policy alive
        if key not in self._known:
            self._known[key] = compile_policy(policy, given)
        return self._known[key]

    def chain_of(self, policy: CompiledPolicy) -> Chain:
        """The chain of all plugins and this policy; one for all tests, because to make it takes as long as to decide about a pod."""
        if policy not in self._chains:
            self._chains[policy] = assemble([policy])
        return self._chains[policy]


def _run(policy: typed.Policy, test: ast.Test, coverage: Coverage, compiled: CompileCache, observe: Observe | None) -> Result:
    try:
        failures = _failures(Scenario(policy, test, compiled, compiled.chain_of), test, coverage, observe)
    except WharfingerError as error:
        failures = [Failure(at=test.span, sentence=f"the test cannot run: {error}")]
    return Result(policy=policy.name, title=test.title.value, at=test.span, failures=tuple(failures))


def _failures(scenario: Scenario, test: ast.Test, coverage: Coverage, observe: Observe | None) -> list[Failure]:
    failures: list[Failure] = []
    placed = expected = False
    for step in test.steps:
        scenario.follow(step)
        if isinstance(step, test_steps.Place | test_steps.PlaceGroup):
            placed = True
            for attempt in _placed(scenario, step):
                coverage.record(attempt)
                if observe is not None:
                    observe(test, scenario, attempt)
                if not attempt.governed:
                    failures.append(_not_governed(scenario, attempt, step.span))
            coverage.record_permits(scenario)
        elif isinstance(step, test_steps.ExpectGroup):
            expected = True
            failure = check_group(scenario, step)
            failures += [] if failure is None else [failure]
        elif isinstance(step, test_steps.Expect):
            expected = True
            failure = check(scenario, step)
            failures += [] if failure is None else [failure]
    if not placed or not expected:
        failures.append(Failure(at=test.span, sentence="the test places or expects nothing"))
    return failures


def _placed(scenario: Scenario, step: test_steps.Place | test_steps.PlaceGroup) -> Iterable[Attempt]:
    """The attempts of a `place`: one, or one for each member of the group."""
    if isinstance(step, test_steps.PlaceGroup):
        return scenario.groups[step.group].attempts.values()
    return [] if scenario.last is None else [scenario.last]


def _not_governed(scenario: Scenario, attempt: Attempt, at: Span) -> Failure:
    """The failure of a pod that the policy is not for, with the values of the condition behind `for`."""
    policy, sentence = scenario.policy.policy, f"the policy does not govern {attempt.decision.pod.name}"
    if policy.scope is None:
        return Failure(at=at, sentence=f"{sentence}: it is for all pods")
    lines = conditions.operands(attempt.interpreter, policy, policy.scope, 0)
    return Failure(at=at, sentence=sentence, details=tuple(lines) or (f"for pods where {policy.scope.span.text}",))
