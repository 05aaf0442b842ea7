"""The kinds of scenarios whose questions are asked by commands, or in Python."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tests.cluster.log_scenarios import LogScenario
from tests.cluster.rebalance_scenarios import RebalanceScenario
from tests.cluster.what_if_scenarios import (
    CapacityScenario,
    DiffScenario,
    DrainScenario,
    GroupCapacityScenario,
    Scenario,
)
from tests.cluster.workload_scenarios import WorkloadsScenario

KINDS = (DrainScenario, CapacityScenario, DiffScenario, RebalanceScenario, GroupCapacityScenario, WorkloadsScenario, LogScenario)


def scenario(seed: int, namespace: str, owners: Mapping[str, str]) -> Scenario:
    """The random scenario of that number; `owners` has the uids of the owners in its namespace by kind."""
    made = KINDS[seed % len(KINDS)](namespace, seed)
    made.draw(random.Random(seed), owners)
    return made
