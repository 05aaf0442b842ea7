"""The output of `wharf check` and `wharf test` for pipelines: SARIF that its schema accepts, and workflow commands that GitHub can read."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest

from tests.golden import FOLDER
from tests.unit.language import diagnostic_case
from wharfinger.language.report.codes import Code
from wharfinger.language.semantics.authority import CLUSTER

CASES = Path(__file__).parents[3] / "cases"
SARIF = jsonschema.Draft7Validator(
    json.loads((CASES / "sarif" / "sarif-schema-2.1.0.json").read_text("utf-8")), format_checker=jsonschema.FormatChecker()
)
COMMAND = re.compile(r"::(?P<kind>error|warning) (?P<properties>[^:]*)::(?P<message>.*)")
CASES_OF_FILES = {
    path.stem: case
    for path in sorted(diagnostic_case.FOLDER.glob("*.case"))
    if path.stem in Code.__members__ and (case := diagnostic_case.read(path)).authority == CLUSTER
}
"""One case for each code that a file of one's own can have."""


def read_sarif(text):
    log = json.loads(text)
    SARIF.validate(log)
    (run,) = log["runs"]
    return run


def read_commands(text):
    """The commands as GitHub's runner reads them: properties between commas, `%` escapes undone."""
    for line in text.splitlines():
        found = COMMAND.fullmatch(line)
        assert found, line
        properties = dict(each.split("=", 1) for each in found["properties"].split(","))
        yield found["kind"], {name: unquote(value) for name, value in properties.items()}, unquote(found["message"])


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    return tmp_path


@pytest.mark.parametrize("case", CASES_OF_FILES.values(), ids=str)
def test_every_code_is_a_rule_with_its_page(wharf, here, case, monkeypatch):
    monkeypatch.setenv("WHARF_DOCS_URL", "https://docs.example/wharfinger/")
    diagnostic_case.diagnose(here, case.broken, case.files, case.authority)
    files = sorted(str(path.relative_to(here)) for path in here.rglob("*.policy"))
    _, as_json, _ = wharf("check", "--format", "json", *files)
    _, as_sarif, _ = wharf("check", "--format", "sarif", *files)
    _, as_commands, _ = wharf("check", "--format", "github", *files)
    wanted = [(each["code"], each["severity"], each["file"], each["line"]) for each in json.loads(as_json)["diagnostics"]]
    run = read_sarif(as_sarif)
    rules = run["tool"]["driver"]["rules"]
    assert {rule["id"]: rule["helpUri"] for rule in rules} == {
        name: f"https://docs.example/wharfinger/errors/{name}.html" for name, *_ in wanted
    }
    assert [result["ruleId"] for result in run["results"]][: len(wanted)] == [name for name, *_ in wanted]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    reported = [
        (properties["title"][:4], kind, properties["file"], int(properties["line"])) for kind, properties, _ in read_commands(as_commands)
    ]
    assert reported[: len(wanted)] == wanted


def test_without_a_site_findings_name_the_page_in_the_project(wharf, here):
    (here / "a.policy").write_text(BROKEN)

    _, as_sarif, _ = wharf("check", "--format", "sarif", "a.policy")
    _, as_commands, _ = wharf("check", "--format", "github", "a.policy")
    rule, *_ = read_sarif(as_sarif)["tool"]["driver"]["rules"]
    assert "helpUri" not in rule
    assert rule["help"]["markdown"].endswith(f"docs/errors/{rule['id']}.md")
    assert f"docs/errors/{rule['id']}.md" in as_commands


BROKEN = 'policy "x"\n\nfilter f { require nod.free.cpu > 3cpu, "100%: a,b" }\n'


def test_a_place_is_relative_to_the_repository(wharf, here, monkeypatch):
    below = here / "a folder, 100%:x"
    below.mkdir()
    (below / "x.policy").write_text(BROKEN)
    (below / "y.policy").write_text(BROKEN)
    monkeypatch.chdir(below)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here))
    _, out, _ = wharf("check", "--format", "sarif", "x.policy")
    assert {place["physicalLocation"]["artifactLocation"]["uri"] for each in read_sarif(out)["results"] for place in each["locations"]} == {
        "a%20folder%2C%20100%25%3Ax/x.policy"
    }
    _, out, _ = wharf("check", "--format", "github", str(below / "y.policy"))
    assert {properties["file"] for _, properties, _ in read_commands(out)} == {"a folder, 100%:x/y.policy"}


def test_a_file_outside_of_the_repository_keeps_its_path(wharf, here, monkeypatch):
    (here / "x.policy").write_text(BROKEN)
    (here / "inside").mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here / "inside"))
    _, out, _ = wharf("check", "--format", "sarif", str(here / "x.policy"))
    assert read_sarif(out)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (here / "x.policy").as_uri()


def test_a_fix_is_what_the_help_proposes(wharf, here):
    (here / "x.policy").write_text('policy "x"\nfilter f { require nod.free.cpu > 3cpu }\n')
    code, out, _ = wharf("check", "--format", "sarif")
    (result,) = read_sarif(out)["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    (replaced,) = change["replacements"]
    region = {"startLine": 2, "startColumn": 20, "endLine": 2, "endColumn": 23}
    assert (code, replaced["deletedRegion"], replaced["insertedContent"]) == (1, region, {"text": "node"})
    assert result["locations"][0]["physicalLocation"]["region"] == region


def test_an_argument_that_a_plugin_refuses_is_a_finding(wharf, here):
    (here / "x.policy").write_text('policy "x"\n\nbase kubernetes { NodeResourcesFit weight 1 with { strategy: "MostAlocated" } }\n')
    code, out, err = wharf("check", "--format", "github")
    ((kind, properties, message),) = read_commands(out)
    assert (code, err, kind, properties["line"], properties["col"]) == (1, "", "error", "3", "19")
    assert "MostAlocated" in message


def test_nothing_found_is_an_empty_run(wharf, here):
    (here / "x.policy").write_text('policy "x"\nfilter f { require node.free.cpu > 3cpu else "no" }\n')
    code, out, _ = wharf("check", "--format", "sarif")
    assert (code, read_sarif(out)["results"]) == (0, [])
    assert wharf("check", "--format", "github") == (0, "", "")


def test_costs_have_no_place_in_sarif(wharf, here):
    (here / "x.policy").write_text('policy "x"\nfilter f { require node.free.cpu > 3cpu else "no" }\n')
    code, out, err = wharf("check", "--format", "sarif", "--cost")
    assert (code, out) == (2, "")
    assert "--cost and --format sarif" in err


def test_failures_of_tests_are_at_the_line_that_expected_more(wharf, monkeypatch):
    monkeypatch.chdir(FOLDER / "policy_tests")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    flags = ["failing.policy", "passing.policy", "--fail-under", "99"]
    _, as_json, _ = wharf("test", "--format", "json", *flags)
    wanted = [failure["at"].rsplit(":", 1)[0] for test in json.loads(as_json)["tests"] for failure in test["failures"]]
    code, out, _ = wharf("test", "--format", "github", *flags)
    *failures, (_, _, coverage) = read_commands(out)
    assert code == 1
    assert [f"{properties['file']}:{properties['line']}" for _, properties, _ in failures] == wanted
    assert "below 99 %" in coverage
    _, out, _ = wharf("test", "--format", "sarif", *flags)
    assert [result["ruleId"] for result in read_sarif(out)["results"]] == ["test-failed"] * len(wanted) + ["coverage-too-low"]


def test_a_policy_without_tests_is_a_finding_of_the_tests(wharf, here):
    (here / "x.policy").write_text('policy "x"\nfilter f { require node.free.cpu > 3cpu else "no" }\n')
    code, out, _ = wharf("test", "--format", "sarif")
    assert (code, [result["ruleId"] for result in read_sarif(out)["results"]]) == (1, ["policy-without-tests"])


def test_a_policy_that_does_not_compile_is_a_finding_of_the_tests(wharf, here):
    (here / "x.policy").write_text('policy "x"\nfilter f { require nod.free.cpu > 3cpu }\n')
    code, out, err = wharf("test", "--format", "sarif")
    assert (code, err, [result["ruleId"] for result in read_sarif(out)["results"]]) == (1, "", ["P301"])


def test_a_hostile_text_cannot_end_its_command(wharf, here):
    (here / "x.policy").write_text('policy "x"\ntest "a%0A::error::b\\n::stop-commands::x" { }\n')
    _, out, _ = wharf("test", "--format", "github")
    assert len(list(read_commands(out))) == len(out.splitlines())
