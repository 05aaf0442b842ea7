"""Fixtures of tests that carry out plans of moves."""

import pytest

from tests.unit.framework.kube import state
from tests.unit.what_if.rebalance.execution import CHAIN, NODES, PODS, WISHES, World
from wharfinger.what_if.rebalance.plan import rebalance


@pytest.fixture
def world():
    return World(NODES, PODS)


@pytest.fixture
def plan():
    found = rebalance(CHAIN, state(NODES, PODS), WISHES)
    assert [(move.pod, move.target) for move in found.moves] == [("default/one", "c"), ("default/two", "c")]
    return found
