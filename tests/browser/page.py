"""The live page of a real scheduler whose cluster is in memory, served on a free port from its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TypeVar

from prometheus_client import CollectorRegistry

from tests.in_memory import InMemoryCluster
from tests.observed import subscribed
from wharfinger.cli.commands.author.playground import application as alone
from wharfinger.daemon.live_page import LivePageContent
from wharfinger.daemon.observation import decision_pages, evaluations_of
from wharfinger.daemon.pages import policy_pages, workbench_of
from wharfinger.daemon.policies import connect
from wharfinger.emit import Emit, Failed
from wharfinger.event_loop import SystemClock
from wharfinger.framework.chain import assemble
from wharfinger.kube.connection import ServerContact
from wharfinger.model import objects
from wharfinger.model.reading.decode import convert
from wharfinger.policies.folder import FolderSource
from wharfinger.policies.ledger import ConfiguredSource
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.live_answers import LiveExplanations
from wharfinger.scheduler.ports import Ports
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.simulate.workloads import node_manifests
from wharfinger.telemetry.policies import ReloadHistory
from wharfinger.telemetry.recent_decisions import RecentDecisions, SchedulingHistory
from wharfinger.web import decisions, policies
from wharfinger.web.app import Checks, application
from wharfinger.web.playground import workbench as playground
from wharfinger.web.playground.clusters import OwnClusters
from wharfinger.web.playground.workbench import Workbench
from wharfinger.web.server import Server
from wharfinger.web.ui import pages
from wharfinger.web.ui.feed import Feed

PROFILE = "wharfinger"
T = TypeVar("T")


@dataclass
class Standing:
    """The part of a daemon that the page reads."""

    scheduler: Scheduler
    shadows: Any
    contact: ServerContact
    signals: Any  # the metrics of policies, of which there are none
    identity: str = "this-machine_4711"
    leads: bool = True
    leader: str = ""


@dataclass
class Known:
    """The part of `Health` that the page reads."""

    daemon: Standing | None = None


@dataclass
class FailureHandler:
    """Remembers what went wrong."""

    errors: list[str] = field(default_factory=list)

    def hear(self, event: Failed) -> None:
        """Remembers an error."""
        self.errors.append(f"{event.where}: {type(event.error).__name__}: {event.error}")


class SchedulerPage:
    """Schedules and serves while the context lasts. `folder` has policies, which are followed."""

    def __init__(self, folder: Path | None = None, cluster: InMemoryCluster | None = None) -> None:
        self._folder = folder
        self.cluster = InMemoryCluster() if cluster is None else cluster
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="scheduler", daemon=True)
        self.failures = FailureHandler()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20), "the page is not served"
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive(), "the page does not end"

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{self._server.url}/ui"

    def ask(self, question: Callable[[SchedulerPage], T]) -> T:
        """The answer to a question, evaluated on the event loop that schedules."""

        async def ask() -> T:
            return question(self)

        return asyncio.run_coroutine_threadsafe(ask(), self.loop).result(60)

    def put(self, manifests: Iterable[Mapping[str, Any]], kind: type[Any]) -> None:
        """Add these objects to the cluster."""

        def put(page: SchedulerPage) -> None:
            for manifest in manifests:
                page.cluster.put(convert(manifest, kind))

        self.ask(put)

    def remove(self, kind: str, key: str) -> None:
        """Remove that object from the cluster."""
        self.ask(lambda page: page.cluster.remove(kind, key))

    async def _main(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        clock, known = SystemClock(), Known()
        self.recent = RecentDecisions(clock.now, clock.monotonic)
        reloads, self.history = ReloadHistory(clock.now), SchedulingHistory(self.recent, clock)
        subscribers = subscribed(self.recent.handlers, reloads.handlers, {Failed: self.failures.hear})
        store = await self._store(clock, subscribers.emit)
        ports = Ports(binder=self.cluster, writer=self.cluster, events=self.cluster, clock=clock, emit=subscribers.emit)
        self.scheduler = Scheduler(store.active.chains, ports, rest=store.build_thread.rest, suspension_changed=store.suspension_changed)
        known.daemon = self.standing = Standing(
            self.scheduler,
            connect(store, self.scheduler, clock, subscribers),
            ServerContact(lambda: 0.0),
            SimpleNamespace(metrics=(), metrics_of=lambda _policy: ()),
        )
        reported = policy_pages(store, known)
        page_content = LivePageContent(known, reported, self.recent, reloads, self.history, clock)
        self.page = pages.LivePage(page_content=page_content, feed=Feed(page_content, clock, subscribers.emit))
        routes = [
            *policies.routes(reported),
            *decisions.routes(decision_pages(self.recent, known, LiveExplanations(clock))),
            *pages.routes(self.page),
            *decisions.evaluation_routes(evaluations_of(known, clock)),
            *playground.routes(workbench_of(known, clock)),
        ]
        async with Server(application(Checks(), CollectorRegistry(), None, routes)) as self._server:
            self.cluster.connect(self.scheduler.sink)
            await self._run(store)
            self.page.feed.close()

    async def _store(self, clock: SystemClock, emit: Emit) -> PolicyStore:
        sources = [] if self._folder is None else [FolderSource(str(self._folder), name=str(self._folder))]
        configured = [ConfiguredSource(source=source, profiles=frozenset({PROFILE})) for source in sources]
        store = PolicyStore(configured, {PROFILE: assemble()}, clock, emit=emit)
        for source in sources:
            await source.offer(store)
        await store.build_offers()
        return store

    async def _run(self, store: PolicyStore) -> None:
        tasks = [asyncio.create_task(self.scheduler.run()), asyncio.create_task(store.run())]
        self._ready.set()
        await self._stop.wait()
        self.scheduler.stop()
        await tasks[0]
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)


def nodes(count: int) -> list[dict[str, Any]]:
    """Nodes of ten zones, ready, of which some are cordoned, and one is not ready."""
    made = node_manifests(count)
    for index, node in enumerate(made):
        node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown" if index == 7 else "True"}]
        node["spec"]["unschedulable"] = index % 40 == 3
    return made


def pod(name: str, *, cpu: str = "500m", memory: str = "1Gi", node: str = "", labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A pod of our scheduler, running on a node if one is given."""
    made = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": {
            "schedulerName": PROFILE,
            "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
        "status": {"phase": "Running" if node else "Pending"},
    }
    if node:
        made["spec"]["nodeName"] = node
    return made


NODE, POD = objects.Node, objects.Pod


class PlaygroundPage:
    """The page of `wharf playground`, served while the context lasts."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="playground", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20), "the page is not served"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with Server(alone(Workbench(OwnClusters(), SystemClock()))) as server:
            self.url = f"{server.url}/ui/playground"
            self._ready.set()
            await self._stop.wait()
