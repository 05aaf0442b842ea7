"""`POST /evaluate`: where some pods would go now, on the cluster with more nodes or without some. `GET /evaluate/schema`: its JSON Schema.

For autoscalers and pipelines. The answer names pods and nodes of all namespaces, so it is for those who may read `/decisions`. A body has
to be `application/json`: pages of other sites cannot send that unasked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from wharfinger.errors import InvalidObject, UnknownObject, UsageError, WharfingerError
from wharfinger.web.requests import body_of, guarded, has_type
from wharfinger.what_if import live_evaluation
from wharfinger.what_if.live_evaluation import MOST_BYTES, EvaluationAnswer, EvaluationRequest

Evaluate = Callable[[EvaluationRequest], Awaitable[EvaluationAnswer]]
"""The answer to a request. UnknownObject, UsageError or InvalidObject for what cannot be answered, another WharfingerError for later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluations:
    """Answers requests of this machine only, unless `to_anybody`."""

    evaluate: Evaluate
    to_anybody: bool = False


def routes(evaluations: Evaluations) -> list[Route]:
    """The routes of `/evaluate` and its schema."""

    async def evaluated(request: Request) -> Response:
        return await _answer(evaluations.evaluate, request)

    async def schema(_request: Request) -> Response:
        return _json(live_evaluation.schema())

    asked = evaluated if evaluations.to_anybody else guarded(evaluated, "remoteUi")
    return [Route("/evaluate", asked, methods=["POST"]), Route("/evaluate/schema", schema)]


async def _answer(evaluate: Evaluate, request: Request) -> Response:
    if not has_type(request, "application/json"):
        return _refusal("the body has to be application/json", 415)
    body = await body_of(request, MOST_BYTES)
    if body is None:
        return _refusal(f"the body is longer than {MOST_BYTES:,} bytes", 413)
    try:
        return _json(await evaluate(live_evaluation.read_request(body)))
    except UnknownObject as error:
        return _refusal(str(error), 404)
    except (UsageError, InvalidObject) as error:
        return _refusal(str(error), 400)
    except WharfingerError as error:
        return _refusal(str(error), 503)


def _refusal(sentence: str, status: int) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, headers={"X-Content-Type-Options": "nosniff"})


def _json(found: object) -> Response:
    return Response(msgspec.json.encode(found), media_type="application/json")
