"""Measures signals: decisions that read them, and refreshing them next to the scheduler's loop.

`python -m tests.bench.signals` prints both; tests hold the ratio and the pause.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

from wharfinger import garbage_collection
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.language.check import check
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.types import Kind
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.signals.fair_queue import Requester, Workers
from wharfinger.signals.mapping import Mapped, NodeNames, in_turn, mapped
from wharfinger.signals.prometheus import vector
from wharfinger.signals.query import Query
from wharfinger.simulate import workloads

NODES = 5_000
QUERIES = 10
PER_SECOND = 2_000
"""Decisions in one second of the clock, with which samples age."""

TEN_TERMS = Path(__file__).with_name("ten_terms.policy").read_text("utf-8")
THREE_RULES = """
metric cpu: percent = prometheus('cpu', node: "instance", max_age: 2min, window: 2min)
metric memory: percent = prometheus('memory', node: "instance", max_age: 2min)
metric deviation: percent = prometheus('deviation', node: "instance", max_age: 2min)

let cpu_after = cpu + ratio(unseen_requests(cpu).cpu + pod.requests.cpu, node.capacity.cpu)
let memory_after = memory + ratio(unseen_requests(memory).memory + pod.requests.memory, node.capacity.memory)

filter not_hot { require cpu_after <= 95% and memory_after <= 95% else "hot" on missing pass }
score near_target weight 6 = curve(cpu_after, 0% -> 40, 60% -> 100, 95% -> 0) on missing neutral
score steady weight 2 = curve(cpu_after + deviation, 0% -> 100, 100% -> 0) on missing neutral
"""


def policy(text: str) -> CompiledPolicy:
    """The compiled policy of a text."""
    diagnostics = Diagnostics()
    file = parse(Source(name="bench.policy", text=text), diagnostics)
    checked = None if file is None else check(file, CATALOGUE, diagnostics)
    assert checked is not None, [str(found.message) for found in diagnostics.found]
    return compile_policy(checked)


class Deciding:
    """A policy deciding at 5,000 nodes with 10,000 pods running."""

    def __init__(self, text: str, decisions: int = 2_000) -> None:
        self._policy = policy(text)
        self._work = workloads.workload("basic", workloads.Size(nodes=NODES, pods=decisions, running=10_000))
        self._began = self._work.state.snapshot().now

    def seconds(self) -> float:
        """CPU seconds per decision of a burst that takes seconds of the clock, with samples that are new at its beginning."""
        state, pods = self._work.state, self._work.pods
        decider = Decider(assemble((self._policy,)))
        measure(state, self._policy, self._began)
        decider.decide(state.snapshot(self._began), pods[0])
        started = time.thread_time()
        for number, pod in enumerate(pods):
            decision = decider.decide(state.snapshot(self._began + number // PER_SECOND), pod)
            state.assume(pod, decision.node or "")
        spent = time.thread_time() - started
        for pod in pods:
            state.forget(pod)
        return spent / len(pods)


def compared(rounds: int = 6) -> tuple[float, float]:
    """CPU seconds per decision without and with three metric rules: the best of some alternating rounds."""
    without, measured = Deciding(TEN_TERMS), Deciding(TEN_TERMS + THREE_RULES)
    times = [(without.seconds(), measured.seconds()) for _ in range(rounds)]
    return min(time for time, _ in times), min(time for _, time in times)


def measure(state: ClusterState, compiled: CompiledPolicy, now: float) -> None:
    """Give every node a sample of every metric."""
    names = state.snapshot().names
    for index, metric in enumerate(compiled.policy.metrics):
        state.set_metric(metric.signal, {name: ((row * 7 + index) % 60 / 100, now - row % 15) for row, name in enumerate(names)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """CPU seconds of a round of refreshes, and the longest pause of the event loop during it."""

    cpu: float
    pause: float


async def refresh(state: ClusterState, queries: int = QUERIES) -> Refreshed:
    """The cost of one round: answers of 5,000 series each are decoded, mapped and published, three at a time, next to a busy loop."""
    names = list(state.snapshot().names)
    answers = [answer(names, index) for index in range(queries)]
    workers = Workers("bench", 6, time.monotonic)  # of which one asker has three
    pauses: list[float] = []
    ticking = asyncio.create_task(_tick(pauses))
    await asyncio.sleep(0.05)
    pauses.clear()
    began = time.process_time()

    async def one(index: int) -> None:
        query = Query(key=f"q{index}", kind=Kind.PERCENT, source="prometheus", text="q", refresh=15.0, server="default", node="instance")
        nodes = NodeNames(*state.nodes_listed())
        found = await workers.run(partial(_worked_on, answers[index], query, nodes), Requester("bench"))
        state.put_metric(query.key, found.column, found.samples, found.layout)

    await asyncio.gather(*(one(index) for index in range(queries)))
    cpu = time.process_time() - began
    ticking.cancel()
    return Refreshed(cpu=cpu, pause=max(pauses))


def _worked_on(content: bytes, query: Query, nodes: NodeNames) -> Mapped:
    found = vector(content)
    with in_turn():
        return mapped(found, query, nodes)


async def _tick(pauses: list[float]) -> None:
    """Never returns; notes how long the loop took to come round, which is 1 ms of rest and what others made of it."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        pauses.append(time.perf_counter() - before - 0.001)


def answer(names: list[str], index: int) -> bytes:
    """The answer of Prometheus about these nodes, with as many labels as node-exporter's series usually have."""
    result = [
        {
            "metric": {"instance": f"{name}:9100", "job": "node-exporter", "cluster": "production"},
            "value": [1.7e9, str((row + index) % 97 / 100)],
        }
        for row, name in enumerate(names)
    ]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def stretches(state: ClusterState) -> list[float]:
    """The CPU seconds that one answer is worked on at a stretch, between rests: no other thread runs Python meanwhile."""
    query = Query(key="q", kind=Kind.PERCENT, source="prometheus", text="q", refresh=15.0, server="default", node="instance")
    nodes = NodeNames(*state.nodes_listed())
    content = answer(list(nodes.names), 0)
    found: list[float] = []
    began = time.thread_time()

    def rest(_seconds: float) -> None:
        nonlocal began
        found.append(time.thread_time() - began)
        began = time.thread_time()

    with mock.patch("wharfinger.signals.mapping.time.sleep", rest):
        series = vector(content)
        rest(0.0)
        mapped(series, query, nodes)
        rest(0.0)
    return found


def main() -> None:
    """Prints the figures."""
    without, measured = compared()
    print(f"decision, ten terms: {1e6 * without:.0f} µs; with three metric rules: {1e6 * measured:.0f} µs ({measured / without:.2f} ×)")
    state = workloads.workload("basic", workloads.Size(nodes=NODES, pods=1, running=0)).state
    longest = min(max(stretches(state)) for _ in range(5))
    with garbage_collection.without_full_collections():  # as in the process that runs
        rounds = [asyncio.run(refresh(state)) for _ in range(8)]
    print(f"refresh of {QUERIES} × {NODES:,}: {1e3 * min(each.cpu for each in rounds):.0f} ms CPU")
    print(
        f"longest stretch of work: {1e3 * longest:.1f} ms; longest pauses of the loop: {[round(1e3 * each.pause, 1) for each in rounds]} ms"
    )


if __name__ == "__main__":
    main()
