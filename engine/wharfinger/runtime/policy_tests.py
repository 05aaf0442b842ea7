"""Running the `test` blocks of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import WharfingerError
from wharfinger.language import ast, test_steps, typed
from wharfinger.runtime import expectations
from wharfinger.runtime.coverage import Coverage
from wharfinger.runtime.scenario import Scenario
from wharfinger.runtime.test_report import Failure, Report, Result


def run(policies: Sequence[typed.Policy], once: Once | None = None) -> Report:
    """The results of every test of every policy, and what they covered; `once` shares what is compiled with whoever else needs it."""
    results: list[Result] = []
    coverages = [Coverage(policy) for policy in policies]
    for policy, coverage in zip(policies, coverages, strict=True):
        compiled = once or Once()
        results += [_run(policy, test, coverage, compiled) for test in policy.tests]
    return Report(
        results=tuple(results),
        coverage=tuple(point for coverage in coverages for point in coverage.points()),
        untested=tuple(policy.name for policy in policies if not policy.tests),
    )


class Once:
    """Compiles a policy once for all who give its params the same values."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[tuple[str, Any], ...]], CompiledPolicy] = {}

    def __call__(self, policy: typed.Policy, given: Mapping[str, Any]) -> CompiledPolicy:
        """The policy with these values of its params; raises UsageError for wrong ones."""
        key = id(policy), tuple((name, repr(value)) for name, value in sorted(given.items()))  # what is known keeps its policy alive
        if key not in self._known:
            self._known[key] = compile_policy(policy, given)
        return self._known[key]


def _run(policy: typed.Policy, test: ast.Test, coverage: Coverage, compiled: Once) -> Result:
    try:
        failures = _failures(Scenario(policy, test, compiled), test, coverage)
    except WharfingerError as error:
        failures = [Failure(at=test.span, sentence=f"the test cannot run: {error}")]
    return Result(policy=policy.name, title=test.title.value, at=test.span, failures=tuple(failures))


def _failures(world: Scenario, test: ast.Test, coverage: Coverage) -> list[Failure]:
    failures: list[Failure] = []
    placed = expected = False
    for step in test.steps:
        world.follow(step)
        if isinstance(step, test_steps.Place) and world.last is not None:
            placed = True
            coverage.record(world.last)
            if not world.last.governed:
                failures.append(Failure(at=step.span, sentence=f"the policy does not govern {step.pod}: {_scope(world)}"))
        elif isinstance(step, test_steps.Expect):
            expected = True
            failure = expectations.check(world, step)
            failures += [] if failure is None else [failure]
    if not placed or not expected:
        failures.append(Failure(at=test.span, sentence="the test places or expects nothing"))
    return failures


def _scope(world: Scenario) -> str:
    scope = world.policy.policy.scope
    return "it is for all pods" if scope is None else f"for pods where {scope.span.text}"
