"""Counts the function calls for a pod until it is bound and its event is written, without an API server.

    python -m tests.bench.pod_calls --pods 2000 --gang 4

The loop, the queue, decisions, bindings, events, metrics and log lines are those of `wharf run`. Requests are answered at once and the
watch shows their effects, so neither HTTP nor TLS is counted. Calls are counted and not timed: the figure is nearly the same everywhere.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from tests.bench_cluster.workloads import nodes
from tests.cluster import objects as manifests
from wharfinger.emit import Subscribers
from wharfinger.event_loop import SystemClock
from wharfinger.framework.chain import assemble
from wharfinger.kube import wire
from wharfinger.kube.api_server import ports_of
from wharfinger.kube.events import EventSettings
from wharfinger.model import objects
from wharfinger.scheduler.ports import Ports
from wharfinger.scheduler.scheduler import Scheduler, SchedulerSettings
from wharfinger.telemetry import logs
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.recent_decisions import RecentDecisions
from wharfinger.telemetry.scheduling import SchedulingTelemetry

ZONE = "topology.kubernetes.io/zone"


class Answering:
    """A `Connection` that answers at once, and the watch of pods and PodGroups: an API server copies the zone to a pod that it binds."""

    def __init__(self, zones: dict[str, str], counting: cProfile.Profile) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.changed: list[tuple[type[objects.AnyObject], bytes]] = []
        self._zones = zones
        self._counting = counting

    async def request(self, _method: str, path: str, *, body: bytes = b"", **_more: object) -> bytes:
        """An empty response, after the change of the request."""
        await asyncio.sleep(0)
        self._counting.disable()
        place, _, part = path.rpartition("/")
        found = self.objects.get(place.rpartition("/")[2])
        if found is not None and part == "binding":
            node = msgspec.json.decode(body)["target"]["name"]
            found["spec"]["nodeName"] = node
            found["metadata"]["labels"][ZONE] = self._zones[node]
            self._change(objects.Pod, found)
        elif found is not None and part == "status":
            found["status"] = msgspec.json.decode(body)["status"]
            self._change(objects.PodGroup, found)
        self._counting.enable()
        return b"{}"

    def _change(self, kind: type[objects.AnyObject], found: dict[str, Any]) -> None:
        found["metadata"]["resourceVersion"] = f"{len(self.changed) + 1}{found['metadata']['name']}"
        self.changed.append((kind, msgspec.json.encode(found)))


async def count(n_pods: int, n_nodes: int, gang: int) -> float:
    """The number of calls per pod."""
    counting = cProfile.Profile()
    made = list(nodes(0, n_nodes))
    connection: Any = Answering({node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in made}, counting)
    clock, subscribers = SystemClock(), Subscribers()
    lines = logs.configure("json", write=lambda _line: None)
    telemetry = SchedulingTelemetry(Metrics(CollectorRegistry()), logs.log(), clock.monotonic)
    subscribers.subscribe(telemetry.handlers)
    subscribers.subscribe(RecentDecisions(clock.now, clock.monotonic).handlers)
    server = ports_of(connection, clock, subscribers.emit, events=EventSettings(controller="wharfinger", instance="counted"))
    ports = Ports(
        binder=server.binder,
        writer=server.writer,
        volumes=server.volumes,
        claims=server.claims,
        groups=server.groups,
        events=server.events,
        leadership=server.leadership,
        clock=clock,
        emit=subscribers.emit,
        stopwatch=telemetry.stopwatch,
    )
    scheduler = Scheduler(
        {"wharfinger": assemble()}, ports, SchedulerSettings(slice_seconds=10.0)
    )  # else its load decides how many pods a slice has
    sink = scheduler.sink
    sink.replace("Node", [_read(node, objects.Node) for node in made])
    groups = [manifests.podgroup(f"g{number}", gang) for number in range(-(-n_pods // gang) if gang else 0)]
    pods = [_pod(number, gang) for number in range(n_pods)]
    connection.objects = {each["metadata"]["name"]: each for each in (*groups, *pods)}
    sink.replace("PodGroup", [_read(group, objects.PodGroup) for group in groups])
    events = asyncio.create_task(server.recorder.run())
    counting.enable()
    sink.replace("Pod", [_read(pod, objects.Pod) for pod in pods])
    for kind in ("Node", "Pod", "PodGroup"):
        sink.synced(kind)
    scheduling = asyncio.create_task(scheduler.run())
    while len(scheduler.queue) or scheduler.n_binding or scheduler.n_writing or server.recorder.n_waiting or connection.changed:
        changed, connection.changed = connection.changed, []
        for kind, raw in changed:
            sink.upsert(kind.__name__, wire.struct_of(msgspec.Raw(raw), kind))
        await asyncio.sleep(0)
    counting.disable()
    scheduler.stop()
    await scheduling
    events.cancel()
    lines.close()
    calls: int = pstats.Stats(counting).total_calls  # type: ignore[attr-defined]  # the stubs leave it out
    return calls / n_pods


def _pod(number: int, gang: int) -> dict[str, Any]:
    group = {"schedulingGroup": {"podGroupName": f"g{number // gang}"}} if gang else {}
    pod: dict[str, Any] = manifests.pod(f"pod-{number:05d}", labels={"app": "counted"}, scheduler="wharfinger", **group)
    pod["metadata"] |= {"uid": f"uid-{number:05d}", "resourceVersion": "1"}
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}
    return pod


def _read(manifest: dict[str, Any], kind: type[objects.AnyObject]) -> Any:
    return wire.struct_of(msgspec.Raw(msgspec.json.encode(manifest)), kind)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pod_calls", description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gang", type=int, default=0, help="pods of a PodGroup; 0 for pods without groups")
    asked = parser.parse_args()
    print(f"{asyncio.run(count(asked.pods, asked.nodes, asked.gang)):.1f} function calls per pod")
