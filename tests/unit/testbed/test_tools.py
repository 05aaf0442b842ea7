"""A test whose program is missing is never skipped in CI, which installs missing programs first."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import TOOLS

ROOT = Path(__file__).parents[3]
NEEDS = {
    "tests/browser/test_site.py::test_the_search_finds_a_page_of_errors_and_nothing_is_fetched_from_elsewhere": "chromium",
    "tests/unit/cli/test_completion.py::test_a_shell_completes[bash]": "bash",
    "tests/unit/cli/test_completion.py::test_a_shell_completes[fish]": "fish",
    "tests/unit/cli/test_completion.py::test_a_shell_completes[zsh]": "zsh",
    "tests/unit/editors/test_neovim.py::test_neovim_shows_a_finding": "nvim",
    "tests/unit/editors/test_textmate.py::test_each_kind_of_word_has_its_scope": "npm",
    "tests/unit/editors/test_vim.py::test_vim_colours_a_policy": "vim",
    "tests/unit/editors/test_vscode.py::test_the_bundle_is_complete": "npm",
    "tests/unit/web/playground/test_editor_bundle.py::test_a_build_gives_the_same_files": "npm",
    "tests/unit/web/test_expander.py::test_a_client_of_grpc_is_answered[True]": "openssl",
}
"""For each program, tests that run it."""


def run_without_programs(folder, *words, **environment):
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": str(folder), **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("ci", "outcomes"), [("true", {"failed", "error"}), ("", {"skipped"})])
def test_a_program_that_is_missing_is_a_failure_in_ci(tmp_path, ci, outcomes):
    ran = run_without_programs(tmp_path, "pytest", "-p", "no:cacheprovider", *NEEDS, CI=ci)

    counts = {what.rstrip("s"): int(count) for count, what in re.findall(r"(\d+) ([a-z]+)", ran.stdout.splitlines()[-1])}
    assert (counts.keys(), sum(counts.values())) == (outcomes, len(NEEDS)), ran.stdout
    assert set(TOOLS) == set(NEEDS.values())
    assert [tool for tool in TOOLS if f"{tool} is not installed" not in ran.stdout] == []


def test_the_packages_of_missing_programs_are_printed(tmp_path):
    (tmp_path / "google-chrome").touch(0o755)
    ran = run_without_programs(tmp_path, "tests.tools")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == ["bash", "fish", "npm", "neovim", "openssl", "vim", "zsh"]


def test_ci_says_that_it_is_ci_before_anything_is_run():
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]

    assert commands.index("export CI=true") < min(index for index, command in enumerate(commands) if command.startswith("make "))
