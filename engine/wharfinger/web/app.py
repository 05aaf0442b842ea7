"""The web application of the scheduler, put together.

/healthz /livez /readyz   health, as Kubernetes' components tell it     (health.py)
/metrics                  Prometheus                                    (metrics.py)
/debug/profile            what the process spends its time on           (profile.py)
/debug/cache              what it believes against what is so           (debug.py)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from wharfinger.web import debug as looking_inside
from wharfinger.web import health, metrics
from wharfinger.web.debug import Debug
from wharfinger.web.health import Checks


def application(
    checks: Checks, registry: CollectorRegistry, debug: Debug | None = None, extra_routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application; without `debug` nothing under `/debug` is there."""
    routes: list[BaseRoute] = [*health.routes(checks), metrics.route(registry), *extra_routes]
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
