"""Measures the reload of 200 policies, and the longest gap between two cycles meanwhile: `python -m tests.bench.reload_gap`.

Pods come without end to a scheduler on a cluster in memory, all policies of a set are replaced at once, and the moments at which decisions
begin are kept. For comparison the same is measured while nothing is reloaded.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.in_memory import InMemoryCluster
from tests.observed import subscribed
from wharfinger.event_loop import SystemClock
from wharfinger.framework.chain import assemble
from wharfinger.framework.policy_status import PolicyText
from wharfinger.garbage_collection import collect_when_idle
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.policies.active import ActivePolicies
from wharfinger.policies.candidate import Sample, sample_of
from wharfinger.policies.ledger import ConfiguredSource
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.events import Decided
from wharfinger.scheduler.ports import Ports
from wharfinger.scheduler.scheduler import Scheduler

NAME = "wharfinger"
POLICIES = 200
TEST = """test "goes there" {
  node big { memory: 8Gi }
  pod web { labels: {"team": "TEAM"}, requests: { memory: 1Gi } }
  place web
  expect web on big
}
"""


def text(index: int, edition: int, tests: bool) -> str:
    """A policy of the size that people write: two filters, two scores, a param, for the pods of one team."""
    team = f"team-{index}"
    return f"""policy "p{index}" version "{edition}.0.0"
for pods where pod.labels["team"] == "{team}"
param keep_free: percent = {5 + edition % 5}% range 0%..50%
let here = count(pods where it.labels["team"] == pod.labels["team"], on: node)
filter room {{
  require ratio(node.free.memory - pod.requests.memory, node.allocatable.memory) >= keep_free
    else "would leave less than {{keep_free}} of memory free" on missing reject
}}
filter own when pod.priority >= 1000 {{
  reject (node.labels["lifecycle"] ?? "on-demand") == "spot" else "critical pod on a spot node"
}}
score apart weight 3 = -here normalize minmax
score emptier weight 1 = ratio(node.free.cpu, node.allocatable.cpu) normalize minmax on missing skip
{TEST.replace("TEAM", team) if tests else ""}"""


class Source:
    """A source of policies that the measurement sets."""

    name, empty_is_lost, imports = "bench", True, True

    async def run(self, _sink: Any) -> None:
        """Run until cancelled."""
        await asyncio.Event().wait()


class Scheduling:
    """The scheduler interface of the policy store."""

    suspended: Mapping[tuple[str, str], object] = {}

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def adopt(self, active: ActivePolicies) -> None:
        """Decide with these policies."""
        self._scheduler.adopt(active.chains)

    def sample(self) -> Sample:
        """A part of the cluster."""
        return sample_of(self._scheduler.state.snapshot(), (queued.pod for queued in self._scheduler.queue))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Seconds; how many policies were replaced, and how many decisions were seen."""

    reload: float
    longest_gap: float
    longest_gap_at_rest: float
    decisions: int
    replaced: int


async def measure(*, nodes: int = 1000, tests: bool = False, policies: int = POLICIES, seconds: float = 2.0, busy: bool = True) -> Figures:
    """The figures of one run; unless `busy`, there is nothing to schedule and the gaps mean nothing."""
    cluster, clock, moments = InMemoryCluster(), SystemClock(), []
    ports = Ports(
        binder=cluster,
        writer=cluster,
        events=cluster,
        clock=clock,
        emit=subscribed({Decided: lambda _: moments.append(time.perf_counter())}).emit,
    )
    source = Source()
    store = PolicyStore([ConfiguredSource(source=source, profiles=frozenset({NAME}))], {NAME: assemble()}, clock)
    _offer(store, 0, policies, tests)
    await store.build_offers()
    scheduler = Scheduler(store.active.chains, ports, rest=store.build_thread.rest)
    store.connect(Scheduling(scheduler))
    for index in range(nodes):
        cluster.put(_node(index))
    cluster.connect(scheduler.sink)
    scheduler.sink.synced("Policies")
    work = (scheduler.run(), collect_when_idle(lambda: False, clock, asyncio.Event().wait))
    running = [*map(asyncio.create_task, work), *([asyncio.create_task(_keep_coming(cluster, scheduler, policies))] if busy else [])]
    await asyncio.sleep(seconds)
    at_rest = await _longest_gap(moments, asyncio.sleep(seconds))
    began = time.perf_counter()
    _offer(store, 1, policies, tests)
    gap = await _longest_gap(moments, store.build_offers())
    ended = time.perf_counter()
    await asyncio.sleep(seconds / 4)
    gap = max(gap, _gap([moment for moment in moments if moment >= began]))
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    replaced = sum(policy.version == "1.0.0" for policy in store.active.chains[NAME].policies)
    return Figures(reload=ended - began, longest_gap=gap, longest_gap_at_rest=at_rest, decisions=len(moments), replaced=replaced)


async def _longest_gap(moments: list[float], work: Any) -> float:
    first = len(moments)
    await work
    return _gap(moments[max(0, first - 1) :])


def _gap(moments: list[float]) -> float:
    return max((after - before for before, after in pairwise(moments)), default=0.0)


def _offer(store: PolicyStore, edition: int, policies: int, tests: bool) -> None:
    texts = {f"p{i}.policy": PolicyText(name=f"p{i}.policy", content=text(i, edition, tests).encode()) for i in range(policies)}
    store.offer("bench", texts)


async def _keep_coming(cluster: InMemoryCluster, scheduler: Scheduler, policies: int) -> None:
    """Puts small pods of all teams as fast as they are placed, and takes the placed ones away again."""
    index = 0
    while True:
        full = len(scheduler.queue) >= 50
        if not full:
            for _ in range(20):
                cluster.put(_pod(index, policies))
                index += 1
                if index > 2000:
                    cluster.remove("Pod", f"default/p{index - 2000}")
        await asyncio.sleep(0.001 if full else 0)


def _node(index: int) -> objects.Node:
    room = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    metadata = {"name": f"n{index}", "labels": {"kubernetes.io/hostname": f"n{index}", "topology.kubernetes.io/zone": f"z{index % 3}"}}
    return decode.convert({"metadata": metadata, "status": {"allocatable": room, "capacity": room}}, objects.Node)


def _pod(index: int, policies: int) -> objects.Pod:
    requests = {"cpu": "10m", "memory": "16Mi"}
    metadata = {"name": f"p{index}", "namespace": "default", "uid": f"u{index}", "labels": {"team": f"team-{index % min(20, policies)}"}}
    spec = {"schedulerName": NAME, "containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]}
    return decode.convert({"metadata": metadata, "spec": spec}, objects.Pod)


def main() -> None:
    """Prints a table; `--json` for programs."""
    rows = {
        f"{POLICIES} policies{', each with a test' if tests else ''}{'' if busy else ', nothing to schedule'}": asyncio.run(
            measure(tests=tests, busy=busy)
        )
        for busy in (True, False)
        for tests in (False, True)
    }
    if "--json" in sys.argv:
        print(json.dumps({name: {key: getattr(row, key) for key in Figures.__slots__} for name, row in rows.items()}, indent=2))
        return
    print("| reload | seconds | longest gap between two decisions | without a reload |\n|---|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} | {row.reload:.2f} | {1000 * row.longest_gap:.0f} ms | {1000 * row.longest_gap_at_rest:.0f} ms |")


if __name__ == "__main__":
    main()
