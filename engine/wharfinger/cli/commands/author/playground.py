"""`wharf playground`: serves a page on this machine for writing policies, running their tests, and trying them on a cluster."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from typing import Annotated

import typer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from wharfinger.cli import options, streams
from wharfinger.event_loop import SystemClock
from wharfinger.simulate.cluster import load_cluster, with_nodes
from wharfinger.web.playground.clusters import OwnClusters
from wharfinger.web.playground.workbench import PATH, Workbench, routes
from wharfinger.web.server import Server
from wharfinger.web.ui.pages import static_route

PORT = 10270
HOST = "127.0.0.1"
"""Only this machine is answered: what is typed and uploaded stays on it."""


def wharf_playground(
    snapshot: Annotated[list[str] | None, options.SNAPSHOT] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65_535, help="The port of the page; 0 is any free port.")
    ] = PORT,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> int:
    """Serve a page on which policies are written, tested and tried on a cluster, until Ctrl+C.

    $ wharf playground --snapshot cluster.json.gz --open
    """
    given = {", ".join(snapshot): load_cluster(snapshot, skip_invalid=True)} if snapshot else {}
    for name, cluster in given.items():
        streams.warn(cluster.skipped)
        with_nodes(cluster, name)
    asyncio.run(_serve(OwnClusters(given), port, browser=browser))
    return 0


async def _serve(clusters: OwnClusters, port: int, *, browser: bool) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Server(application(Workbench(clusters, SystemClock())), HOST, port) as server:
        url = f"{server.url}{PATH}"
        streams.print_stderr(f"the playground is at {url}; Ctrl+C ends it")
        if browser and not await asyncio.to_thread(webbrowser.open, url):
            streams.warn(["no browser could be opened"])
        await stop.wait()


def application(workbench: Workbench) -> Starlette:
    """The page by itself; `/` leads to it."""

    async def index(_request: Request) -> Response:
        return RedirectResponse(PATH.removeprefix("/"), 307)

    return Starlette(routes=[Route("/", index), static_route(public=False), *routes(workbench)])
