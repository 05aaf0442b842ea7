"""The hooks of `.pre-commit-hooks.yaml`, run by pre-commit itself in a repository.

The hooks install Wharfinger and all it needs; here they run the `wharf` that is being tested (`language: system`).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from wharfinger import cli

ROOT = Path(__file__).parents[4]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
GOOD = """policy "room"

filter room {
  require node.free.cpu > 1cpu else "no room"
}

test "a full node is left" {
  node full { cpu: 1cpu, memory: 1Gi }
  pod web { requests: { cpu: 1cpu } }
  place web
  expect full rejected by room
}
"""


@pytest.fixture
def repository(tmp_path):
    """A function that commits files in a repository with the hooks: the output of pre-commit, and whether the commit passed."""
    hooks, own = tmp_path / "hooks", tmp_path / "own"
    wharf = Path(sys.executable).parent
    environment = {
        "PATH": f"{wharf}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT / "engine"),
        "GIT_CONFIG_NOSYSTEM": "1",
    } | {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def run(folder, *command):
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    def made(folder):
        folder.mkdir()
        assert run(folder, "git", "init", "--quiet").returncode == 0

    made(hooks)
    (hooks / ".pre-commit-hooks.yaml").write_text((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert run(hooks, "git", "add", ".").returncode == run(hooks, "git", "commit", "-qm", "hooks").returncode == 0
    head = run(hooks, "git", "rev-parse", "HEAD").stdout.strip()
    made(own)
    used = [{"id": hook["id"], "language": "system"} for hook in HOOKS]
    (own / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [{"repo": str(hooks), "rev": head, "hooks": used}]}))
    installed = run(own, sys.executable, "-m", "pre_commit", "install")
    assert installed.returncode == 0, installed.stderr

    def commit(**files):
        for name, text in files.items():
            (own / f"{name}.policy").write_text(text)
        run(own, "git", "add", ".")
        done = run(own, "git", "commit", "-qm", "policies")
        said = done.stdout + done.stderr
        results = dict(re.findall(r"^(wharf \w+)\.*(?:\(no files to check\))?(Passed|Failed|Skipped)$", said, re.MULTILINE))
        return done.returncode == 0, results, said

    commit.folder = own
    return commit


def test_a_hook_calls_a_command():
    commands = {hook["id"]: hook["entry"].split() for hook in HOOKS}
    assert commands == {f"wharf-{command}": ["wharf", command] for command in ("fmt", "check", "test")}
    assert all(words[1] in cli.COMMANDS for words in commands.values())


def test_commits_pass_only_with_policies_in_order(repository):
    passed, results, said = repository(room=GOOD)
    assert (passed, results) == (True, dict.fromkeys(("wharf fmt", "wharf check", "wharf test"), "Passed")), said

    untidy = GOOD.replace("  require", "    require")
    passed, results, said = repository(room=untidy)
    assert (passed, results["wharf fmt"], "changed room.policy" in said) == (False, "Failed", True), said
    assert (repository.folder / "room.policy").read_text() == GOOD

    passed, results, said = repository(room=GOOD.replace("node.free", "nod.free"))
    assert (passed, results["wharf check"], "P301" in said) == (False, "Failed", True), said

    passed, results, said = repository(room=GOOD.replace("expect full rejected by room", "expect full accepted"))
    assert (passed, results["wharf check"], results["wharf test"]) == (False, "Passed", "Failed"), said


def test_a_changed_library_is_checked_with_those_that_import_it(repository):
    library = "let most = 3\n"
    user = 'import "library.policy" as library\n\npolicy "user"\n\nfilter few {\n  require node.pod_count < library.most else "many"\n}\n'
    tests = GOOD[GOOD.index("test") :].replace("expect full rejected by room", "expect full accepted")
    passed, results, said = repository(library=library, user=user, user_test=tests)
    assert passed, said
    passed, results, said = repository(library="let fewest = 3\n")
    assert (passed, results["wharf check"]) == (False, "Failed"), said


def test_commits_without_policies_run_nothing(repository):
    passed, results, said = repository()
    assert (passed, set(results.values())) == (True, {"Skipped"}), said
