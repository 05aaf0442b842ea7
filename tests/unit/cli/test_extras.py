"""A command that needs a package that is not installed names the extra before it reads anything."""

import sys

import pytest

COMMANDS = {
    "dry-run --optimal": ("ortools", ["dry-run", "-s", "none.yaml", "--optimal", "5"], "--optimal needs OR-tools", "optimal"),
    "tune": ("optuna", ["tune", "-s", "none.yaml", "-p", "none.policy", "--objective", "unplaced"], "`wharf tune` needs Optuna", "tune"),
    "tune --dask": (
        "distributed",
        ["tune", "-s", "none.yaml", "-p", "none.policy", "--objective", "unplaced", "--dask", "localhost:1"],
        "--dask needs Dask",
        "dask",
    ),
    "expander": ("grpc", ["expander", "-p", "none.policy"], "`wharf expander` needs grpc", "autoscaler"),
}


@pytest.mark.parametrize(("package", "command", "sentence", "extra"), COMMANDS.values(), ids=COMMANDS)
def test_the_extra_is_named_before_any_file_is_read(wharf, monkeypatch, package, command, sentence, extra):  # noqa: PLR0917 — the case has four parts
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "wharfinger.web.expander", raising=False)

    assert wharf(*command) == (
        2,
        "",
        f"wharf: {sentence}: pip install 'wharfinger[{extra}]'; with pipx: pipx runpip wharfinger install 'wharfinger[{extra}]'\n",
    )
