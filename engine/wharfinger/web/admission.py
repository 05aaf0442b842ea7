"""A validating admission webhook.

POST /validate   an AdmissionReview with a question; the answer is one with a response

Whatever goes wrong here is answered with a status that the API server takes for a webhook that has failed: then `failurePolicy` of its
configuration decides whether the object is stored. Only a verdict refuses. A verdict that does not exist in the time that the API server
gives is such a failure too; it is answered before the API server gives up.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from wharfinger.errors import WharfingerError
from wharfinger.web.server import PEER_NAME

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
MAX_BYTES = 4 * 1024 * 1024  # the API server itself stores nothing above 1.5 MiB; a review may hold an object and what it was
MAX_TOTAL_BYTES = 32 * 1024 * 1024
MAX_SECONDS = 4.0
"""For everything, where the API server does not say how long it waits: `timeoutSeconds` is 5 in deploy/."""
MARGIN = 0.5
"""Seconds of what the API server gives that are left for the answer to arrive."""
MAX_WARNING_LENGTH = 250  # characters; the API server cuts at 256
_UNPROCESSABLE = 422


class _User(msgspec.Struct):
    username: str = ""


class _ReviewRequest(msgspec.Struct):
    uid: str
    operation: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.field(name="oldObject", default=msgspec.Raw(b"null"))
    user: _User = msgspec.field(name="userInfo", default_factory=_User)


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: _ReviewRequest | None = None


class _Object(msgspec.Struct):
    """The parts of an object that decide if it is checked, as they are written."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    spec: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_being_deleted(self) -> bool:
        try:
            return bool(msgspec.json.decode(self.metadata, type=_Metadata).deletion_timestamp)
        except msgspec.ValidationError:
            return False


class _Metadata(msgspec.Struct):
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)


_reviews = msgspec.json.Decoder(_Review)
_objects = msgspec.json.Decoder(_Object | None)


class Verdict(Struct, frozen=True, kw_only=True):
    """The verdict: with a `refusal` the object must not be stored. Warnings are shown to the user who writes it."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()


class Caller(Struct, frozen=True):
    """The caller of a review: the user, and the address unless a certificate proves that it is the API server."""

    user: str
    address: str = ""


class Overloaded(Exception):
    """Too many questions wait, of this caller or of all."""


class DeadlineExceeded(Exception):
    """There is no verdict in time."""


Check = Callable[[msgspec.Raw, Caller], Awaitable[Verdict]]
"""The verdict about an object, given as JSON: reading a large one would take the event loop a tenth of a second.

Overloaded or DeadlineExceeded without a verdict. It is cancelled when it takes too long.
"""


class Callers(Struct, frozen=True, kw_only=True):
    """Allowed callers: those whose verified certificate has one of `names` (empty: any name); with `anyone`, all callers."""

    names: frozenset[str] = frozenset()
    anyone: bool = False

    def admits(self, name: str | None) -> bool:
        """True if a caller may ask whose certificate has this name (None: a caller without one)."""
        return self.anyone or (name is not None and (not self.names or name in self.names))


class AdmissionLimits(Struct, frozen=True, kw_only=True):
    """Reviews at a time, and the seconds that each may take. An address without a certificate may have half of them."""

    present: int = 64
    seconds: float = MAX_SECONDS


class _Unreadable(Exception):
    """The body is no review that can be answered."""


_FAILURES: Mapping[type[Exception], tuple[str, int, str]] = {
    Overloaded: ("busy", 503, "too many reviews at once"),
    DeadlineExceeded: ("late", 504, "there is no verdict in time"),
    TimeoutError: ("late", 504, "there is no verdict in time"),
    ClientDisconnect: ("unreadable", 408, "the body did not arrive"),
    _Unreadable: ("unreadable", 400, ""),
    WharfingerError: ("failed", 500, ""),
}
"""The result, the HTTP status and the message of each failure; the message is the failure's own where it is empty."""


class Admission(Struct):
    """The webhook. `on_result` is called with the result of each review, one of `telemetry.metrics.RESULTS`."""

    check: Check
    callers: Callers
    on_result: Callable[[str], None] = lambda _result: None
    limits: AdmissionLimits = AdmissionLimits()
    _present: Counter[str] = field(default_factory=Counter)
    _bytes: int = 0

    def application(self) -> Starlette:
        """The application that answers reviews and nothing else."""
        return Starlette(routes=[Route("/validate", self._validate, methods=["POST"])])

    async def _validate(self, request: Request) -> Response:
        name = request.scope.get("state", {}).get(PEER_NAME)
        if not self.callers.admits(name):
            return self._failure(
                "forbidden", 403, "only the API server has access: with a client certificate of a name that the settings allow"
            )
        address = "" if not self.callers.anyone or request.client is None else request.client.host
        try:
            with self._admitted(address):
                async with asyncio.timeout(self._timeout(request)):
                    return await self._answer(request, address)
        except tuple(_FAILURES) as error:
            result, status, sentence = next(answer for kind, answer in _FAILURES.items() if isinstance(error, kind))
            return self._failure(result, status, sentence or str(error))
        except Exception:
            self.on_result("failed")
            raise

    @contextmanager
    def _admitted(self, address: str) -> Iterator[None]:
        """A context in which a review counts as present; Overloaded where there are too many."""
        limit = self.limits.present // 2 if address else self.limits.present
        if self._present.total() >= self.limits.present or self._present[address] >= limit:
            raise Overloaded
        self._present[address] += 1
        try:
            yield
        finally:
            self._present[address] -= 1
            if not self._present[address]:
                del self._present[address]

    def _timeout(self, request: Request) -> float:
        """Seconds until a response: fewer than the API server waits for one, as given by `?timeout=5s`."""
        timeout = request.query_params.get("timeout", "")
        number = timeout.removesuffix("s")
        if timeout.endswith("s") and number.isascii() and number.isdigit() and len(number) < 4:  # timeoutSeconds is an integer up to 30
            return max(MARGIN, min(self.limits.seconds, int(number) - MARGIN))
        return self.limits.seconds

    async def _answer(self, request: Request, address: str) -> Response:
        content = bytearray()
        try:
            async for chunk in request.stream():
                content += chunk
                self._bytes += len(chunk)
                if len(content) > MAX_BYTES:
                    raise _Unreadable(f"a review has at most {MAX_BYTES} bytes")
                if self._bytes > MAX_TOTAL_BYTES:
                    raise Overloaded
            question, checked = _review_request(bytes(content))
            verdict = Verdict()
            if checked is not None:
                verdict = await self.check(checked, Caller(question.user.username, address))
        finally:
            self._bytes -= len(content)
        self.on_result("refused" if verdict.refusal else "allowed")
        return Response(msgspec.json.encode(_review(question.uid, verdict)), media_type="application/json")

    def _failure(self, result: str, status: int, sentence: str) -> Response:
        self.on_result(result)
        return PlainTextResponse(f"{sentence}\n", status)


def _review_request(content: bytes) -> tuple[_ReviewRequest, msgspec.Raw | None]:
    """The question of a review, and the object to check; None if it is being deleted or its spec has not changed."""
    try:
        content.decode()  # the decoder does not check that the texts of the objects, which it passes on, are UTF-8
        review = _reviews.decode(content)
        question = review.request
        if (review.api_version, review.kind) != (API_VERSION, KIND) or question is None:
            raise _Unreadable(f"expected an {KIND} of {API_VERSION} with a request")
        new, before = _objects.decode(question.object), _objects.decode(question.old_object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Unreadable(f"expected an {KIND} of {API_VERSION}: {error}") from error
    if new is not None and before is not None and question.operation == "UPDATE" and (new.is_being_deleted or new.spec == before.spec):
        new = None
    return question, None if new is None else question.object


def _review(uid: str, verdict: Verdict) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": not verdict.refusal}
    if verdict.refusal:
        response["status"] = {"code": _UNPROCESSABLE, "reason": "Invalid", "message": verdict.refusal}
    if verdict.warnings:
        response["warnings"] = [warning[:MAX_WARNING_LENGTH] for warning in verdict.warnings]
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
