"""The layout of findings."""

import json

import pytest

from tests.unit.language.parsing import source
from tests.unit.language.policies import checked
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostic, Diagnostics, Label, Span
from wharfinger.language.report.render import as_text, plain, render

TEXT = 'policy "p"\n\nfilter f {\n\trequire node.free.memory >= 2Gb else "漢字 é"\n}\n' + "\n" * 100 + "let a = " + "b + " * 100 + "c\n"
FILE = source(TEXT)


def at(text):
    start = TEXT.index(text)
    return Span(FILE, start, start + len(text))


def finding(span, *others, label="", help_=None):
    return Diagnostic(code=Code.P203, message="cannot compare", span=span, label=label, others=others, help=help_)


CASES = {
    "one place": (
        finding(at("2Gb"), label="unknown unit", help_="write `2Gi`"),
        """\
error[P203]: cannot compare
  --> example.policy:4:30
   |
 4 |     require node.free.memory >= 2Gb else "漢字 é"
   |                                 ^^^ unknown unit
   = help: write `2Gi`""",
    ),
    "two places on a line": (
        finding(at("2Gb"), Label(at("node.free.memory"), "memory (bytes)"), label="unknown unit"),
        """\
error[P203]: cannot compare
  --> example.policy:4:30
   |
 4 |     require node.free.memory >= 2Gb else "漢字 é"
   |             ----------------    ^^^ unknown unit
   |             memory (bytes)""",
    ),
    "three places, the first in front": (
        finding(at("require"), Label(at("free"), "second"), Label(at("2Gb"), "third"), label="first"),
        """\
error[P203]: cannot compare
  --> example.policy:4:2
   |
 4 |     require node.free.memory >= 2Gb else "漢字 é"
   |     ^^^^^^^      ----           --- third
   |     |            second
   |     first""",
    ),
    "places on several lines": (
        finding(at("2Gb"), Label(at("policy"), "begins here"), label="unknown"),
        """\
error[P203]: cannot compare
  --> example.policy:4:30
   |
 1 | policy "p"
   | ------ begins here
  ...
 4 |     require node.free.memory >= 2Gb else "漢字 é"
   |                                 ^^^ unknown""",
    ),
    "behind wide characters": (
        finding(at(' é"')),
        """\
error[P203]: cannot compare
  --> example.policy:4:42
   |
 4 |     require node.free.memory >= 2Gb else "漢字 é"
   |                                               ^^^""",
    ),
    "over several lines": (
        finding(Span(FILE, TEXT.index("filter"), TEXT.index("else"))),
        """\
error[P203]: cannot compare
  --> example.policy:3:1
   |
 3 | filter f {
   | ^^^^^^^^^^""",
    ),
    "at the end of a line": (
        finding(Span(FILE, 10, 10)),
        """\
error[P203]: cannot compare
  --> example.policy:1:11
   |
 1 | policy "p"
   |           ^""",
    ),
    "on a very long line": (
        finding(at("c\n"), label="here"),
        """\
error[P203]: cannot compare
    --> example.policy:106:409
     |
 106 | …b + b + b + b + b + b + b + b + b + b + b + b + b + b + b + c
     |                                                              ^ here""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_findings_as_text_for_people(name):
    diagnostic, expected = CASES[name]
    assert as_text(diagnostic) == expected


def test_a_place_in_another_file_shows_that_file():
    other = Span(type(FILE)(name="shared.policy", text="let a = 1\n"), 4, 5)
    assert as_text(finding(at("policy"), Label(other, "declared here"))) == (
        'error[P203]: cannot compare\n  --> example.policy:1:1\n   |\n 1 | policy "p"\n   | ^^^^^^\n'
        "  ::: shared.policy:1:5\n   |\n 1 | let a = 1\n   |     - declared here"
    )


def test_colour_changes_nothing_but_colour():
    import re

    for diagnostic, expected in CASES.values():
        coloured = as_text(diagnostic, color=True)
        assert "\x1b[1;31merror[P203]\x1b[0m" in coloured
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == expected


def test_for_screen_readers():
    diagnostic = finding(at("2Gb"), Label(at("policy"), "begins here"), label="unknown unit", help_="write `2Gi`")
    assert plain(diagnostic) == (
        "error P203 in example.policy, line 4, column 30: cannot compare\n"
        '  line 4 reads: require node.free.memory >= 2Gb else "漢字 é"\n'
        "  at line 4, column 30 `2Gb`: unknown unit\n"
        "  at line 1, column 1 `policy`: begins here\n"
        "  help: write `2Gi`"
    )


def test_findings_as_json_for_programs():
    found = Diagnostics()
    found.add(finding(at("2Gb"), Label(at("policy"), "begins here"), label="unknown unit"))
    found.error(Code.P101, "earlier", at("policy"), suggestion="x")
    read = json.loads(render(found, "json"))
    assert [d["code"] for d in read["diagnostics"]] == ["P101", "P203"]
    assert (read["errors"], read["warnings"], read["omitted"]) == (2, 0, 0)
    second = read["diagnostics"][1]
    assert (second["file"], second["line"], second["column"], second["endLine"], second["endColumn"]) == ("example.policy", 4, 30, 4, 33)
    assert TEXT[second["start"] : second["end"]] == "2Gb"
    assert second["others"][0]["label"] == "begins here"
    assert read["diagnostics"][0]["suggestion"] == "x"


def test_findings_are_sorted_counted_and_kept_once():
    found = Diagnostics()
    for span in (at("2Gb"), at("policy"), at("2Gb")):
        found.error(Code.P203, "same", span)
    found.error(Code.L101, "a warning", at("policy"))
    text = render(found)
    assert text.index(":1:1") < text.index(":4:30")
    assert text.endswith("\n2 errors, 1 warning\n")


def test_no_findings_print_nothing():
    assert render(Diagnostics()) == render(Diagnostics(), "plain") == ""
    assert json.loads(render(Diagnostics(), "json"))["diagnostics"] == []


UNSEEN = "\u202e\u2066\u200b\u2028\u0085"


@pytest.mark.parametrize(
    "text",
    [
        f'policy "h{UNSEEN}"\nfilter f {{ require (node.labels["x{UNSEEN}"] ?? "") == "y" }}\n',
        f'policy "h" # c{UNSEEN}\nlet q = "{UNSEEN}"\nfilter f {{ require nod.x == "{UNSEEN}" }}\nscore s{UNSEEN} = 1\n',
        f'policy "h"\nfilter f {{ require node.pod_count in ["{UNSEEN}", 3] and matches_regex(node.name, "({UNSEEN}") }}\n',
        f'policy "h"\nlet t = {{ "{UNSEEN}": 1, "{UNSEEN}": 2 }}\nfilter f {{ require node.labels matches "a{UNSEEN} in (" }}\n',
    ],
)
def test_no_text_of_an_author_hides_or_turns_round_what_is_said_about_it(text):
    _, found = checked(text)
    assert found
    for diagnostic in found:
        said = [diagnostic.message, diagnostic.label, diagnostic.help or "", *(other.text for other in diagnostic.others)]
        assert not set(UNSEEN) & set("".join(said))
