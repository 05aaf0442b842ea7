"""`wharf drain` of 50 of 5,000 nodes with 50,000 pods as a whole process, against what `json.loads` alone takes for the snapshot."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import kubectl_output

NODES, PODS, DRAINED = 5_000, 50_000, 50
MOST = 4.0
"""Times `json.loads`; reading the cluster takes about one of them."""
PARSE = "import json, sys; from pathlib import Path; json.loads(Path(sys.argv[1]).read_bytes())"


def seconds(*command):
    """(the CPU seconds of a process, what it printed)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


@pytest.mark.slow
def test_a_drain_of_a_large_cluster_takes_little_more_than_reading_it(tmp_path, record_property):
    path = tmp_path / "cluster.json"
    kubectl_output.write(path, NODES, PODS)
    names = [f"node-{number:05d}" for number in range(DRAINED)]
    wharf = Path(sys.executable).with_name("wharf")
    rounds = [(seconds(wharf, "drain", *names, "-s", path, "--format=json"), seconds(sys.executable, "-c", PARSE, path)) for _ in range(2)]
    drained, parsed = (min(turn[side][0] for turn in rounds) for side in (0, 1))
    record_property("drain", drained)
    record_property("json.loads", parsed)
    report = json.loads(rounds[0][0][1])
    assert report["summary"]["placed"] == PODS // NODES * DRAINED
    assert drained < MOST * parsed
