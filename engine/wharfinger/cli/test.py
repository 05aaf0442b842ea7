"""`wharf test`: run the test blocks of policies."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from wharfinger.cli import options, policy_set, streams, test_formats
from wharfinger.runtime import policy_tests


class Format(Enum):
    """How results are printed."""

    HUMAN = "human"
    PLAIN = "plain"
    JSON = "json"
    JUNIT = "junit"


def command(
    paths: options.Paths = None,
    output: Annotated[Format, typer.Option("--format", help="How results are printed.")] = Format.HUMAN,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="List what no test made true, false or missing; less than 100 % fails.")
    ] = False,
) -> int:
    """Run the tests of policies: exit code 0 when all pass, 1 when one fails or there is none."""
    policies = policy_set.loaded(paths)
    report = policy_tests.run(policies)
    streams.out(_RENDERERS[output](report, coverage))
    complete = not coverage or all(not point.unseen for point in report.coverage)
    return 0 if report.results and not report.failed and not report.untested and complete else 1


_RENDERERS = {
    Format.HUMAN: test_formats.human,
    Format.PLAIN: test_formats.plain,
    Format.JSON: test_formats.as_json,
    Format.JUNIT: test_formats.junit,
}
