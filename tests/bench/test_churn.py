"""No memory accumulates while policies, nodes, annotations and pods change all the time."""

import asyncio

import pytest

from tests.bench import churn
from wharfinger.model.columns import arrays, domains, node_table, resource_table


def test_kept_state_stays_the_same_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node_table, "SPARE_CODES", 100)  # so that a few minutes are enough to fill what is bounded
    monkeypatch.setattr(arrays, "MAX_KEYS", 8)
    monkeypatch.setattr(domains, "MAX_KEYS", 4)
    monkeypatch.setattr(resource_table, "SPARE_LANES", 10)
    found = asyncio.run(churn.measured(8, 8))
    grown = {name: by for name, by in churn.growth(found).items() if name != "bytes"}  # they are not traced here
    assert max(grown.values()) <= 1.1, (grown, found)
