"""The web application of the scheduler: its routes, error answers, health checks, `/metrics` and `/debug`.

/healthz /livez /readyz   health, as Kubernetes' components answer it
/metrics                  Prometheus
/debug/profile            CPU profile of the event loop
/debug/cache              the cache compared with the API server

The format of health checks is that of staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go, Kubernetes 1.36, with one difference:
reasons are not withheld, as clients that may ask for the health may know why a check fails.

    GET /readyz                       200 ok
    GET /readyz?verbose               200 [+]informer-sync ok … readyz check passed
    GET /readyz?exclude=informer-sync
    GET /readyz/informer-sync         that check alone

`/debug` answers only requests from this machine by default: profiles cost time, and the cache names every pod of the cluster.
`/debug/profile?seconds=N` profiles the thread of the event loop, where everything decides, watches and binds. Profiling slows it by about a
half, so there is a limit and only one profile at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import gzip
import inspect
import io
import pstats
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wharfinger import user_input
from wharfinger.errors import WharfingerError
from wharfinger.event_loop import BuildThread, SystemClock
from wharfinger.web.requests import SharedAnswers, disconnected, is_local_request, remote_refusal
from wharfinger.web.server import STOPPING

Check = Callable[[], "str | Awaitable[str | None] | None"]
"""A health check: returns None if it passes, else the reason why it fails; an exception is a failure too."""

CHECK_TIMEOUT = 5.0
"""Seconds that a check may take."""

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}

_MIN_GZIP_BYTES = 1400  # bytes; a response that fits into one packet is not worth compressing


class Checks(Struct, frozen=True, kw_only=True):
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
    """Pass always: a process that answers is up."""


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


class Families(Struct, frozen=True):
    """The metrics of a registry with their values, as the encoders of prometheus-client take them."""

    metrics: list[Metric]

    @classmethod
    async def of(cls, registry: Collector) -> Families:
        """The metrics of a registry, one read in each step of the event loop: their number grows with that of policies."""
        found = []
        for metric in registry.collect():
            found.append(metric)
            await asyncio.sleep(0)
        return cls(found)

    def collect(self) -> Iterable[Metric]:
        """The metrics."""
        return self.metrics


def route(registry: CollectorRegistry) -> Route:
    """The route of `/metrics`; `?name[]=…` limits it to some series, as Prometheus' own federation does.

    The values are read on the event loop, and encoded in a thread.
    """
    shared: SharedAnswers[tuple[bytes, bool]] = SharedAnswers()
    thread = BuildThread(SystemClock())

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        names = tuple(request.query_params.getlist("name[]"))
        zips = bool(gzip_accepted(request.headers.get("Accept-Encoding", "")))

        def encoded(families: Families) -> tuple[bytes, bool]:
            content = encode(families)
            zipped = zips and len(content) > _MIN_GZIP_BYTES
            return (gzip.compress(content, compresslevel=1) if zipped else content), zipped

        async def compute() -> tuple[bytes, bool]:
            families = await Families.of(registry.restricted_registry(names) if names else registry)
            return await thread.run_without_rest(encoded, families)

        content, zipped = await shared.answer((content_type, names, zips), compute)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers)

    return Route("/metrics", metrics)


def application(
    checks: Checks, registry: CollectorRegistry, debug: Debug | None = None, extra_routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application; without `debug` it has no routes under `/debug`."""
    routes: list[BaseRoute] = [*health_routes(checks), route(registry), *extra_routes]
    if debug is not None:
        routes += debug_routes(debug)
    app = Starlette(
        routes=[Route("/", _index(routes)), *routes],
        middleware=[Middleware(LocalOnly)] if debug is not None and not debug.from_anywhere else (),
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


MAX_PROFILE_SECONDS = 60.0
"""Longest profile, in seconds."""
DEFAULT_PROFILE_SECONDS = 5.0
PROFILE_LINES = 100


class Profiling:
    """One profile at a time."""

    def __init__(self) -> None:
        self._busy = False

    @property
    def route(self) -> Route:
        """The route of `/debug/profile`."""
        return Route("/debug/profile", self._answer)

    async def _answer(self, request: Request) -> Response:
        seconds = _seconds(request.query_params.get("seconds"))
        if seconds is None:
            return PlainTextResponse(f"seconds: expected a number above 0 and up to {MAX_PROFILE_SECONDS:g}\n", 400)
        if self._busy:
            return PlainTextResponse("another profile is being taken; only one can be\n", 409)
        self._busy = True
        try:
            return PlainTextResponse(await _profiled(seconds, request))
        finally:
            self._busy = False


def _seconds(text: str | None) -> float | None:
    seconds = DEFAULT_PROFILE_SECONDS if text is None else user_input.decimal_number(text)
    return seconds if seconds is not None and 0 < seconds <= MAX_PROFILE_SECONDS else None


async def _profiled(seconds: float, request: Request) -> str:
    """The functions by cumulative time. Profiling ends early if the client disconnects or the server stops."""
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _left_or_stopping(request)
    finally:
        profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats(pstats.SortKey.CUMULATIVE).print_stats(PROFILE_LINES)
    return text.getvalue()


async def _left_or_stopping(request: Request) -> None:
    """Wait until the client disconnects or the server stops."""
    stopping: asyncio.Event | None = request.scope.get("state", {}).get(STOPPING)
    waits = [asyncio.ensure_future(disconnected(request.receive))]
    if stopping is not None:
        waits.append(asyncio.ensure_future(stopping.wait()))  # type: ignore[arg-type]  # what it returns does not matter
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


CacheReport = Callable[[], Awaitable[Mapping[str, Any]]]
"""The differences between the cache and the API server as plain values; WharfingerError if it cannot be read."""


class Debug(Struct, frozen=True, kw_only=True):
    """The pages under `/debug`: only for this machine, unless `from_anywhere`."""

    cache: CacheReport | None = None
    from_anywhere: bool = False


def debug_routes(debug: Debug) -> list[Route]:
    """The routes of `/debug/profile` and, where there is a cache, `/debug/cache`."""
    found = [Profiling().route]
    if debug.cache is not None:
        found.append(Route("/debug/cache", _cache_answer(debug.cache)))
    return found


def _cache_answer(report: CacheReport) -> Callable[[Request], Awaitable[Response]]:
    async def cache(_request: Request) -> Response:
        try:
            found = await report()
        except WharfingerError as error:
            return PlainTextResponse(f"cannot compare: {error}\n", 503)
        return Response(msgspec.json.format(msgspec.json.encode(found)) + b"\n", media_type="application/json")

    return cache


class LocalOnly:
    """An ASGI middleware that allows `/debug/…` from this machine only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or pass the request on."""
        answer = self._refusal(Request(scope)) if scope["type"] == "http" and scope["path"].startswith("/debug/") else None
        await (self._app if answer is None else answer)(scope, receive, send)

    @staticmethod
    def _refusal(request: Request) -> Response | None:
        if not is_local_request(request):
            return remote_refusal(request, "remoteDebugging")
        if request.headers.get("sec-fetch-site") == "cross-site":  # it could not read the answer, but let the process profile itself
            return PlainTextResponse("not for pages of other sites; open it by its own address\n", 403)
        return None
