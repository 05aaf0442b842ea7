"""The devices of a claim in the order that a policy prefers: what a search remembers changes nothing, and its work is that of one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench import devices
from tests.unit.language.policies import policy
from wharfinger.compiler.program import compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.plugins.devices import device_rule, search
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

RANKED = assemble([compile_policy(policy('prefer device d = it.attributes["rank"] ?? 0'))])
NUMA, ODD = (f"{devices.DRIVER}/{name}" for name in ("numa", "odd"))


def cluster(ranks: Sequence[int], numa: Sequence[int]) -> ClusterState:
    """One node, whose devices have these ranks and NUMA nodes."""
    state = devices.cluster(1)
    each = [
        {"name": f"gpu-{place}", "attributes": {"model": {"string": "a100"}} | {k: {"int": v} for k, v in attributes.items()}}
        for place, attributes in enumerate(
            {"rank": rank, "numa": on, "odd": place * 5 % 3, "number": place}
            for place, (rank, on) in enumerate(zip(ranks, numa, strict=True))
        )
    ]
    pool = {"name": "n00000", "generation": 2, "resourceSliceCount": 1}
    spec = {"driver": devices.DRIVER, "nodeName": "n00000", "pool": pool, "devices": each}
    state.put(decode.convert({"metadata": {"name": "n00000-gpu"}, "spec": spec}, objects.ResourceSlice))
    return state


def wanted(counts: Sequence[int], constraints: Sequence[tuple[int, str, str]]) -> dict[str, Any]:
    """Requests for these numbers of devices, with constraints on one request and the ones after it."""
    names = [f"r{number}" for number in range(len(counts))]
    return {
        "requests": [
            {"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}
            for name, count in zip(names, counts, strict=True)
        ],
        "constraints": [{"requests": names[min(first, len(names) - 1) :], kind: attribute} for first, kind, attribute in constraints],
    }


def chosen(state: ClusterState) -> list[str] | None:
    decision = decide(RANKED, state.snapshot(), devices.pending("p", claims=True))
    if decision.node is None:
        return None
    return [result.device for claim in decision.claims for result in claim.allocation.devices.results]


SIZE = 7
CONSTRAINTS = st.tuples(st.integers(0, 3), st.sampled_from(["matchAttribute", "distinctAttribute"]), st.sampled_from([NUMA, ODD]))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=SIZE, max_size=SIZE),
    st.lists(st.integers(0, 2), min_size=SIZE, max_size=SIZE),
    st.sampled_from([(1, 3), (2, 3), (1, 1, 3), (1, 3, 1), (3, 3), (2, 1, 2)]),
    st.lists(CONSTRAINTS, min_size=1, max_size=3),
)
def test_what_a_search_remembers_changes_no_choice(
    ranks: list[int], numa: list[int], counts: tuple[int, ...], constraints: list[tuple[int, str, str]]
) -> None:
    found = []
    for short in (0, 10**9):
        state = cluster(ranks, numa)
        state.put(devices.claim_of("p", wanted(counts, constraints)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search, "SHORT", short)
            patch.setattr(search, "COST_OF_STATE_KEY", 0)
            found.append(chosen(state))
    assert found[0] == found[1]


def test_a_search_in_an_order_takes_the_work_of_one_step_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """All orders of the preferred devices are tried, of which there is one too few."""
    half, steps = 9, list[int]()
    state = cluster([1] * half + [2] * (half - 1), [0] * half + [1] * (half - 1))
    state.put(
        devices.claim_of("p", wanted([1] * half, [(0, "matchAttribute", NUMA), (half - 1, "matchAttribute", f"{devices.DRIVER}/number")]))
    )
    usual = search.search

    def counted(*of: Any) -> search.Outcome:
        outcome = usual(*of)
        steps.append(outcome.steps)
        return outcome

    monkeypatch.setattr(device_rule, "search", counted)
    found = chosen(state)
    assert found is not None
    assert sorted(found) == [f"gpu-{place}" for place in range(half)]
    assert steps
    assert max(steps) < search.STEPS_AT_ONCE + 100
