"""Measures hostile texts: `python -m tests.bench.hostile [WORD…]` checks, compiles and decides with each text whose name has a word in it.

Each text is checked and compiled in a separate process, which gives its seconds and its memory. The accepted ones then decide about pods on
a cluster of 1,000 nodes and 10,000 placed pods, in another process. Seconds are those of the processor. The slowest ones are printed, and
everything above the goals.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.hostile.texts import makers
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.compiler.program import compile_policy
from wharfinger.errors import WharfingerError
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.language.load import TextSet
from wharfinger.language.report import render
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError
from wharfinger.language.semantics import typed
from wharfinger.model import objects
from wharfinger.model.attributes import MAX_ANNOTATION_LENGTH
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate import workloads

NODES, PLACED, DECIDED = 1000, 10_000, 5
ANNOTATIONS = {"a": "a" * MAX_ANNOTATION_LENGTH}  # of each pod that is decided about: as long as policies read them
MAX_CHECK_SECONDS, MAX_MEGABYTES, MAX_DECISION_SECONDS = 1.0, 200, 0.1
PATIENCE = 30  # seconds of the processor until a process is given up
SHOWN = 12


def apart(call: Callable[[], dict[str, Any]], patience: int = PATIENCE) -> dict[str, Any]:
    """The result of a call in a separate process, with the peak megabytes of the process.

    The process is ended after `patience` seconds of the processor, however much else the machine does.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (patience, patience))
        answer = call()
        answer["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else {"seconds": float(patience), "verdict": "no end", "megabytes": 0.0}


def loaded(text: str, diagnostics: Diagnostics) -> typed.Policy | None:
    """The policy of a text as the policy store gets it."""
    return TextSet(texts={"hostile.policy": text.encode()}).check("hostile.policy", CATALOGUE, diagnostics).policy


def check(text: str) -> dict[str, Any]:
    """The seconds of checking, reporting and compiling a text, and what came of it."""
    diagnostics = Diagnostics()
    start = time.process_time()
    policy = loaded(text, diagnostics)
    render.render(diagnostics)
    checked = time.process_time() - start
    errors = sorted({d.code.name for d in diagnostics if d.severity.value == "error"})
    verdict = "refused: " + ", ".join(errors) if policy is None else "accepted"
    if policy is not None:
        try:
            cost.affordable(compile_policy(policy))
        except PolicyError as error:
            verdict = "refused: " + ", ".join(sorted({d.code.name for d in error.diagnostics if d.severity.value == "error"}))
        except WharfingerError as error:
            verdict = f"refused: {error}"
    return {"checked": checked, "seconds": time.process_time() - start, "verdict": verdict}


def cluster() -> ClusterState:
    """1,000 nodes with 10,000 pods."""
    state = ClusterState()
    for manifest in workloads.node_manifests(NODES):
        state.add_node(decode.convert(manifest, objects.Node))
    for manifest in workloads.running_manifests(PLACED, NODES):
        state.add_pod(decode.convert(manifest, objects.Pod))
    return state


def decide(text: str, state: ClusterState) -> dict[str, Any]:
    """The seconds of the first decision with a text, and of the dearest of some later ones, each about another pod."""
    policy = loaded(text, Diagnostics())
    assert policy is not None
    decider = Decider(assemble([compile_policy(policy)]))
    taken = []
    for manifest in workloads.pod_manifests(DECIDED, DECIDED):
        manifest["metadata"]["annotations"] = ANNOTATIONS
        pod = PodView(decode.convert(manifest, objects.Pod))
        snapshot = state.snapshot(1_700_000_000.0)
        start = time.process_time()
        decision = decider.decide(snapshot, pod)
        taken.append(time.process_time() - start)
        if decision.node is not None:
            state.assume(pod, decision.node)
    return {"first": taken[0], "seconds": max(taken[1:]), "verdict": "decided"}


def table(title: str, head: str, rows: list[tuple[str, ...]]) -> None:
    """Prints a table in Markdown."""
    print(f"\n{title}\n\n| {head} |\n|{'---|' * (head.count('|') + 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main(words: list[str]) -> None:
    """Measures and prints."""
    wanted = [(name, make()) for name, make in makers().items() if not words or any(word in name for word in words)]
    checks = {name: apart(lambda text=text: check(text)) for name, text in wanted}
    slow = sorted(checks.items(), key=lambda item: -item[1]["seconds"])
    head = "text | check s | and compile s | MB | verdict"
    shown = [
        pair for i, pair in enumerate(slow) if i < SHOWN or pair[1]["seconds"] > MAX_CHECK_SECONDS or pair[1]["megabytes"] > MAX_MEGABYTES
    ]
    rows = [(n, f"{f.get('checked', PATIENCE):.2f}", f"{f['seconds']:.2f}", f"{f['megabytes']:.0f}", f["verdict"]) for n, f in shown]
    table(f"{len(wanted)} texts checked and compiled", head, rows)
    state = cluster()
    accepted = [(name, text) for name, text in wanted if checks[name]["verdict"] == "accepted"]
    decisions = {name: apart(lambda text=text: decide(text, state)) for name, text in accepted}
    slow = sorted(decisions.items(), key=lambda item: -item[1]["seconds"])
    shown = [pair for i, pair in enumerate(slow) if i < SHOWN or pair[1]["seconds"] > MAX_DECISION_SECONDS]
    rows = [(name, f"{1e3 * f.get('first', PATIENCE):.0f}", f"{1e3 * f['seconds']:.0f}", f"{f['megabytes']:.0f}") for name, f in shown]
    table(f"{len(accepted)} accepted texts at {NODES:,} nodes and {PLACED:,} pods", "text | first decision ms | later ms | MB", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
