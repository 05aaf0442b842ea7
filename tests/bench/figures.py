"""The figures of docs/performance.md: `python -m tests.bench.figures [core|families|scaling|processes]…` prints its tables.

Everything is measured through the commands that users have, so that anyone can repeat a single row. Absolute figures are those of
one machine on one day; the page says which.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHARF = str(Path(sys.executable).with_name("wharf"))
TEN_TERMS = str(Path(__file__).with_name("ten_terms.policy"))
SPREAD, GPU_BIN_PACK = (str(ROOT / "policies" / f"{name}.policy") for name in ("spread", "gpu-bin-pack"))
RUNS = 2

CORE = (
    ("5,000 nodes, ten terms, 1 template", 15_000, f"--policy {TEN_TERMS} --nodes 5000 --pods 10000"),
    ("5,000 nodes, ten terms, 100 templates", 8_000, f"--policy {TEN_TERMS} --nodes 5000 --pods 10000 --templates 100"),
    ("50,000 nodes, ten terms, 1 template", 10_000, f"--policy {TEN_TERMS} --nodes 50000 --pods 10000"),
)
BUSY = "--nodes 5000 --running 10000 --pods 3000 --family"
FAMILIES = (
    ("basic", 10_000),
    ("spread-zone", 5_000),
    ("spread-zone-soft", 5_000),
    ("spread-default", 5_000),
    ("anti-affinity", 5_000),
    ("anti-affinity-preferred", 3_000),
    ("affinity", 3_000),
    ("affinity-preferred", 3_000),
    ("churn", 3_000),
    ("unschedulable", 5_000),
    ("preemption", 200),
)
SCALED = ("basic", "spread-zone", "affinity-preferred")


def bench(options: str) -> float:
    """Decisions per second: the best of some runs, because noise only ever slows a run down."""
    command = [WHARF, "bench", *options.split(), "--format", "json"]
    runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(RUNS)]
    return max(run["decisionsPerSecond"] for run in runs)


def core() -> None:
    """Prints decisions per second of a policy of ten terms over Kubernetes' own plugins."""
    print("\n| `wharf bench …` | goal | decisions/s | µs |\n|---|---|---|---|")
    for name, goal, options in CORE:
        rate = bench(options)
        print(f"| {name} | {goal:,} | {rate:,.0f} | {1e6 / rate:,.0f} |", flush=True)


def families() -> None:
    """Prints decisions per second of each family at 5,000 nodes with 10,000 pods running."""
    print("\n| `--family` | goal | decisions/s | µs |\n|---|---|---|---|")
    for family, goal in FAMILIES:
        rate = bench(f"{BUSY} {family}")
        print(f"| {family} | {goal:,} | {rate:,.0f} | {1e6 / rate:,.0f} |", flush=True)


def scaling() -> None:
    """Prints microseconds per decision against nodes, and against running pods."""
    for axis, sizes in (("nodes", (500, 5_000, 50_000)), ("running", (1_000, 10_000, 100_000))):
        print(f"\n| µs per decision, {axis} | " + " | ".join(f"{size:,}" for size in sizes) + " |\n|---|" + "---|" * len(sizes))
        for family in SCALED:
            other = "--running 1000" if axis == "nodes" else "--nodes 5000"
            rates = [bench(f"--family {family} --pods 2000 {other} --{axis} {size}") for size in sizes]
            print(f"| {family} | " + " | ".join(f"{1e6 / rate:,.0f}" for rate in rates) + " |", flush=True)


def processes() -> None:
    """Prints seconds and peak memory of whole processes."""
    print("\n| process | goal | seconds | peak MB |\n|---|---|---|---|")
    compile_sources()
    with tempfile.TemporaryDirectory() as folder:
        cluster = f"{folder}/cluster.json"
        subprocess.run([sys.executable, "-m", "tests.bench.kubectl_output", "5000", "50000", cluster], cwd=ROOT, check=True)
        load = f"import wharfinger; wharfinger.load_snapshot({cluster!r})"
        diff = [WHARF, "diff", "--replace", "all", "--snapshot"]
        for name, goal, command in (
            ("`import wharfinger`", "0.15 s", [sys.executable, "-c", "import wharfinger"]),
            ("`wharf check` of one policy", "0.35 s", [WHARF, "check", TEN_TERMS]),
            ("`wharf dry-run --snapshot openb:default`", "1.2 s", [WHARF, "dry-run", "--snapshot", "openb:default"]),
            ("`wharf diff --replace all` on OpenB", "4 s", [*diff, "openb:default", "--policy", GPU_BIN_PACK]),
            ("`wharf diff --replace all` on 5,000 nodes and 50,000 pods", "30 s", [*diff, cluster, "--policy", SPREAD]),
            ("load 5,000 nodes and 50,000 pods", "3 s, 600 MB", [sys.executable, "-c", load]),
        ):
            seconds, megabytes = min(whole_process(command) for _ in range(RUNS))
            print(f"| {name} | {goal} | {seconds:.2f} | {megabytes:,.0f} |", flush=True)


def compile_sources() -> None:
    """Compiles the modules to bytecode, as pip does. With PYTHONDONTWRITEBYTECODE, each process would compile 200 of them again."""
    compileall.compile_dir(ROOT / "engine", quiet=1)


def whole_process(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak resident megabytes of a command, its output thrown away.

    The peak counts what this process had when it started the command, so call it before anything large is in memory.
    """
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return time.perf_counter() - started, usage.ru_maxrss / 1024


PARTS = {"core": core, "families": families, "scaling": scaling, "processes": processes}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
