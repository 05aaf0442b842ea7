"""Measures `POST /evaluate` while pods are scheduled, and the slow-down of these: `python -m tests.bench.evaluations [WINDOWS]`.

5,000 nodes with 50,000 pods in memory, 200 pods a second, and a process that requests over HTTP where a pod would go: half of the pods fit,
half fit on no node. Windows with questions and without take turns, so that whatever else the machine does concerns both. Printed are the
50th and 99th percentile of the answers in milliseconds, and that of scheduling (from the arrival of a pod to its binding) with questions as
a multiple of that without. `--profile` prints what the event loop did in the windows with questions instead, by function.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import http.client
import json
import multiprocessing
import pstats
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from tests.browser import page
from tests.in_memory import InMemoryCluster
from wharfinger.garbage_collection import without_full_collections
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading.decode import convert
from wharfinger.simulate.workloads import node_manifests, running_manifests

NODES, PODS, PACE, QUESTIONS = 5_000, 50_000, 200, 2
WINDOW = 10.0
"""Seconds of one window."""
LEAD = 2.0
TICK = 0.05
GOAL, GOAL_RATIO = 100.0, 1.2
"""The goals: milliseconds of an answer at the 99th percentile, and the multiple of scheduling's."""


class TimedCluster(InMemoryCluster):
    """A cluster in memory that stores when each pod was created and bound."""

    def __init__(self) -> None:
        super().__init__()
        self.came: dict[str, float] = {}
        self.waits: list[tuple[float, float]] = []

    async def bind(self, pod: PodView, node: str) -> None:
        """Bind it, and note how long that took from its arrival."""
        await super().bind(pod, node)
        came = self.came.pop(pod.key, None)
        if came is not None:
            self.waits.append((came, time.monotonic() - came))


def manifest(number: int) -> dict[str, Any]:
    """The pod of a request; every second one fits on no node."""
    requests = {"cpu": "100m" if number % 2 else "900", "memory": "64Mi"}
    spec = {"schedulerName": page.PROFILE, "containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"asked-{number}", "namespace": "shop"}, "spec": spec}


def ask(url: str, windows: Any, found: Any) -> None:
    """Ask at a steady pace in each window of a queue (the moment it begins; None ends), and put how long answers took into another one.

    An answer takes from when its question was due. The first questions, before the window, only let the copy of the state catch up with
    the time without questions.
    """
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    for begins in iter(windows.get, None):
        took = []
        for number in range(-2, int(WINDOW * QUESTIONS)):
            due = begins + number / QUESTIONS
            time.sleep(max(0.0, due - time.monotonic()))
            connection.request("POST", "/evaluate", json.dumps({"objects": [manifest(number)]}), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            reported = json.loads(answer.read())
            assert answer.status == 200, reported
            assert reported["placed"] == number % 2, reported
            took.append(time.monotonic() - due)
        found.put(took[2:])


def arrivals(served: page.SchedulerPage, begins: float, seconds: float) -> Iterator[None]:
    """Let pods come at a steady pace; yields after each tick."""
    cluster = served.cluster
    assert isinstance(cluster, TimedCluster)
    name, came = f"run-{begins:.0f}", 0

    def put(pods: Sequence[objects.Pod]) -> None:
        for pod in pods:
            cluster.came[f"{pod.metadata.namespace}/{pod.metadata.name}"] = time.monotonic()
            cluster.put(pod)

    while (elapsed := time.monotonic() - begins) < seconds:
        due = int(elapsed * PACE) - came
        pods = [convert(page.pod(f"{name}-{came + more}", cpu="10m", memory="8Mi"), objects.Pod) for more in range(due)]
        came += due
        served.loop.call_soon_threadsafe(put, pods)
        yield
        time.sleep(TICK)


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which this part of the values is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def measured(
    served: page.SchedulerPage, rounds: int, windows: Any, found: Any, profiler: cProfile.Profile | None
) -> tuple[list[float], list[float], list[float]]:
    """(how long answers took, how long pods waited in windows with questions, and in those without), in seconds."""
    cluster = served.cluster
    assert isinstance(cluster, TimedCluster)
    answers: list[float] = []
    waits: tuple[list[float], list[float]] = ([], [])
    for turn in range(2 * rounds):
        begins, asked = time.monotonic() + LEAD, turn % 2 == 1
        if asked:
            windows.put(begins)
        if asked and profiler is not None:
            served.ask(lambda _: profiler.enable())
        for _ in arrivals(served, begins - LEAD, WINDOW + LEAD):
            pass
        if asked:
            answers += found.get(timeout=60)
        if asked and profiler is not None:
            served.ask(lambda _: profiler.disable())
        time.sleep(1.0)
        waits[asked].extend(wait for came, wait in cluster.waits if came >= begins)
        cluster.waits.clear()
    return answers, waits[True], waits[False]


def filled(served: page.SchedulerPage) -> None:
    """Put nodes and running pods into the cluster, a portion at a time."""
    served.put(node_manifests(NODES), objects.Node)
    running = list(running_manifests(PODS, NODES))
    for pod in running:
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    for first in range(0, PODS, 2_000):
        served.put(running[first : first + 2_000], objects.Pod)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.evaluations", description=__doc__.partition("\n")[0])
    parser.add_argument("windows", nargs="?", type=int, default=6, help="windows of ten seconds of each sort")
    parser.add_argument("--profile", action="store_true", help="print where the event loop spends its time")
    asked = parser.parse_args()
    with without_full_collections(), page.SchedulerPage(cluster=TimedCluster()) as served:  # garbage is looked for as by `wharf run`
        filled(served)
        time.sleep(2.0)
        processes = multiprocessing.get_context("spawn")
        windows, found = processes.Queue(), processes.Queue()
        client = processes.Process(target=ask, args=(served.url, windows, found))
        client.start()
        windows.put(time.monotonic())
        found.get()  # the copy of the state is made with the first question
        gc.freeze()
        profiler = cProfile.Profile() if asked.profile else None
        answers, meanwhile, alone = measured(served, asked.windows, windows, found, profiler)
        windows.put(None)
        client.join()
    if profiler is not None:
        pstats.Stats(profiler).sort_stats(pstats.SortKey.CUMULATIVE).print_stats(70)
        return 0
    p50, p99 = (percentile(answers, part) * 1000 for part in (0.5, 0.99))
    before, after = (percentile(waits, 0.99) * 1000 for waits in (alone, meanwhile))
    print(f"{len(answers):,} answers beside {PACE} pods/s: P50 {p50:.0f} ms, P99 {p99:.0f} ms, longest {max(answers) * 1000:.0f} ms")
    print(f"scheduling P99: {before:.1f} ms without questions, {after:.1f} ms with: {after / before:.2f} times")
    return 0 if p99 <= GOAL and after / before <= GOAL_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
