"""Modules that a command does not import before they are needed."""

import subprocess
import sys

import pytest

SPARED = ("lark", "wharfinger.language.check", "wharfinger.policies", "wharfinger.groups.exact")
LOADED = "import importlib, sys; importlib.import_module(sys.argv[1]); print([name for name in sys.argv[2:] if name in sys.modules])"


@pytest.mark.parametrize("command", ["capacity", "dry_run", "drain"])
def test_a_question_without_policies_and_groups_loads_neither_checker_nor_search(command):
    module = f"wharfinger.cli.commands.what_if.{command}"
    done = subprocess.run([sys.executable, "-c", LOADED, module, *SPARED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
