"""The ways in and out of the scheduler: to the API server, or to nowhere."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.framework.ports import Clock, ClusterSink, Observer
from wharfinger.kube.api_server import ApiServer
from wharfinger.runtime.reporting_ports import NoEvents, ReportingBinder, ReportingWriter, Supposed
from wharfinger.runtime.world import Ports


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The ports, and what stands between the watches and the scheduler, if anything does."""

    ports: Ports
    between: Supposed | None = None

    def sink(self, scheduler: ClusterSink) -> ClusterSink:
        """Who is to be told what the watches say, so that the scheduler is."""
        if self.between is None:
            return scheduler
        self.between.sink = scheduler
        return self.between


def writing(server: ApiServer, clock: Clock, observer: Observer) -> Ways:
    """The ways to and from an API server."""
    ports = Ports(
        binder=server.binder,
        writer=server.writer,
        volumes=server.volumes,
        events=server.events,
        leadership=server.leadership,
        clock=clock,
        observer=observer,
    )
    return Ways(ports=ports)


def reporting(clock: Clock, observer: Observer) -> Ways:
    """The ways of a run that writes nothing."""
    supposed = Supposed()
    writer = ReportingWriter(supposed)
    ports = Ports(binder=ReportingBinder(), writer=writer, volumes=writer, events=NoEvents(), clock=clock, observer=observer)
    return Ways(ports=ports, between=supposed)
