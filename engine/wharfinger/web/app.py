"""The web application of the scheduler: its routes, error answers, health checks and `/metrics`.

/healthz /livez /readyz   health, as Kubernetes' components answer it
/metrics                  Prometheus
/debug/profile            CPU profile of the event loop                 (debug.py)
/debug/cache              the cache compared with the API server        (debug.py)

The format of health checks is that of staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go, Kubernetes 1.36, with one difference:
reasons are not withheld, as clients that may ask for the health may know why a check fails.

    GET /readyz                       200 ok
    GET /readyz?verbose               200 [+]informer-sync ok … readyz check passed
    GET /readyz?exclude=informer-sync
    GET /readyz/informer-sync         that check alone
"""

from __future__ import annotations

import asyncio
import gzip
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from wharfinger.web import debug as looking_inside
from wharfinger.web.debug import Debug
from wharfinger.web.requests import Shared

Check = Callable[[], "str | Awaitable[str | None] | None"]
"""A health check: returns None if it passes, else the reason why it fails; an exception is a failure too."""

CHECK_TIMEOUT = 5.0
"""Seconds that a check may take."""

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}

_MIN_GZIP_BYTES = 1400  # bytes; a response that fits into one packet is not worth compressing


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """Checks by name, in the order of the answer.

    A failure of a `live` check means that the process should be restarted (`/livez`, and `/healthz`, its old name); a failure of a `ready`
    check means that it does not do its work now.
    """

    live: Mapping[str, Check] = field(default_factory=dict)
    ready: Mapping[str, Check] = field(default_factory=dict)


def health_routes(checks: Checks) -> list[Route]:
    """The routes of `/healthz`, `/livez` and `/readyz`."""
    by_path = {"healthz": checks.live, "livez": checks.live, "readyz": checks.ready}
    return [route for name, own in by_path.items() for route in _routes(name, {"ping": _ping, **own})]


def _ping() -> None:
    """Passes always: a process that answers is up."""


def _routes(name: str, checks: Mapping[str, Check]) -> list[Route]:
    async def all_checks(request: Request) -> Response:
        return await _answer(name, checks, request)

    async def one_check(request: Request) -> Response:
        return await _answer_one(checks, request.path_params["check"])

    return [Route(f"/{name}", all_checks), Route(f"/{name}/{{check}}", one_check)]


async def _answer(name: str, checks: Mapping[str, Check], request: Request) -> Response:
    excluded = dict.fromkeys(word for words in request.query_params.getlist("exclude") for word in words.split(",") if word)
    lines, failed = [], False
    for own, check in checks.items():
        if own in excluded:
            lines.append(f"[+]{own} excluded: ok")
            continue
        reason = await outcome(check)
        failed = failed or reason is not None
        lines.append(f"[+]{own} ok" if reason is None else f"[-]{own} failed: {reason}")
    unknown = [f'"{word}"' for word in excluded if word not in checks]
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
    if failed:
        return _text("\n".join([*lines, f"{name} check failed", ""]), 500)
    return _text("\n".join([*lines, f"{name} check passed", ""]) if "verbose" in request.query_params else "ok")


async def _answer_one(checks: Mapping[str, Check], own: str) -> Response:
    check = checks.get(own)
    if check is None:
        return _text(f"there is no check {own}; there are {', '.join(checks)}\n", 404)
    reason = await outcome(check)
    return _text("ok") if reason is None else _text(f"internal server error: {reason}\n", 500)


async def outcome(check: Check) -> str | None:
    """The reason why a check fails, in one line; None if it passes. A check that raises or takes longer than `CHECK_TIMEOUT` fails."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            found = check()
            reason = await found if inspect.isawaitable(found) else found
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT:g} s"
    except Exception as error:  # noqa: BLE001 — a check that raises fails
        return f"{type(error).__name__}: {_one_line(str(error))}"
    return None if reason is None else _one_line(reason)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _text(content: str, status: int = 200) -> Response:
    return PlainTextResponse(content, status, headers=_HEADERS)


def route(registry: CollectorRegistry) -> Route:
    """The route of `/metrics`; `?name[]=…` limits it to some series, as Prometheus' own federation does."""
    shared: Shared[tuple[bytes, bool]] = Shared()

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        names = tuple(request.query_params.getlist("name[]"))
        zips = bool(gzip_accepted(request.headers.get("Accept-Encoding", "")))

        def compute() -> tuple[bytes, bool]:
            content = encode(registry.restricted_registry(names) if names else registry)
            zipped = zips and len(content) > _MIN_GZIP_BYTES
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
    routes: list[BaseRoute] = [*health_routes(checks), route(registry), *extra_routes]
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
    """The answer to a request that failed, without the error: the server logs that."""
    return PlainTextResponse("500 Internal Server Error\n", 500)
