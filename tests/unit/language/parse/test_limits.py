"""Texts made to be slow, deep or long are refused early, with an error that names the exceeded limit."""

import pytest

from tests.hostile import texts
from tests.unit.language.parsing import codes, parsed
from tests.work import calls
from wharfinger.language.files import MAX_BYTES
from wharfinger.language.report.diagnostics import MAX_PER_FILE
from wharfinger.language.report.render import render

MAX_CALLS = 4_000_000  # of a file as long as one may be


def read(text):
    file, diagnostics = parsed(text)
    return file, diagnostics, render(diagnostics)


@pytest.mark.parametrize("piece", texts.PIECES)
@pytest.mark.parametrize(
    ("beginning", "length"), [("", MAX_BYTES), ('policy "x"\nlet a = ', MAX_BYTES // 8)], ids=["the longest file", "in a let"]
)
def test_no_file_takes_long(beginning, length, piece):
    answers = []
    calls(lambda: answers.append(read(texts.repeated(piece, beginning, length))), limit=MAX_CALLS)
    file, diagnostics, shown = answers[0]
    assert file is not None or diagnostics.has_errors
    assert len(shown) < 100_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("let a = " + "(" * 99 + "1" + ")" * 99, []),
        ("let a = " + "(" * 101 + "1" + ")" * 101, ["P005"]),
        ("let a = " + "not " * 99 + "b", []),
        ("let a = " + "not " * 101 + "b", ["P005"]),
        ("let a = " + "b + " * 98 + "b", []),
        ("let a = " + "b + " * 101 + "b", ["P005"]),
        ("let a = " + "b ?? " * 101 + "b", ["P005"]),
        ("let a = " + "b" + ".c" * 101, ["P005"]),
        ("let a = " + "if b then c else " * 101 + "d", ["P005"]),
        ("let a = " + "- " * 3000 + "b", ["P005"]),
        ("let a = [" + "1, " * 14_990 + "1]", []),
        ("let a = [" + "1, " * 15_001 + "1]", ["P007"]),
        (f'policy "p" filter f {{ require b else "{"{a + 1} " * 5_990}" }}', []),
        (f'policy "p" filter f {{ require b else "{"{a + 1} " * 6_001}" }}', ["P007"]),
        (f'policy "p" filter f {{ require b else "{"{{a}} b c " * 5_000}" }}', []),
    ],
)
def test_depth_and_length(text, expected):
    _, diagnostics = parsed(text)
    assert codes(diagnostics) == expected


def test_the_findings_that_are_shown_are_limited_and_the_rest_is_counted():
    _, diagnostics = parsed("let a = +\n" * 80)
    assert len(diagnostics) == 80
    for form in ("text", "plain"):
        assert render(diagnostics, form).count("P100") == MAX_PER_FILE
        assert "… and 30 more" in render(diagnostics, form)
    assert '"omitted": 30' in render(diagnostics, "json")


def test_recovery_stops_after_too_many_errors():
    file, diagnostics = parsed("let a = +\n" * 5000)
    assert file is not None
    assert len(diagnostics) < 120
