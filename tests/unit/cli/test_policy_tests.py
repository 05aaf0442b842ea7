"""`wharf test` runs the tests inside policies: reports, coverage and exit codes."""

import json
from xml.etree import ElementTree as ET

import pytest

from tests.golden import FOLDER, assert_golden


@pytest.fixture(autouse=True)
def in_golden_folder(monkeypatch):
    monkeypatch.chdir(FOLDER / "policy_tests")


@pytest.mark.parametrize(
    ("golden", "flags"),
    [
        ("failing.txt", ["--coverage"]),
        ("failing.plain.txt", ["--format", "plain"]),
        ("failing.json", ["--format", "json"]),
        ("failing.xml", ["--format", "junit"]),
    ],
)
def test_failures_are_shown_with_the_values_that_led_to_them(wharf, golden, flags):
    code, out, err = wharf("test", "failing.policy", "passing.policy", *flags)
    assert (code, err) == (1, "")
    assert_golden(f"policy_tests/{golden}", out)


def test_passing_tests_are_listed_with_the_coverage(wharf):
    code, out, err = wharf("test", "passing.policy", "--coverage")
    assert (code, err) == (0, "")
    assert_golden("policy_tests/passing.txt", out)


def test_junit_counts_what_json_counts(wharf):
    _, as_json, _ = wharf("test", ".", "--format", "json")
    _, as_xml, _ = wharf("test", ".", "--format", "junit")
    report, root = json.loads(as_json), ET.fromstring(as_xml)
    assert int(root.attrib["tests"]) == len(report["tests"]) == len(root.findall(".//testcase"))
    assert int(root.attrib["failures"]) == report["failed"] == len(root.findall(".//testcase[failure]"))
    assert all(case.attrib["file"].endswith(".policy") and int(case.attrib["line"]) > 1 for case in root.findall(".//testcase"))


UNTESTED = 'policy "untested"\n\nscore s weight 1 = least_allocated()\n'


@pytest.mark.parametrize("output", ["text", "plain", "json", "junit"])
def test_no_tests_is_a_failure(wharf, tmp_path, output):
    (tmp_path / "untested.policy").write_text(UNTESTED)
    code, out, _ = wharf("test", tmp_path, "--format", output)
    assert code == 1
    assert "untested" in out


def test_one_untested_policy_among_tested_ones_is_a_failure_too(wharf, tmp_path):
    (tmp_path / "untested.policy").write_text(UNTESTED)
    code, out, _ = wharf("test", "passing.policy", tmp_path)
    assert code == 1
    assert "untested: no tests" in out


def test_a_folder_without_policies_is_refused(wharf, tmp_path):
    assert wharf("test", tmp_path) == (2, "", f"wharf: {tmp_path}: no *.policy files in this folder\n")


def test_a_library_alone_has_no_tests(wharf, tmp_path):
    (tmp_path / "shared.policy").write_text("let crowded = node.pod_count > 9\n")
    code, out, _ = wharf("test", tmp_path)
    assert code == 1
    assert "no tests found" in out


def test_coverage_can_be_demanded(wharf, tmp_path):
    text = (FOLDER / "policy_tests" / "passing.policy").read_text()
    (tmp_path / "half.policy").write_text(text[: text.index('test "an important')])
    assert wharf("test", tmp_path)[0] == 0
    code, out, _ = wharf("test", tmp_path, "--coverage", "--fail-under", "100")
    assert code == 1
    assert "big when was never false" in out


def test_tests_in_a_file_of_their_own_are_found_from_either_file(wharf, tmp_path):
    text = (FOLDER / "policy_tests" / "passing.policy").read_text()
    cut = text.index("test ")
    (tmp_path / "passing.policy").write_text(text[:cut])
    (tmp_path / "passing_test.policy").write_text(text[cut:])
    for name in ("passing.policy", "passing_test.policy"):
        code, out, _ = wharf("test", tmp_path / name)
        assert code == 0
        assert "2 tests: 2 passed" in out
