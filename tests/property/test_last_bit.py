"""Decisions are the same to the last bit: stored or new, and with all features of the processor or none."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import decision_digest

ROOT = Path(__file__).parents[2]


def features() -> list[str]:
    """The features of this processor beyond those that NumPy was built for."""
    extension = np._core._multiarray_umath  # type: ignore[attr-defined]  # NumPy has it nowhere else
    return [name for name in extension.__cpu_dispatch__ if extension.__cpu_features__.get(name)]


def digest(**environment: str) -> str:
    command = [sys.executable, "-m", "tests.property.decision_digest"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.strip()


def test_the_processor_does_not_show():
    wanted = features()
    if not wanted:
        pytest.skip("this processor can do nothing beyond NumPy's baseline")
    assert digest(NPY_DISABLE_CPU_FEATURES=" ".join(wanted)) == digest()


INEXACT = ("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "power", "interp", "tanh")
"""What IEEE 754 does not round for everybody: its last bit is the C library's, or NumPy's own for one processor."""


def test_no_result_depends_on_functions_with_an_unspecified_last_bit(monkeypatch: pytest.MonkeyPatch):
    def bits() -> list[bytes]:
        kept = [decision_digest.bits_of(kept) for kept, _ in decision_digest.decisions(3, 8, 12)]
        return [*kept, *decision_digest.kernels(7)]

    before = bits()
    for module in (np, math):
        for name in INEXACT:
            if (exact := getattr(module, name, None)) is not None:
                monkeypatch.setattr(module, name, lambda *args, exact=exact: np.nextafter(exact(*args), np.inf))
    assert bits() == before


@pytest.mark.parametrize(("seed", "n_nodes", "n_pods"), [(0, 1, 3), (1, 9, 40), (2, 40, 60)])
def test_a_kept_decision_is_a_fresh_one(seed: int, n_nodes: int, n_pods: int):
    for kept, fresh in decision_digest.decisions(seed, n_nodes, n_pods):
        assert decision_digest.bits_of(kept) == decision_digest.bits_of(fresh)


def test_every_score_of_the_policy_gives_points():
    parts = [part for kept, _ in decision_digest.decisions(1, 9, 40) for node in kept.feasible_nodes() for part in kept.scores_at(node)]
    silent = {part.name for part in parts} - {part.name for part in parts if part.points}
    assert not {name for name in silent if name.startswith("every function of numbers/")}
