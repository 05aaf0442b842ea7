"""`wharf test`: run the test blocks of policies."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from wharfinger.cli import options, policy_set, streams, test_formats
from wharfinger.runtime import policy_tests
from wharfinger.runtime.test_report import covered_fraction


class Format(Enum):
    """How results are printed."""

    HUMAN = "human"
    PLAIN = "plain"
    JSON = "json"
    JUNIT = "junit"


def command(
    paths: options.Paths = None,
    output: Annotated[Format, typer.Option("--format", help="How results are printed.")] = Format.HUMAN,
    coverage: Annotated[bool, typer.Option("--coverage", help="List what no test made true, false or missing.")] = False,
    fail_under: Annotated[float, typer.Option("--fail-under", min=0, max=100, help="Fail below this coverage, in percent.")] = 0.0,
) -> int:
    """Run the tests of policies: exit code 0 when all pass, 1 when one fails or a policy has none."""
    report = policy_tests.run(policy_set.loaded(paths))
    streams.out(_RENDERERS[output](report, coverage))
    covered = 100 * covered_fraction(report.coverage) >= fail_under
    return 0 if report.results and not report.failed and not report.untested and covered else 1


_RENDERERS = {
    Format.HUMAN: test_formats.human,
    Format.PLAIN: test_formats.plain,
    Format.JSON: test_formats.as_json,
    Format.JUNIT: test_formats.junit,
}
