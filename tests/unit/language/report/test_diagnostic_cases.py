"""Every diagnostic has a case: exactly this mistake is found, and the corrected policy is clean."""

from __future__ import annotations

import pytest

from tests.unit.language import diagnostic_case
from wharfinger.language.report.codes import Code

CASES = diagnostic_case.cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_exactly_this_is_found(case, tmp_path):
    found = diagnostic_case.lines(diagnostic_case.diagnose(tmp_path, case.broken, case.files, case.authority))
    assert found == case.found
    assert any(line.startswith(case.code) for line in case.found), "the case does not show its own code"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_mended_policy_is_clean(case, tmp_path):
    found = diagnostic_case.diagnose(tmp_path, case.mended, case.files, diagnostic_case.allowed(case.authority))
    assert diagnostic_case.lines(found) == ()


@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
def test_every_code_has_a_case(code):
    assert (diagnostic_case.FOLDER / f"{code.name}.case").is_file()


def test_every_case_has_a_code():
    assert {case.code for case in CASES} == {code.name for code in Code}


@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
def test_a_code_explains_itself(code):
    assert code.title == code.title.strip(".")
    assert code.value.explanation.endswith((".", ".)"))
    assert len(code.value.explanation) > len(code.title)
