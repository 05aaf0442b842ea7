"""`wharf run` from its settings to its end: policies, logs, web server, connection, daemon.

Requests the version of the API server until it answers. Errors that waiting cannot cure end the process with a message: refused
credentials, an untrusted certificate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import aiohttp
import numpy.ma  # noqa: F401 — `np.unique` and `np.isin` import it when they are called first, which would be in a step of the event loop

from wharfinger.daemon.admission import admission_served
from wharfinger.daemon.compose import Daemon, connection_of
from wharfinger.daemon.live_page import LivePageContent, reading
from wharfinger.daemon.observation import Observation, decision_pages, evaluations_of, observation_of, read_from, rules_of
from wharfinger.daemon.pages import Health, cache_report, policy_pages, workbench_of
from wharfinger.daemon.policies import policies_of, remote_sources, rights_of
from wharfinger.daemon.settings import Settings
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.event_loop import BuildThread, SystemClock, Tasks
from wharfinger.framework.ports import Clock
from wharfinger.kube import api_errors
from wharfinger.kube.api_errors import RequestBackoff
from wharfinger.kube.api_server import ServerVersion, server_version
from wharfinger.kube.connection import Connection
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.operator.compose import Operator
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.live_answers import LiveExplanations
from wharfinger.telemetry.logs import Log
from wharfinger.telemetry.metrics import request_handlers, review_counter
from wharfinger.telemetry.timing import EventLoopLag
from wharfinger.web import decisions, policies
from wharfinger.web.app import Debug, application
from wharfinger.web.playground import workbench as playground
from wharfinger.web.server import Server
from wharfinger.web.ui import pages as ui
from wharfinger.web.ui.feed import Feed

Report = Callable[[str], None]


async def wait_for_server(connection: Connection, clock: Clock, report: Report) -> ServerVersion:
    """The version of the API server, as soon as it answers; UsageError if it can never answer this client."""
    waits = RequestBackoff(initial=0.5)
    while True:
        try:
            return await server_version(connection)
        except api_errors.TRANSIENT as error:
            if _is_about_trust(error):
                raise UsageError(f"cannot trust the API server {connection.credentials.server}: {error}") from error
            report(f"the API server {connection.credentials.server} does not answer yet, asking again: {error}")
            await clock.sleep(waits.after(error))
        except api_errors.Unauthorized as error:
            raise UsageError(f"the API server {connection.credentials.server} refuses the credentials: {error}") from error
        except api_errors.Forbidden:
            return ServerVersion(release=(0, 0), text="unknown")  # not needed: lists are then read in pages
        except api_errors.ApiError as error:
            raise UsageError(f"{connection.credentials.server} does not answer as an API server does: {error}") from error


def _is_about_trust(error: api_errors.ApiError) -> bool:
    return isinstance(error.__cause__, aiohttp.ClientConnectorCertificateError)


async def serve(settings: Settings, *, stop: asyncio.Event) -> None:
    """Schedule until `stop`. Raises PolicyError or UsageError before anything is connected to, LeadershipLost later."""
    async with AsyncExitStack() as opened:
        clock, health = SystemClock(), Health()
        observation = observation_of(settings, clock, opened)
        log, metrics, subscribers = observation.log, observation.metrics, observation.subscribers
        connection = connection_of(settings, clock, subscribers.emit)
        rights = rights_of(settings)
        max_apps = settings.limits.policy_apps
        custom = Operator(connection, clock, subscribers.emit, rights, max_apps) if settings.custom_resources else None
        store = await _policies(settings, observation, connection, custom, clock, rights)
        if settings.port:
            await _served(settings, observation, store, health, connection, clock, opened)
        if settings.admission is not None:
            seen = review_counter(metrics)
            served = admission_served(settings.admission, settings.bind_address, seen, clock, log, rights)
            await opened.enter_async_context(served)
        await opened.enter_async_context(connection)
        subscribers.subscribe(request_handlers(metrics, connection.credentials.server))
        version = await _reached(connection, clock, log, stop)
        if version is None:
            return
        log.info("connected", server=connection.credentials.server, version=version.text)
        daemon = Daemon(
            settings,
            store,
            connection,
            version,
            subscribers=subscribers,
            clock=clock,
            log=log,
            custom=custom,
            state=observation.state,
            stopwatch=observation.scheduling.stopwatch,
        )
        observation.scheduling.limit_rules_to(lambda: rules_of(daemon.scheduler))
        steps = EventLoopLag(metrics)
        read_from(daemon, metrics, settings.leader_election.resource_name)
        health.watch(daemon)
        async with Tasks() as tasks:
            tasks.start(steps.run(), "steps of the event loop")
            tasks.start(observation.history.run(partial(reading, daemon.scheduler)), "history")
            await daemon.run(stop)
        log.info("stopped")


async def _policies(  # noqa: PLR0913, PLR0917 — collaborators, passed in by the composition
    settings: Settings, observation: Observation, connection: Connection, custom: Operator | None, clock: Clock, rights: TenantRights
) -> PolicyStore:
    return await policies_of(
        settings,
        clock,
        observation.subscribers.emit,
        observation.log.warning,
        remote_sources(settings, connection, clock, observation.subscribers.emit),
        resources=None if custom is None else custom.source,
        rights=rights,
    )


async def _served(  # noqa: PLR0913, PLR0917 — collaborators, passed in by the composition
    settings: Settings,
    observation: Observation,
    store: PolicyStore,
    health: Health,
    connection: Connection,
    clock: Clock,
    opened: AsyncExitStack,
) -> None:
    """Serve health, metrics and all pages until the context ends."""
    debug = Debug(cache=partial(_cache, health, connection, BuildThread(clock)), from_anywhere=settings.remote_debugging)
    explanations = LiveExplanations(clock)
    shown_policies = policy_pages(store, health, explanations, public=settings.remote_ui)
    page_content = LivePageContent(health, shown_policies, observation.recent, observation.reloads, observation.history, clock)
    page = ui.LivePage(page_content=page_content, feed=Feed(page_content, clock, observation.subscribers.emit), public=settings.remote_ui)
    shown = decision_pages(observation.recent, health, explanations, public=settings.remote_ui)
    answers = evaluations_of(health, clock, public=settings.remote_ui)
    pages = [*policies.routes(shown_policies), *decisions.routes(shown), *decisions.evaluation_routes(answers), *ui.routes(page)]
    if settings.playground:
        pages += playground.routes(workbench_of(health, clock), public=settings.remote_ui, setting="remoteUi")
    app = application(health.checks, observation.metrics.registry, debug, pages)
    server = await opened.enter_async_context(Server(app, settings.bind_address, settings.port))
    observation.log.info("serving", url=server.url)
    opened.callback(page.feed.close)


async def _cache(health: Health, connection: Connection, thread: BuildThread) -> Mapping[str, Any]:
    """The answer of `/debug/cache`."""
    if health.daemon is None:
        raise WharfingerError("the API server has not answered yet")
    return await cache_report(connection, health.daemon.scheduler.state, thread)


async def _reached(connection: Connection, clock: Clock, log: Log, stop: asyncio.Event) -> ServerVersion | None:
    """The version of the API server as soon as it answers, None if the process is stopped before that."""
    contact = asyncio.ensure_future(wait_for_server(connection, clock, log.warning))
    async with Tasks() as tasks:
        await tasks.until(contact, stop)
    if contact.done():
        return contact.result()
    contact.cancel()
    return None
