"""`wharf run` from its settings to its end: policies, logs, the web server, the connection, the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from wharfinger.daemon.admission import admission_served
from wharfinger.daemon.cache_report import cache_report
from wharfinger.daemon.compose import Daemon, connection_of
from wharfinger.daemon.connecting import first_contact
from wharfinger.daemon.custom import Custom
from wharfinger.daemon.health import Health
from wharfinger.daemon.live.page import live_page
from wharfinger.daemon.policies import policies_of, remote_sources
from wharfinger.daemon.policy_pages import policies_told
from wharfinger.daemon.readings import read_from
from wharfinger.daemon.seeing import ToldToo, decisions_shown, recorder_of, traces_of
from wharfinger.daemon.settings import Settings
from wharfinger.daemon.signal_telemetry import TelemetrySignalObserver
from wharfinger.daemon.tasks import Tasks
from wharfinger.errors import WharfingerError
from wharfinger.framework.ports import Clock
from wharfinger.kube.connection import Connection
from wharfinger.kube.discovery import ServerVersion
from wharfinger.runtime.system_clock import SystemClock
from wharfinger.telemetry import logs
from wharfinger.telemetry.admission import reviews_seen
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics
from wharfinger.telemetry.observer import TelemetryObserver
from wharfinger.telemetry.policies import TelemetryPolicyObserver
from wharfinger.telemetry.recent_decisions import RecentDecisions
from wharfinger.telemetry.reconciles import TelemetryReconcileObserver
from wharfinger.telemetry.requests import requests_seen
from wharfinger.web import decisions, policies
from wharfinger.web.app import application
from wharfinger.web.debug import Debug
from wharfinger.web.server import Server
from wharfinger.web.ui import pages as ui


async def serve(settings: Settings, *, stop: asyncio.Event) -> None:
    """None, after `stop`: schedules until then. PolicyError or UsageError before anything is connected to, LeadershipLost later."""
    async with AsyncExitStack() as opened:
        written = logs.configure(settings.logging.format, settings.logging.level)
        opened.callback(written.close)
        log = logs.logger()
        if settings.dry_run:
            log = log.bind(dry_run=True)
        clock, health, metrics = SystemClock(), Health(), Metrics(CollectorRegistry())
        metrics.read(Metric.LOG_LINES_LEFT_OUT, lambda: {("unread",): written.writer.left_out})
        telemetry = TelemetryObserver(metrics, log, clock.monotonic)
        opened.callback(telemetry.close)
        recent = RecentDecisions(clock.now, clock.monotonic)
        observer = ToldToo(telemetry, recent.attempted, *traces_of(settings.tracing, telemetry, clock, opened))
        recorder = recorder_of(settings.decision_log, observer, opened)
        connection = connection_of(settings, clock)
        remote = remote_sources(settings, connection, clock, observer.failed)
        custom = Custom(connection, clock, observer, TelemetryReconcileObserver(metrics)) if settings.custom_resources else None
        resources = None if custom is None else custom.resources.source
        store = await policies_of(settings, clock, TelemetryPolicyObserver(metrics, log), log.warning, remote, resources=resources)
        if settings.port:
            debug = Debug(cache=partial(_cache, health, connection), from_anywhere=settings.remote_debugging)
            told = policies_told(store, health)
            page = live_page(health, told, recent, store, clock=clock, failed=observer.failed, to_anybody=settings.remote_ui)
            shown = decisions_shown(recent, health, clock, to_anybody=settings.remote_ui)
            pages = [*policies.routes(told), *decisions.routes(shown), *ui.routes(page)]
            server = Server(application(health.checks, metrics.registry, debug, pages), settings.bind_address, settings.port)
            log.info("serving", url=(await opened.enter_async_context(server)).url)
            opened.callback(page.feed.close)
        if settings.admission is not None:
            seen = reviews_seen(metrics)
            await opened.enter_async_context(admission_served(settings.admission, settings.bind_address, seen, clock, log))
        await opened.enter_async_context(connection)
        connection.answered = requests_seen(metrics, connection.credentials.server)
        version = await _reached(connection, clock, log, stop)
        if version is None:
            return
        log.info("connected", server=connection.credentials.server, version=version.text)
        daemon = Daemon(
            settings,
            store,
            connection,
            version,
            observer=observer,
            clock=clock,
            log=log,
            custom=custom,
            state=None if recorder is None else recorder.state,
            signal_observer=TelemetrySignalObserver(metrics, log),
        )
        for beside in [recent.decided, *([] if recorder is None else [recorder.decided])]:
            daemon.scheduler.show_decisions(beside)
        read_from(daemon, metrics, settings.leader_election.resource_name)
        health.watch(daemon)
        await daemon.run(stop)
        log.info("stopped")


async def _cache(health: Health, connection: Connection) -> Mapping[str, Any]:
    """What `/debug/cache` answers."""
    if health.daemon is None:
        raise WharfingerError("the API server has not answered yet")
    return await cache_report(connection, health.daemon.scheduler.state)


async def _reached(connection: Connection, clock: Clock, log: Any, stop: asyncio.Event) -> ServerVersion | None:
    """The version of the API server as soon as it answers, None when told to stop before that."""
    contact = asyncio.ensure_future(first_contact(connection, clock, log.warning))
    async with Tasks() as tasks:
        await tasks.until(contact, stop)
    if contact.done():
        return contact.result()
    contact.cancel()
    return None
