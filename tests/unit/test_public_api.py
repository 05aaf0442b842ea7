"""`import wharfinger`: what it offers, and that it costs next to nothing until used."""

import dataclasses
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import wharfinger
from wharfinger.cli.what_if_input import WhatIfFlags

ROOT = Path(__file__).parents[2]


def test_every_name_that_is_offered_exists():
    assert {name: hasattr(wharfinger, name) for name in wharfinger.__all__} == dict.fromkeys(wharfinger.__all__, True)
    assert list(wharfinger.__all__) == sorted(wharfinger.__all__)
    assert dir(wharfinger) == sorted(wharfinger.__all__)


def test_a_star_imports_every_name():
    found = {}
    exec("from wharfinger import *", found)
    assert found.keys() - {"__builtins__"} == set(wharfinger.__all__)
    assert {"decide", "PolicyError", "__version__"} <= found.keys()


def test_other_names_do_not():
    with pytest.raises(AttributeError, match="has no attribute 'schedule'"):
        wharfinger.schedule  # noqa: B018 — the attribute access is the test


def test_importing_it_imports_neither_numpy_nor_the_language():
    script = "import sys, wharfinger, json; print(json.dumps(sorted(sys.modules)))"
    printed = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(ROOT / "engine")}, capture_output=True, text=True, check=True
    )
    modules = json.loads(printed.stdout)
    assert "wharfinger" in modules
    assert not {"numpy", "msgspec", "lark", "yaml", "typer", "pydantic", "wharfinger.errors"} & set(modules)


# What the functions call otherwise, and the options that are of a command line alone: files, listings, and what changes a cluster.
KEYWORDS = {
    "capacity": {"limit": "most"},
    "diff": {"against_param": None, "limit": None},  # load_policies takes params
    "drain": {"selector": None, "pending": "pods", "delete_emptydir_data": "delete_empty_dir_data", "_ignore_daemonsets": None},
    "rebalance": {"goal": "goals", "namespace": "namespaces", "apply": None, "plan": None, "undo_cordons": None, "timeout": None},
    "tune": {"on": "logs", "wanted": "search", "n_trials": "trials", "patch": None, "draw": None},
}


@pytest.mark.parametrize("command", KEYWORDS)
def test_the_options_of_a_command_are_arguments_of_its_function(command):
    shared = {field.name for field in dataclasses.fields(WhatIfFlags)} | {"output", "exit_code"}
    flags = (
        inspect.signature(getattr(import_module(f"wharfinger.cli.commands.what_if.{command}"), f"wharf_{command}")).parameters.keys()
        - shared
    )
    called = {KEYWORDS[command].get(flag, flag) for flag in flags} - {None}
    assert called <= inspect.signature(getattr(wharfinger, command)).parameters.keys()
