"""What was foretold is what happens: random drains, foretold on a snapshot, then done, compared pod by pod.

WHARF_SCENARIOS=500 python -m pytest tests/cluster/test_what_if.py     so many scenarios; few without it
"""

import os

import pytest

from tests.cluster.process import WharfProcess
from tests.cluster.what_if_scenarios import POLICY, Batch, scenario, setting
from wharfinger.what_if.drain import Fate

SCENARIOS = int(os.environ.get("WHARF_SCENARIOS", "8"))
FIRST = int(os.environ.get("WHARF_FIRST_SCENARIO", "0"))
AT_ONCE = 25


@pytest.fixture
def owners(control_plane):
    """The uids of the owners of pods, by namespace and kind."""
    namespaces = [f"scenario-{i}" for i in range(min(SCENARIOS, AT_ONCE))]
    made = [control_plane.api.create(obj) for obj in setting(namespaces)]
    found = {name: {} for name in namespaces}
    for each in made:
        if each["metadata"].get("namespace"):
            found[each["metadata"]["namespace"]][each["kind"]] = each["metadata"]["uid"]
    return found


def test_pods_go_where_a_drain_was_foretold_to_send_them(control_plane, owners, tmp_path, record_property):
    policy = tmp_path / "what_if.policy"
    policy.write_text(POLICY)
    done = []
    with WharfProcess(control_plane, "--policy", policy) as scheduler:
        for first in range(FIRST, FIRST + SCENARIOS, AT_ONCE):
            seeds = range(first, min(first + AT_ONCE, FIRST + SCENARIOS))
            batch = Batch(control_plane, scheduler, made := [scenario(seed, *at) for seed, at in zip(seeds, owners.items(), strict=False)])
            batch.build()
            batch.foretell(tmp_path, policy)
            batch.do()
            batch.compare()
            batch.remove()
            done += made

    fates = {fate.value: sum(len(one.foretold.of(fate)) for one in done) for fate in Fate}
    record_property("scenarios", len(done))
    record_property("fates", fates)
    problems = [f"scenario {one.seed}: {problem}" for one in done for problem in one.problems]
    assert not problems, "\n".join(problems)
    assert all(fates.values()), "the scenarios leave out a kind of outcome"
