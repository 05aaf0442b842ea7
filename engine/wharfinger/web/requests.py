"""Common parts of all routes: allowed callers, limits of body size, rate and cost, and answers to failures.

Routes that show all namespaces are for clients on this machine, until a setting opens them. A browser here could be led to them by a
page of another site, under a host name of that site; so the host name has to be an address or `localhost`.

Watching, deciding and binding share one thread with the web server. A few hundred connections with one request after the other could take
all of its time. So requests start at a limited rate after a burst, the addresses of clients in turns, and computing answers takes at most
a tenth of the time. Requests for the same thing share one answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from wharfinger.errors import InvalidObject, UnknownObject, UsageError, WharfingerError

Answer = Callable[[Request], Awaitable[Response]]
SERVICE_UNAVAILABLE = 503
"""The status for a request that should be repeated later."""

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[0-9a-z.]+)(:[0-9]{0,5})?")
INTERVAL = 0.005
"""Seconds between two requests when there are many: a request takes half a millisecond."""
BURST = 64
"""Requests that may start at once after a quiet time: a page with its files, probes, and several scrapes."""
PAUSE_RATIO = 9.0
"""The pause after an answer, as a multiple of the time that it took to compute."""
MAX_PAUSE = 2.0
"""Longest pause after computing an answer, in seconds."""


def with_body(media_type: str, limit: int, answer: Callable[[Request, bytes], Awaitable[Response]], called: str = "body") -> Answer:
    """The answer to a request with its body, of this media type and of at most `limit` bytes; `called` names the body in a refusal."""

    async def wrapped(request: Request) -> Response:
        if not _has_type(request, media_type):
            return refusal(f"the body has to be {media_type}", 415)
        try:
            body = await _body_of(request, limit)
        except ClientDisconnect:
            return refusal(f"the {called} did not arrive", 408)  # nobody reads it; the log gets no traceback
        if body is None:
            return refusal(f"the {called} is longer than {limit:,} bytes", 413)
        return await answer(request, body)

    return wrapped


def with_format(formats: Sequence[str], answer: Answer) -> Answer:
    """The answer to requests that name one of these formats with `?format=…`, or none; a refusal of others."""

    async def wrapped(request: Request) -> Response:
        unknown = [named for named in request.query_params.getlist("format") if named not in formats]
        return refusal(f"format={unknown[0]}: expected {' or '.join(formats)}", 400) if unknown else await answer(request)

    return wrapped


def requested_format(request: Request) -> str | None:
    """The format that a request names with `?format=…`; None if it names none."""
    return request.query_params.get("format")


def refusal(sentence: str, status: int) -> Response:
    """A sentence as the answer of this status."""
    return PlainTextResponse(f"{sentence}\n", status, headers={"X-Content-Type-Options": "nosniff"})


def readable_json(found: object) -> Response:
    """Values as JSON that people can read, with a line end for terminals."""
    return Response(msgspec.json.format(msgspec.json.encode(found)) + b"\n", media_type="application/json")


def status_of(error: WharfingerError) -> int:
    """The HTTP status for an error: 404 for an unknown object, 400 for a bad request, else 503, to be tried again."""
    if isinstance(error, UnknownObject):
        return 404
    return 400 if isinstance(error, UsageError | InvalidObject) else SERVICE_UNAVAILABLE


def _has_type(request: Request, media_type: str) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == media_type


async def _body_of(request: Request, limit: int) -> bytes | None:
    """The body of a request; None if it has more than `limit` bytes. The rest is not read."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            return None
    return bytes(body)


async def disconnected(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(request: Request, answering: Coroutine[Any, Any, Response]) -> Response:
    """The answer to a request whose body was read. Its computation ends when the client disconnects; nobody reads the refusal then."""
    answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(disconnected(request.receive))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        return await answer if answer.done() else refusal("the client has ended the connection", 408)
    finally:
        answer.cancel()
        gone.cancel()


def guarded(answer: Answer, setting: str) -> Answer:
    """The same answer for clients on this machine, for others a refusal that names the setting."""

    async def wrapped(request: Request) -> Response:
        return await answer(request) if is_local_request(request) else remote_refusal(request, setting)

    return wrapped


def remote_refusal(request: Request, setting: str | None) -> Response:
    """The refusal of a request from another machine or for another host name; `setting` allows it, None if nothing does."""
    client = request.client.host if request.client else "an unknown address"
    host = request.headers.get("host", "")
    allowing = " (kubectl port-forward does)" + f", or set `{setting}: true`" if setting else ""
    sentence = (
        f"only for the machine itself, and this request came from {client} for {host!r}; "
        f"ask there for http://127.0.0.1 or http://localhost{allowing}"
    )
    return refusal(sentence, 403)


def is_local_request(request: Request) -> bool:
    """True if the client is on this machine and used an address or `localhost` as the host name, which no other site can point here."""
    return _is_own_name(request.headers.get("host")) and is_near(request.scope.get("client"))


def _is_own_name(host: str | None) -> bool:
    """True if a Host header is an IP address or localhost, or absent; browsers always send one."""
    if host is None:
        return True
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return False
    try:
        ipaddress.ip_address(found["name"].strip("[]"))
    except ValueError:
        return found["name"] == "localhost"
    return True


def is_near(client: tuple[str, int] | None) -> bool:
    """True if a client's address is a loopback address; an unknown address is not."""
    try:
        address = ipaddress.ip_address(client[0] if client else "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


Value = TypeVar("Value")


class RequestRate:
    """The times at which requests may start: a burst, then at a fixed interval (generic cell rate algorithm)."""

    def __init__(self) -> None:
        self._next = 0.0

    def wait(self, now: float) -> float:
        """Seconds that a request which comes now has to wait."""
        self._next = max(self._next, now) + INTERVAL
        return max(0.0, self._next - now - BURST * INTERVAL)


LEFT = "left"
"""The key in the `state` of a request of an `asyncio.Event` that is set when the client has ended the connection."""


class _Waiting(Struct, frozen=True):
    turn: asyncio.Future[bool]
    left: asyncio.Event | None

    def grant(self) -> bool:
        """Ends the wait; False, and nothing is to be answered, if the client has gone."""
        gone = self.turn.done() or (self.left is not None and self.left.is_set())
        if not self.turn.done():
            self.turn.set_result(not gone)
        return not gone


class RequestTurns:
    """Requests start at the limited rate, the clients' addresses in turns; a client that has gone takes no turn."""

    def __init__(self) -> None:
        self._rate = RequestRate()
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._granting: asyncio.Task[None] | None = None

    async def turn(self, address: str, left: asyncio.Event | None) -> bool:
        """True when it is the turn of a request of this address, False if its client has gone meanwhile."""
        loop = asyncio.get_running_loop()
        if self._granting is None:
            seconds = self._rate.wait(loop.time())
            if not seconds:
                return True
            self._granting = loop.create_task(self._grant_after(seconds), name="turns of requests")
        waiting = _Waiting(loop.create_future(), left)
        self._waiting.setdefault(address, deque()).append(waiting)
        return await waiting.turn

    async def _grant_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(seconds)
        while self._granted_next() and self._waiting:  # noqa: ASYNC110 — it sleeps for the rate, not until something happens
            await asyncio.sleep(self._rate.wait(loop.time()))
        self._granting = None

    def _granted_next(self) -> bool:
        """Grants the turn of the next address; False if nobody waits."""
        while self._waiting:
            address = next(iter(self._waiting))
            requests = self._waiting.pop(address)
            granted = False
            while requests and not granted:
                granted = requests.popleft().grant()
            if requests:
                self._waiting[address] = requests  # as the last
            if granted:
                return True
        return False


class RateLimited:
    """An ASGI middleware that limits the rate at which requests start."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turns = RequestTurns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer when it is the request's turn; not at all if the client has gone before that."""
        if scope["type"] == "http":
            address, _ = scope.get("client") or ("", 0)
            if not await self._turns.turn(address, scope.get("state", {}).get(LEFT)):
                return
        await self._app(scope, receive, send)


class SharedAnswers(Generic[Value]):
    """Computes answers one at a time, with pauses; requests that wait for the same answer share it.

    A computation may take many steps of the event loop.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._free_at = 0.0
        self._wanted: dict[Hashable, asyncio.Task[Value]] = {}

    async def answer(self, key: Hashable, compute: Callable[[], Awaitable[Value]]) -> Value:
        """The result of a call of `compute` that begins after this call."""
        task = self._wanted.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._computed(key, compute))
            self._wanted[key] = task
            task.add_done_callback(_retrieve_exception)
        return await asyncio.shield(task)

    async def _computed(self, key: Hashable, compute: Callable[[], Awaitable[Value]]) -> Value:
        loop = asyncio.get_running_loop()
        try:
            async with self._turn:
                rest = self._free_at - loop.time()
                if rest > 0:
                    await asyncio.sleep(rest)
                self._wanted.pop(key, None)  # later requests need a newer answer
                began = loop.time()
                try:
                    return await compute()
                finally:
                    took = loop.time() - began
                    self._free_at = loop.time() + min(MAX_PAUSE, PAUSE_RATIO * took)
        finally:
            if self._wanted.get(key) is asyncio.current_task():
                del self._wanted[key]


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # raised in `answer`, if it still waits
