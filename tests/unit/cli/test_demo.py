"""`wharf demo` places the pods of the OpenB trace with and without a policy."""

import re

import pytest


@pytest.fixture(scope="module")
def printed():
    """One demo for all tests of this file: it takes a few seconds."""
    import contextlib
    import io

    from wharfinger import cli

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main(["demo"]) == 0
    return out.getvalue()


def row(printed, name):
    [line] = [line for line in printed.splitlines() if line.strip().startswith(name)]
    return [float(cell.replace(",", "")) for cell in re.findall(r"[\d,.]+(?= %|\s|$)", line.strip().removeprefix(name))]


def test_every_pod_is_placed_or_not(printed):
    unplaced = row(printed, "pods unplaced")
    assert row(printed, "pods placed") == [8152 - each for each in unplaced]


def test_the_policy_allocates_more_gpus(printed):
    base, own = row(printed, "GPU allocated")
    assert base < 93
    assert own > base + 2


def test_one_decision_is_explained(printed):
    assert re.search(r"^openb/openb-pod-\d+ → openb-node-\d+: ", printed, re.MULTILINE)
    assert "gpu-bin-pack/gpu  policies/gpu-bin-pack.policy:" in printed
