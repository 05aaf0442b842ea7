"""`POST /evaluate`: where some pods would go now, on the cluster with more nodes or without some. `GET /evaluate/schema`: its JSON Schema.

For autoscalers and pipelines. The answer names pods and nodes of all namespaces, so it is for those who may read `/decisions`. A body has
to be `application/json`: pages of other sites cannot send that unasked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wharfinger.errors import WharfingerError
from wharfinger.web.requests import guarded, refusal, status_of, with_body
from wharfinger.what_if import live_evaluation
from wharfinger.what_if.live_evaluation import MAX_BYTES, EvaluationAnswer, EvaluationRequest

Evaluate = Callable[[EvaluationRequest], Awaitable[EvaluationAnswer]]
"""The answer to a request. UnknownObject, UsageError or InvalidObject for what cannot be answered, another WharfingerError for later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluations:
    """Answers requests of this machine only, unless `to_anybody`."""

    evaluate: Evaluate
    to_anybody: bool = False


def routes(evaluations: Evaluations) -> list[Route]:
    """The routes of `/evaluate` and its schema."""

    async def evaluated(_request: Request, body: bytes) -> Response:
        return await _answer(evaluations.evaluate, body)

    async def schema(_request: Request) -> Response:
        return _json(live_evaluation.schema())

    answer = with_body("application/json", MAX_BYTES, evaluated)
    asked = answer if evaluations.to_anybody else guarded(answer, "remoteUi")
    return [Route("/evaluate", asked, methods=["POST"]), Route("/evaluate/schema", schema)]


async def _answer(evaluate: Evaluate, body: bytes) -> Response:
    try:
        return _json(await evaluate(live_evaluation.read_request(body)))
    except WharfingerError as error:
        return refusal(str(error), status_of(error))


def _json(found: object) -> Response:
    return Response(msgspec.json.encode(found), media_type="application/json")
