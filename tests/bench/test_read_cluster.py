"""Reading 5,000 nodes and 50,000 pods into a ClusterState, against what `json.loads` alone takes for the same text."""

import json
import subprocess
import sys

import pytest

from tests.bench import kubectl_output

NODES, PODS = 5_000, 50_000
MAX_MEGABYTES = 600
MOST = 1.5
"""Times `json.loads`, in CPU time; 0.7 to 1.1 were seen."""

READ = """
import json, sys, time
from pathlib import Path
start = time.process_time()
from wharfinger.model.reading import files
from wharfinger.model.state.cluster_state import ClusterState
state = ClusterState.from_objects(files.read_objects([sys.argv[1]]))
seconds = time.process_time() - start
high_water = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
peak = int(high_water.split()[1]) / 1024  # not ru_maxrss: after a fork that counts the memory of the process which started this one
print(json.dumps({"seconds": seconds, "megabytes": peak, "nodes": state.snapshot().n_nodes}))
"""
PARSE = """
import json, sys, time
from pathlib import Path
start = time.process_time()
json.loads(Path(sys.argv[1]).read_bytes())
print(json.dumps({"seconds": time.process_time() - start}))
"""


def run(code, path):
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_large_cluster_is_read_in_about_the_time_that_json_loads_takes(tmp_path, record_property):
    path = tmp_path / "cluster.json"
    kubectl_output.write(path, NODES, PODS)
    rounds = [(run(READ, path), run(PARSE, path)) for _ in range(2)]
    read, parsed = (min(turns, key=lambda figures: figures["seconds"]) for turns in zip(*rounds, strict=True))
    for name, figures in (("read", read), ("json.loads", parsed)):
        record_property(name, figures)
    assert read["nodes"] == NODES
    assert read["megabytes"] < MAX_MEGABYTES
    assert read["seconds"] < MOST * parsed["seconds"]
