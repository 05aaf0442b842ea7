"""Everything that README.md and docs/ show is run: policies check clean, commands print the output of the page."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / folder / "README.md" for folder in ("policies", "deploy")), *pages.guides()]

VENV = Path(sys.executable).parent
ACTIVATE = ". .venv/bin/activate"
TARGET = re.compile(r"""(?:\]\(|\bsrc(?:set)?=")([^)"#:\s]+)(?=[)"#])""")
"""The file that a link or a picture leads to."""
TASKS = {"writing", "trying", "operating", "integrating"}


def shell(command, folder):
    environment = {
        **os.environ,
        "PATH": f"{VENV}:{os.environ['PATH']}",
        "NO_COLOR": "1",
        "COLUMNS": "120",
        "TERM": "dumb",
    }
    command = command.replace("make demo", "wharf demo")
    return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


def run_console(block, folder):
    for step in pages.commands(block):
        ran = shell(step.command, folder)
        printed = ran.stdout + ran.stderr
        assert pages.pattern(step.output).match(printed + "\n"), (
            f"line {step.line}: $ {step.command}\nprinted\n{printed}\nexpected\n{step.output}"
        )


def without_wharf(path):
    """A PATH without anything installed."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if not (Path(folder) / "wharf").exists())


def test_the_readme_puts_wharf_on_the_path_before_it_calls_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", without_wharf(os.environ["PATH"]))
    (tmp_path / ".venv").symlink_to(VENV.parent)
    consoles = [block for block in pages.blocks(ROOT / "README.md") if block.language == "console"]
    commands = [step.command for block in consoles for step in pages.commands(block)]
    first = next(index for index, command in enumerate(commands) if re.match(r"(\w+ \| )?wharf\b", command))

    assert ACTIVATE in commands[:first]
    ran = subprocess.run(f"{ACTIVATE} && {commands[first]}", shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    before = subprocess.run(commands[first], shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "not found" in before.stderr


def run_doctest(block, folder, monkeypatch):
    monkeypatch.chdir(folder)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(doctest.DocTestParser().get_doctest(block.text, {}, "page", None, block.line))
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_shows_only_what_happens(page, tmp_path, monkeypatch):
    (tmp_path / "policies").symlink_to(ROOT / "policies")
    (tmp_path / ".venv").symlink_to(VENV.parent)
    for block in pages.blocks(page):
        if block.file and block.language in {"policy", "yaml", "json"}:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "policy":
            name = block.file or f"block_{block.line}.policy"
            (tmp_path / name).write_text(block.text, encoding="utf-8")
            ran = shell(f"wharf check {name}", tmp_path)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        elif block.language == "console" and not block.needs_cluster:
            run_console(block, tmp_path)
        elif block.language == "pycon":
            run_doctest(block, tmp_path, monkeypatch)


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "grammar" / "LANGUAGE.md"]:
        for target in TARGET.findall(page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


@pytest.mark.parametrize(
    "page", [page for page in pages.guides() if page.parent.name in TASKS or page.stem == "tutorial"], ids=lambda p: p.stem
)
def test_a_page_ends_with_what_to_read_next(page):
    assert re.match(r"Next: .*\]\(", page.read_text(encoding="utf-8").rstrip().rpartition("\n\n")[2])
