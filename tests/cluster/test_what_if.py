"""Predictions are correct: random questions are answered on a snapshot, then carried out, and compared pod by pod.

WHARF_SCENARIOS=500 python -m pytest tests/cluster/test_what_if.py     that many scenarios; few without it
"""

import itertools
import json
import os
import re
import subprocess
from collections import Counter

import pytest

from tests.cluster import asked_scenarios, graceful_scenarios
from tests.cluster.live import NAME
from tests.cluster.process import WharfProcess
from tests.cluster.scenario_kinds import KINDS, scenario
from tests.cluster.what_if_batch import DECISION_LOG, Batch
from tests.cluster.what_if_scenarios import OTHER_NAME, OTHER_POLICY, POLICY, DrainScenario, setting
from tests.testbed import build
from wharfinger.what_if.drain.answer import DrainOutcome

SCENARIOS = int(os.environ.get("WHARF_SCENARIOS", "24"))
FIRST = int(os.environ.get("WHARF_FIRST_SCENARIO", "0"))
AT_ONCE = 50
TURNS = itertools.count()
ANSWERS = {
    *(f"drain: {outcome}" for outcome in ("placed", "waits", "gone", "forbidden", "refused", "stays")),
    *("rebalance: moves", "rebalance: stays"),
    *("gangs: fits", "gangs: does not fit"),
    *("capacity: fits", "capacity: does not fit", "diff: changes", "diff: same"),
    *("workloads: fits", "workloads: does not fit", "log: changes", "log: same"),
}

ASKED = {
    *(f"evaluate: {answer}" for answer in ("placed", "waits", "gone", "forbidden", "refused", "new nodes", "drained nodes")),
    *(f"preview: {answer}" for answer in ("placed", "waits", "further", "drained", "drainedForbidden", "drainedRefused", "new nodes")),
}

GRACEFUL = {f"drain: {outcome}" for outcome in ("placed", "waits", "gone", "forbidden", "refused", "stays")}

RARE = {"evaluate: refused", "preview: drainedForbidden", "drain: placed", "gangs: fits"}
"""Answers that fewer than a hundred scenarios may leave out."""


@pytest.fixture
def owners(control_plane):
    """The uids of the owners of pods, by namespace and kind."""
    turn = next(TURNS)  # the namespaces of the test before may not be gone yet
    namespaces = [f"scenario-{turn}-{i}" for i in range(min(SCENARIOS, AT_ONCE))]
    made = [control_plane.api.create(obj) for obj in setting(namespaces)]
    found = {name: {} for name in namespaces}
    for each in made:
        if each["metadata"].get("namespace"):
            found[each["metadata"]["namespace"]][each["kind"]] = each["metadata"]["uid"]
    return found


@pytest.fixture
def policies(tmp_path):
    """The policy file of each scheduler."""
    found = {NAME: tmp_path / "one.policy", OTHER_NAME: tmp_path / "other.policy"}
    found[NAME].write_text(POLICY)
    found[OTHER_NAME].write_text(OTHER_POLICY)
    return found


@pytest.fixture
def scheduler(defined, policies, tmp_path):
    """A `wharf run` with both schedulers; each compares its decisions with the policies of the other, which must change nothing.

    Its backoffs are longer than the queue takes, so that the order of attempts does not depend on the speed of the machine. They end while
    a test waits: an attempt may fail because a controller has written the same volume.
    """
    shadows = {NAME: policies[OTHER_NAME], OTHER_NAME: policies[NAME]}
    settings = {
        "apiVersion": "config.wharfinger.dev/v1alpha1",
        "kind": "WharfingerConfiguration",
        "profiles": [
            {"schedulerName": name, "policies": [str(path)], "shadowPolicies": [str(shadows[name])]} for name, path in policies.items()
        ],
        "podInitialBackoffSeconds": 20,
        "podMaxBackoffSeconds": 20,
    }
    (tmp_path / "wharf.yaml").write_text(json.dumps(settings))
    flags = ["--config", tmp_path / "wharf.yaml", "--custom-resources", "--tenant-policies=Trusted"]
    flags += ["--decision-log", tmp_path / DECISION_LOG]
    with WharfProcess(defined, *flags) as running:
        yield running


@pytest.mark.parametrize(
    ("drawn", "expected", "share"),
    [
        pytest.param(scenario, ANSWERS, 1, id="commands"),
        pytest.param(asked_scenarios.scenario, ASKED, 1, id="running scheduler"),
        pytest.param(graceful_scenarios.scenario, GRACEFUL, 3, id="graceful drains"),
    ],
)
def test_the_prediction_is_what_happens(control_plane, scheduler, owners, policies, tmp_path, record_property, drawn, expected, share):  # noqa: PLR0917
    done = []
    for first in range(FIRST, FIRST + SCENARIOS // share, AT_ONCE):
        seeds = range(first, min(first + AT_ONCE, FIRST + SCENARIOS // share))
        made = [drawn(seed, *place) for seed, place in zip(seeds, owners.items(), strict=False)]
        batch = Batch(control_plane, scheduler, made)
        batch.build()
        batch.foretell(tmp_path, policies)
        batch.do()
        batch.compare()
        batch.remove()
        done += made

    answers = sum((one.answers for one in done), Counter())
    record_property("scenarios", len(done))
    record_property("answers", dict(answers))
    problems = [f"scenario {one.seed} ({type(one).__name__}): {problem}" for one in done for problem in one.problems]
    assert not problems, "\n".join(problems)
    _, metrics = scheduler.get("/metrics")
    assert re.search(r'^wharfinger_policy_shadow_decisions_total\{[^}]*result="disagree"[^}]*\} [1-9]', metrics, re.MULTILINE)
    assert {answer for answer, n in answers.items() if n} >= (expected if len(done) >= 100 else expected - RARE), (
        "the scenarios leave out a kind of answer"
    )


def kubectl_drain(control_plane, node, *, force, delete_empty_dir_data):
    """(the pods that `kubectl drain` would evict from a node, the pods because of which it refuses); it evicts none if it refuses."""
    flags = ["--force"] * force + ["--delete-emptydir-data"] * delete_empty_dir_data
    command = [
        build.program("kubectl"),
        f"--kubeconfig={control_plane.kubeconfig}",
        "drain",
        node,
        "--dry-run=client",
        "--ignore-daemonsets",
    ]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=120, check=False)
    evicted = set(re.findall(r"^evicting pod (\S+)", done.stdout, re.MULTILINE))
    refusals = " ".join(re.findall(r"cannot delete [^:]*: ([^\]\n]*)", done.stderr))
    return evicted, set(re.findall(r"[\w-]+/[\w-]+", refusals))


def test_kubectl_refuses_the_drains_that_are_predicted_to_be_refused(control_plane, scheduler, owners, policies, tmp_path):
    made = [scenario(seed, *place) for seed, place in zip(range(0, len(KINDS) * len(owners), len(KINDS)), owners.items(), strict=True)]
    assert {type(one) for one in made} == {DrainScenario}
    batch = Batch(control_plane, scheduler, made)
    batch.build()
    batch.foretell(tmp_path, policies)
    seen = Counter()
    for one in made:
        for node in one.drained:
            pods = [pod for pod in one.predicted.pods if pod.source == node]
            refused = {pod.pod for pod in pods if pod.outcome is DrainOutcome.REFUSED}
            others = {pod.pod for pod in pods if pod.outcome not in {DrainOutcome.REFUSED, DrainOutcome.STAYS}}
            found = kubectl_drain(control_plane, node, **one.options)
            assert found == (set() if refused else others, refused), one.seed
            seen.update(["refused" if refused else "evicted"] if pods else [])
    assert seen.keys() == {"refused", "evicted"}
