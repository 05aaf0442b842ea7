"""The web application of the scheduler: its routes, error answers, and `/metrics`.

/healthz /livez /readyz   health, as Kubernetes' components answer it   (health.py)
/metrics                  Prometheus
/debug/profile            CPU profile of the event loop                 (debug.py)
/debug/cache              the cache compared with the API server        (debug.py)
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from wharfinger.web import debug as looking_inside
from wharfinger.web import health
from wharfinger.web.debug import Debug
from wharfinger.web.health import Checks
from wharfinger.web.request_rate import Shared

_SMALL = 1400  # bytes; what goes into one packet anyway is not worth compressing


def route(registry: CollectorRegistry) -> Route:
    """The route of `/metrics`; `?name[]=…` limits it to some series, as Prometheus' own federation does."""
    shared: Shared[tuple[bytes, bool]] = Shared()

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        names = tuple(request.query_params.getlist("name[]"))
        zips = bool(gzip_accepted(request.headers.get("Accept-Encoding", "")))

        def compute() -> tuple[bytes, bool]:
            content = encode(registry.restricted_registry(names) if names else registry)
            zipped = zips and len(content) > _SMALL
            return (gzip.compress(content, compresslevel=1) if zipped else content), zipped

        content, zipped = await shared.answer((content_type, names, zips), compute)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers)

    return Route("/metrics", metrics)


def application(
    checks: Checks, registry: CollectorRegistry, debug: Debug | None = None, extra_routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application; without `debug` nothing under `/debug` is there."""
    routes: list[BaseRoute] = [*health.routes(checks), route(registry), *extra_routes]
    if debug is not None:
        routes += looking_inside.routes(debug)
    app = Starlette(
        routes=[Route("/", _index(routes)), *routes],
        middleware=[Middleware(looking_inside.Nearby)] if debug is not None and not debug.from_anywhere else (),
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.router.redirect_slashes = False
    return app


def _index(routes: Iterable[BaseRoute]) -> Callable[[Request], Awaitable[Response]]:
    paths = [route.path for route in routes if isinstance(route, Route) and "{" not in route.path]

    async def index(_request: Request) -> Response:
        return PlainTextResponse("\n".join([*sorted(paths), ""]))

    return index


async def _refused(_request: Request, error: Exception) -> Response:
    """`404 Not Found`, `405 Method Not Allowed`."""
    if not isinstance(error, HTTPException):
        raise error
    return PlainTextResponse(f"{error.status_code} {error.detail}\n", error.status_code, headers=error.headers)


async def _failed(_request: Request, _error: Exception) -> Response:
    """No word of what went wrong: that is for the log, where the server writes it."""
    return PlainTextResponse("500 Internal Server Error\n", 500)
