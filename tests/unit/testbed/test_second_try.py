"""Failed tests of CI are repeated once, and always reported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import second_try

ROOT = Path(__file__).parents[3]

TESTS = '''
from pathlib import Path

import pytest


def before(name):
    """How often this was asked before."""
    with Path(name).open("a+") as seen:
        seen.seek(0)
        count = len(seen.read())
        seen.write("x")
    return count


def test_steady():
    assert before("steady") == 0


@pytest.mark.parametrize("pods", [3])
def test_unsteady(pods):
    assert before("unsteady") > 0, f"{pods} pods wait"


@pytest.fixture
def cluster():
    assert before("cluster") > 0, "no cluster"


def test_unsteady_cluster(cluster):
    pass


def test_broken():
    assert before("broken") > BROKEN, "never bound"
'''


@pytest.fixture
def run(tmp_path):
    (tmp_path / "pytest.ini").touch()

    def once(tests, *arguments):
        (tmp_path / "test_it.py").write_text(tests)
        command = [sys.executable, "-m", "tests.cluster.second_try", "test_it.py", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return once


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_last_lines_name_what_passed_only_the_second_time(run, workers):
    ran = run(TESTS.replace("BROKEN", "0"), *workers)

    assert ran.returncode == 0, ran.stdout
    *_, heading, broken, unsteady, cluster = ran.stdout.splitlines()
    assert heading.startswith("PASSED ONLY THE SECOND TIME")
    assert broken == "  test_it.py::test_broken (new): AssertionError: never bound"
    assert unsteady == "  test_it.py::test_unsteady[3] (new): AssertionError: 3 pods wait"
    assert cluster == "  test_it.py::test_unsteady_cluster (new): AssertionError: no cluster"


def test_a_test_that_fails_twice_fails_and_the_others_are_reported_nevertheless(run):
    ran = run(TESTS.replace("BROKEN", "1"))

    assert ran.returncode == 1
    last = ran.stdout[ran.stdout.index("PASSED ONLY") :]
    assert "test_unsteady[3]" in last
    assert "test_broken" not in last


def test_tests_that_pass_are_run_once(run):
    ran = run("def test_well():\n    pass\n")

    assert ran.returncode == 0
    assert ran.stdout.count("1 passed") == 1
    assert "SECOND TIME" not in ran.stdout


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        ("import nowhere\n", 2),
        ("", 5),
        (f"import pytest\n@pytest.mark.parametrize('i', range({second_try.MOST + 1}))\ndef test_all(i):\n    assert 0\n", 1),
    ],
    ids=["unreadable", "none", "many"],
)
def test_a_run_that_is_broken_is_not_tried_again(run, tests, code):
    ran = run(tests)

    assert ran.returncode == code
    assert "tried once more" not in ran.stdout


def test_every_test_known_to_be_unsteady_is_there():
    for name in second_try.known():
        path, _, function = name.partition("::")
        assert re.search(rf"^(async )?def {re.escape(function)}\(", (ROOT / path).read_text(), re.MULTILINE), name
