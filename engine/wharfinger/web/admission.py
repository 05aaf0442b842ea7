"""A validating webhook: whether an object may be stored, before it is.

POST /validate   an AdmissionReview with a question; the answer is one with a response

Whatever goes wrong here is answered with a status that the API server takes for a webhook that has failed: it stores the object, as its
configuration says (`failurePolicy: Ignore`). Only a verdict refuses. Verdicts take CPU, so they are made in threads, a few at a time, and
whoever comes when too many wait is sent away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
MOST_BYTES = 8 * 1024 * 1024  # the API server itself stores nothing above 1.5 MiB; a review may hold an object and what it was
MOST_SECONDS = 10.0  # for a body to arrive: the API server waits for no more than 30 s for everything
MOST_WARNING = 250  # characters; the API server cuts at 256
_UNPROCESSABLE = 422


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: dict[str, Any] | None = None


class _Question(msgspec.Struct):
    uid: str
    operation: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = msgspec.field(name="oldObject", default=None)


_reviews = msgspec.json.Decoder(_Review)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an object may be stored: not with a `refusal`, which says why. Warnings are shown to whoever writes it."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()


Judge = Callable[[Mapping[str, Any]], Verdict]
"""The verdict about an object as JSON has it; called in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """How many verdicts are made at a time, and how many reviews may be there at all."""

    judging: int = 2
    present: int = 64


class _Unreadable(Exception):
    """The body is no review that can be answered."""


@dataclass(slots=True)
class Admission:
    """The webhook. `seen` is told `allowed`, `refused`, `unreadable`, `busy` or `failed` once for each review."""

    judge: Judge
    seen: Callable[[str], None] = lambda _result: None
    limits: AdmissionLimits = AdmissionLimits()
    _present: int = 0
    _threads: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.limits.judging, thread_name_prefix="admission")

    def application(self) -> Starlette:
        """The application that answers reviews and nothing else."""
        return Starlette(routes=[Route("/validate", self._validate, methods=["POST"])])

    def close(self) -> None:
        """None; nothing more is judged, and what is being judged is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _validate(self, request: Request) -> Response:
        if self._present >= self.limits.present:
            return self._failure("busy", 503, "too many reviews at once")
        self._present += 1
        try:
            return await self._answer(await _body(request))
        except _Unreadable as error:
            return self._failure("unreadable", 400, str(error))
        except (ClientDisconnect, TimeoutError):
            return self._failure("unreadable", 408, "the body did not arrive")
        except Exception:
            self.seen("failed")
            raise
        finally:
            self._present -= 1

    async def _answer(self, content: bytes) -> Response:
        question = _question(content)
        verdict = Verdict()
        new = _to_judge(question)
        if new is not None:
            verdict = await asyncio.get_running_loop().run_in_executor(self._threads, self.judge, new)
        self.seen("refused" if verdict.refusal else "allowed")
        return Response(msgspec.json.encode(_told(question.uid, verdict)), media_type="application/json")

    def _failure(self, result: str, status: int, sentence: str) -> Response:
        self.seen(result)
        return PlainTextResponse(f"{sentence}\n", status)


async def _body(request: Request) -> bytes:
    """The body, which may neither be too large nor take too long."""
    content = bytearray()
    async with asyncio.timeout(MOST_SECONDS):
        async for chunk in request.stream():
            content += chunk
            if len(content) > MOST_BYTES:
                raise _Unreadable(f"a review has at most {MOST_BYTES} bytes")
    return bytes(content)


def _question(content: bytes) -> _Question:
    try:
        review = _reviews.decode(content)
        if (review.api_version, review.kind) != (API_VERSION, KIND) or review.request is None:
            raise _Unreadable(f"expected an {KIND} of {API_VERSION} with a request")
        return msgspec.convert(review.request, _Question)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Unreadable(f"expected an {KIND} of {API_VERSION}: {error}") from error


def _to_judge(question: _Question) -> dict[str, Any] | None:
    """The object, None where there is nothing to judge: it goes, or its spec was stored as it is before."""
    new, before = question.object, question.old_object
    if new is None or before is None or question.operation != "UPDATE":
        return new
    going = isinstance(metadata := new.get("metadata"), dict) and metadata.get("deletionTimestamp")
    return None if going or before.get("spec") == new.get("spec") else new


def _told(uid: str, verdict: Verdict) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": not verdict.refusal}
    if verdict.refusal:
        response["status"] = {"code": _UNPROCESSABLE, "reason": "Invalid", "message": verdict.refusal}
    if verdict.warnings:
        response["warnings"] = [warning[:MOST_WARNING] for warning in verdict.warnings]
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
