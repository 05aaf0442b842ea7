"""`wharf test`: runs the test blocks of policies; results as text, for programs, and for pipelines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal
from xml.sax.saxutils import escape, quoteattr

import typer

from wharfinger.cli import chosen_policies, options, pipeline, streams
from wharfinger.cli.pipeline import Finding
from wharfinger.errors import printable
from wharfinger.language.report import wording
from wharfinger.language.report.diagnostics import PolicyError, Span
from wharfinger.language.semantics import typed
from wharfinger.policies import policy_tests
from wharfinger.policies.coverage import Covered, covered_fraction
from wharfinger.policies.policy_tests import Failure, Report, Result

GREEN, RED, RESET = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def text(report: Report, coverage: bool) -> str:
    """Results by policy with a mark each, failures with the values that led to them."""
    colored = streams.colors(sys.stdout)
    good, bad = (f"{GREEN}✓{RESET}", f"{RED}✗{RESET}") if colored else ("✓", "✗")
    lines: list[str] = []
    for policy, results in groupby(report.results, key=lambda result: result.policy):
        lines.append(printable(policy))
        for result in results:
            lines.append(f"  {good if result.passed else bad} {printable(result.title)}")
            lines += [f"      {line}" for failure in result.failures for line in _failure(failure)]
        lines.append("")
    return "\n".join([*lines, *_ending(report, coverage)]) + "\n"


def plain(report: Report, coverage: bool) -> str:
    """One line per test, then indented lines per failure; no marks, no colour."""
    lines: list[str] = []
    for result in report.results:
        lines.append(printable(f"{'pass' if result.passed else 'FAIL'}: {result.at}: {result.policy}: {result.title}"))
        lines += [f"    {line}" for failure in result.failures for line in _failure(failure)]
    return "\n".join([*lines, *_ending(report, coverage)]) + "\n"


def _failure(failure: Failure) -> Iterator[str]:
    """The lines about a failure. They repeat names and messages of the policy: each is made printable."""
    yield printable(f"{failure.at}: {failure.sentence}")
    yield from (f"  {printable(line)}" for line in failure.details)


def _ending(report: Report, coverage: bool) -> Iterator[str]:
    for policy in report.untested:
        yield f"{printable(policy)}: no tests"
    if coverage:
        yield from _coverage(report)
    passed = len(report.results) - report.failed
    summary = f"{wording.count(len(report.results), 'test')}: {passed} passed, {report.failed} failed"
    if not report.results:
        summary = "no tests found"
    yield summary + (f", coverage {_percent(report)}" if report.coverage else "")


def _coverage(report: Report) -> Iterator[str]:
    for policy, points in groupby(report.coverage, key=lambda point: point.policy):
        found = list(points)
        yield f"coverage of {printable(policy)}: {wording.percent(covered_fraction(found))}"
        for point in found:
            if point.unseen:
                yield f"  {point.at}: {point.rule} was never {' or '.join(truth.value for truth in point.unseen)}"
    yield ""


def _percent(report: Report) -> str:
    return wording.percent(covered_fraction(report.coverage))


def as_json(report: Report, coverage: bool) -> str:  # noqa: ARG001 — coverage is always part of the JSON
    """Everything, for programs."""
    value = {
        "passed": len(report.results) - report.failed,
        "failed": report.failed,
        "untested": list(report.untested),
        "tests": [_result(result) for result in report.results],
        "coverage": {"fraction": round(covered_fraction(report.coverage), 6), "points": [_point(point) for point in report.coverage]},
    }
    return streams.json_text(value)


def _result(result: Result) -> dict[str, Any]:
    return {
        "policy": result.policy,
        "title": result.title,
        "at": str(result.at),
        "passed": result.passed,
        "failures": [{"at": str(f.at), "message": f.sentence, "details": list(f.details)} for f in result.failures],
    }


def _point(point: Covered) -> dict[str, Any]:
    return {
        "policy": point.policy,
        "rule": point.rule,
        "at": str(point.at),
        "seen": [truth.value for truth in point.possible if truth in point.seen],
        "unseen": [truth.value for truth in point.unseen],
    }


def junit(report: Report, coverage: bool) -> str:  # noqa: ARG001 — JUnit has no place for coverage
    """JUnit's XML: a suite per policy, a case per test; a policy without tests is one failed case."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites tests="{len(report.results)}" failures="{report.failed}">']
    for policy, results in groupby(report.results, key=lambda result: result.policy):
        found = list(results)
        lines.append(
            f'  <testsuite name={quoteattr(printable(policy))} tests="{len(found)}" failures="{sum(not r.passed for r in found)}">'
        )
        lines += [_case(result) for result in found]
        lines.append("  </testsuite>")
    for policy in report.untested or (() if report.results else ("no policy",)):
        lines.append(f'  <testsuite name={quoteattr(printable(policy))} tests="1" failures="1"><testcase name="has tests">')
        lines.append('    <failure message="no tests found"/></testcase></testsuite>')
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _case(result: Result) -> str:
    place = f'file={quoteattr(printable(result.at.source.name))} line="{result.at.line}"'
    head = f"    <testcase name={quoteattr(printable(result.title))} classname={quoteattr(printable(result.policy))} {place}"
    if result.passed:
        return head + "/>"
    failures = "".join(
        f"\n      <failure message={quoteattr(printable(failure.sentence))}>{escape(chr(10).join(_failure(failure)))}</failure>"
        for failure in result.failures
    )
    return f"{head}>{failures}\n    </testcase>"


def _findings(report: Report, policies: Sequence[typed.Policy], wanted: float | None) -> Iterator[Finding]:
    """The findings for pipelines; `wanted` is the coverage, in percent, that the tests do not reach."""
    for result in report.results:
        for failure in result.failures:
            yield Finding(
                rule=pipeline.FAILED, message=f"{result.title}: {failure.sentence}", span=failure.at, details=tuple(failure.details)
            )
    for policy in policies:
        if policy.name in report.untested:
            yield Finding(rule=pipeline.UNTESTED, message=f"{policy.name}: no tests", span=Span(policy.source, 0, 0))
    if not report.results and not report.untested:
        yield Finding(rule=pipeline.UNTESTED, message="no tests found")
    if wanted is not None:
        yield Finding(rule=pipeline.COVERAGE, message=f"the coverage is {_percent(report)}, below {wanted:g} %")


def wharf_test(
    paths: options.Paths = None,
    output: Annotated[Literal["text", "plain", "json", "junit", "sarif", "github"], options.FORMAT] = "text",
    coverage: Annotated[bool, typer.Option("--coverage", help="List clauses that no test has seen true, false or missing.")] = False,
    fail_under: Annotated[
        float, typer.Option("--fail-under", metavar="PERCENT", min=0, max=100, help="Exit with 1 below this coverage.")
    ] = 0.0,
) -> int:
    """Run the tests of policies. Exit code 1 if a test fails or a policy has no test.

    $ wharf test policies/ --coverage
    """
    try:
        policies = chosen_policies.loaded(paths)
    except PolicyError as error:
        if output not in _PIPELINES:
            raise
        streams.out(_PIPELINES[output](pipeline.of_diagnostics(error.diagnostics)))
        return error.exit_code
    report = policy_tests.run(policies)
    covered = 100 * covered_fraction(report.coverage) >= fail_under
    if output in _PIPELINES:
        streams.out(_PIPELINES[output](_findings(report, policies, None if covered else fail_under)))
    else:
        streams.out(_RENDERERS[output](report, coverage))
    return 0 if report.results and not report.failed and not report.untested and covered else 1


_RENDERERS = {
    "text": text,
    "plain": plain,
    "json": as_json,
    "junit": junit,
}
_PIPELINES = {"sarif": pipeline.sarif, "github": pipeline.github}
