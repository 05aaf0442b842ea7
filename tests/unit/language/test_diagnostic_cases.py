"""Every diagnostic has a case: the mistake is found, exactly and alone, and the mended policy is clean."""

from __future__ import annotations

import pytest

from tests.unit.language import diagnostic_case
from wharfinger.language.codes import Code, Severity

CASES = diagnostic_case.cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_exactly_this_is_found(case, tmp_path):
    found = diagnostic_case.lines(diagnostic_case.diagnose(tmp_path, case.broken, case.files))
    assert found == case.found
    assert any(line.startswith(case.code) for line in case.found), "the case does not show its own code"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_mended_policy_is_clean(case, tmp_path):
    found = diagnostic_case.diagnose(tmp_path, case.mended, case.files)
    assert diagnostic_case.lines(found) == ()


@pytest.mark.parametrize(
    "code", [code for code in Code if code.name >= "P2" or code.severity is Severity.WARNING], ids=lambda code: code.name
)
def test_every_code_of_the_checker_has_a_case(code):
    assert (diagnostic_case.FOLDER / f"{code.name}.case").is_file()
