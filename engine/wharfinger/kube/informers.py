"""One set of watches for everybody in the process who wants to know about the cluster.

The scheduler and the reconcilers see the same events in the same order. Nobody should decide before everything that decides has been
listed once: that is what the sync gate is for. Kinds that we may not read count as kinds without objects and are named in `refused`;
nodes and pods are not optional.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.framework.ports import Clock, ClusterSink, UnreadableSink, stepped
from wharfinger.kube.connection import Connection
from wharfinger.kube.reflector import Reflector, ReflectorSettings, Report
from wharfinger.kube.resources import SCHEDULING, Resource


class Informers:
    """A ClusterSource over all kinds that scheduling needs."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        report: Report,
        *,
        resources: Sequence[Resource] = SCHEDULING,
        settings: ReflectorSettings | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._report = report
        self._settings = settings
        self._resources = resources
        self._sinks: list[ClusterSink] = []
        self._waiting = {resource.name for resource in resources}
        self._gate = asyncio.Event()
        self.reflectors: dict[str, Reflector] = {}

    def subscribe(self, sink: ClusterSink) -> None:
        """None; the sink is told everything from the first list on. RuntimeError once that has begun."""
        if self.reflectors:
            raise RuntimeError("sinks subscribe before the watches start")
        self._sinks.append(sink)

    async def run(self, sink: ClusterSink | None = None) -> None:
        """None, when cancelled: tells every subscriber, and this sink, what there is and what changes."""
        if sink is not None:
            self.subscribe(sink)
        self.reflectors = {
            resource.name: Reflector(self._connection, resource, self, self._clock, self._report, self._settings)
            for resource in self._resources
        }
        async with asyncio.TaskGroup() as watches:
            for name, reflector in self.reflectors.items():
                watches.create_task(reflector.run(), name=f"watch {name}")

    async def wait_synced(self) -> None:
        """None, once every kind has been listed."""
        await self._gate.wait()

    @property
    def unsynced(self) -> frozenset[str]:
        """The kinds that have not been listed yet."""
        return frozenset(self._waiting)

    @property
    def refused(self) -> Mapping[str, str]:
        """Kinds that the API server does not let us read, with what it says."""
        return {name: reflector.refused for name, reflector in self.reflectors.items() if reflector.refused is not None}

    @property
    def absent(self) -> frozenset[str]:
        """Of the refused kinds those that the API server does not have: nobody has installed them."""
        return frozenset(name for name, reflector in self.reflectors.items() if reflector.absent)

    def upsert(self, kind: str, obj: Any) -> None:
        """None; every subscriber is told."""
        for sink in self._sinks:
            sink.upsert(kind, obj)

    def delete(self, kind: str, obj: Any) -> None:
        """None; every subscriber is told."""
        for sink in self._sinks:
            sink.delete(kind, obj)

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """None; every subscriber is told."""
        for sink in self._sinks:
            sink.replace(kind, objs)

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """The steps of `replace`, of one subscriber after the other."""
        for sink in self._sinks:
            yield from stepped(sink, kind, objs)

    def unreadable(self, kind: str, obj: Any, error: InvalidObject, *, listed: bool) -> None:
        """None; every subscriber who wants to know is told."""
        for sink in self._sinks:
            if isinstance(sink, UnreadableSink):
                sink.unreadable(kind, obj, error, listed=listed)

    def synced(self, kind: str) -> None:
        """None; every subscriber is told, and with the last kind the gate opens."""
        for sink in self._sinks:
            sink.synced(kind)
        self._waiting.discard(kind)
        if not self._waiting:
            self._gate.set()
