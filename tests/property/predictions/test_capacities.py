"""As many pods fit as a capacity says, and each change that it names adds what it says: a scheduler in memory places them."""

from __future__ import annotations

import asyncio

import pytest

from tests.property.predictions.capacities import capacity_problems
from tests.property.predictions.drawn_cluster import drawn, load

SAMPLES = (152,)
"""A further node has no sample of a metric, so that a rule is suspended for all nodes."""


@pytest.mark.parametrize("seeds", [SAMPLES, range(40)], ids=["samples", "drawn"])
def test_what_fits_and_what_a_change_adds_is_what_is_placed(tmp_path, seeds):
    gains = 0
    for seed in seeds:
        one = drawn(seed)
        room, problems = asyncio.run(capacity_problems(one, load(tmp_path, one)))
        assert not problems, (seed, problems)
        gains += sum(gain.more > 0 for gain in room.gains)
    assert gains
