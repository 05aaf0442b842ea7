"""The suggestion of a finding, put in its place, fixes it."""

import pytest

from tests.unit.language import diagnostic_case
from tests.unit.language.parsing import parsed
from wharfinger.language.report.codes import Code

CASES = [case for case in diagnostic_case.cases() if case.code.startswith(("P0", "P1")) and "«bytes" not in case.broken]


def suggestions(text):
    _, diagnostics = parsed(text)
    return [(found.span, found.code, found.suggestion) for found in diagnostics if found.suggestion is not None]


@pytest.mark.parametrize("case", [case for case in CASES if suggestions(case.broken)], ids=str)
def test_a_suggestion_mends_what_it_is_about(case):
    text = case.broken
    found = suggestions(text)
    for span, _, suggestion in reversed(found):
        text = text[: span.start] + suggestion + text[span.end :]
    left = {code for _, code, _ in suggestions(text)}
    assert not left & {code for _, code, _ in found}


def test_suggestions_are_tried_at_all():
    codes = {code for case in CASES for _, code, _ in suggestions(case.broken)}
    assert {Code.P103, Code.P107, Code.P108, Code.P109, Code.P111, Code.P113, Code.P115} <= codes
