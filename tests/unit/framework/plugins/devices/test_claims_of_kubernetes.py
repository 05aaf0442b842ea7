"""Verdicts, devices and scores of DynamicResources are those of Kubernetes' own plugin, in hard cases."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.parity import answer
from tests.parity import case as cases
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.prepared import Attempt, Rejected, Shared, Skip
from wharfinger.framework.registry import Registry, default_registry
from wharfinger.model import objects
from wharfinger.model.reading import decode

ALONE = assemble(registry=Registry((name, plugin) for name, plugin in default_registry().items() if name == "DynamicResources"))
NOW = 1_790_000_000.0


def read():
    with gzip.open(Path(__file__).parents[4] / "cases/claims/cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


CASES = read()


def snapshot_of(case):
    state = cases.cluster({field: value for field, value in case.items() if field != "inFlight"})
    state.set_time(NOW)
    for each in case["inFlight"]:
        claim = decode.convert(each, objects.ResourceClaim)
        state.reserve_devices(claim, claim.status.allocation)
    return state.snapshot()


def at_nodes(snapshot, pod):
    """The answer of the plugin by node: a text where it rejects or fails, else the score and the allocations."""
    (plugin,) = ALONE.filters
    attempt = Attempt(pod, snapshot, Shared())
    rule = plugin.prepare_filter(attempt)
    if isinstance(rule, Skip):
        return {name: {"score": 0} for name in snapshot.names}
    if isinstance(rule, Rejected):
        return {name: {"rejected": rule.reasons[0].text} for name in snapshot.names}
    score = plugin.prepare_score(attempt, np.ones(snapshot.n_nodes, np.bool_))
    points = [0] * snapshot.n_nodes if isinstance(score, Skip) else score.raw(snapshot, slice(None)).tolist()
    found = {}
    for row, bits in enumerate(rule.bits(snapshot, slice(None)).tolist()):
        if bits & rule.fault_bits:
            said = {"error": rule.fault_at(attempt, row)}
        elif bits:
            said = {"rejected": next(reason.text for index, reason in enumerate(rule.reasons) if bits >> index & 1)}
        else:
            allocated = [answer._allocation(each) for each in rule.allocations(attempt, row)]
            said = {"score": points[row], **({"allocations": allocated} if allocated else {})}
        found[snapshot.names[row]] = said
    return found


@pytest.mark.parametrize("vector", CASES, ids=[vector["case"]["id"] for vector in CASES])
def test_a_claim_gets_what_it_gets_in_kubernetes(vector):
    pod, snapshot = cases.pending(vector["case"]), snapshot_of(vector["case"])
    found = {"nodes": at_nodes(snapshot, pod)}
    if "message" in vector["answer"]:
        decision = decide(ALONE, snapshot, pod)
        found["message"] = decision.message.removeprefix(f"{decision.diagnosis.message} ").removesuffix(".")
        found["freed"] = [objects.key_of(each) for each in (decision.deallocate, decision.delete) if each is not None]
    assert found == vector["answer"]
