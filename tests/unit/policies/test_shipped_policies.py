"""The policies that come with Wharfinger: they check clean, pass their own tests, and leave nothing uncovered."""

import re
from pathlib import Path

import pytest

from wharfinger.builtins import CATALOGUE
from wharfinger.framework.chain import assemble
from wharfinger.language import files, load
from wharfinger.language import format as formatter
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.policies import candidate, policy_tests
from wharfinger.policies.coverage import covered_fraction

FOLDER = Path(__file__).parents[3] / "policies"
FILES = sorted(FOLDER.glob("*.policy"))


def test_the_shipped_folder_is_the_one_of_the_checkout():
    assert files.shipped_policies() == FOLDER
    assert files.shown_place(f"{FOLDER}/a.policy:1:2") == "policies/a.policy:1:2"
    assert files.shown_place("elsewhere/a.policy:1:2") == "elsewhere/a.policy:1:2"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_policy_checks_clean_passes_its_tests_and_is_covered(file):
    found, diagnostics = load.load_policies([file], CATALOGUE)
    assert [diagnostic.message for diagnostic in diagnostics] == []
    report = policy_tests.run([policy for policy in found if policy is not None])
    assert len(report.results) >= 3
    assert [failure.sentence for result in report.results for failure in result.failures] == []
    assert [(point.rule, point.unseen) for point in report.coverage if point.unseen] == []
    assert covered_fraction(report.coverage) == 1.0


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_policy_is_formatted_and_named_after_its_file(file):
    text = file.read_text(encoding="utf-8")
    assert formatter.format_source(Source(name=str(file), text=text), Diagnostics()) == text
    assert f'policy "{file.stem}" version "' in text


def test_all_of_them_can_be_used_together():
    found, _ = load.load_policies([FOLDER], CATALOGUE)
    chain = assemble(candidate.compile_all([policy for policy in found if policy is not None], {}))
    assert [policy.name for policy in chain.policies] == sorted(file.stem for file in FILES)


def test_the_readme_says_when_to_use_each():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \[([\w-]+)\]\([\w-]+\.policy\) \| (.+) \|$", text, re.MULTILINE))
    assert sorted(rows) == sorted(file.stem for file in FILES)
    assert all(len(sentence) > 40 for sentence in rows.values())


SHARE = re.compile(
    r'1 - sum by \(instance\) \(rate\(node_cpu_seconds_total\{mode="idle"\}\[(\w+)\]\)\)'
    r" / sum by \(instance\) \(rate\(node_cpu_seconds_total\[(\w+)\]\)\)"
)


@pytest.mark.parametrize(
    "file", [file for file in FILES if "node_cpu_seconds_total" in file.read_text("utf-8")], ids=lambda file: file.stem
)
def test_busy_time_is_a_share_of_the_rates_of_all_modes(file):
    """A rate divides by its whole window, also over a few seconds of data: a node at 15 % read as almost fully busy."""
    text = file.read_text("utf-8")
    shares = SHARE.findall(text)
    assert len(shares) == text.count('node_cpu_seconds_total{mode="idle"}') > 0
    assert all(of_idle == of_all for of_idle, of_all in shares)
