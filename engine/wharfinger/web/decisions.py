"""Recent decisions with their reasons, and decisions that would be made now.

/decisions, /decisions/<namespace>/<pod>                            the recent decisions
/explain/<namespace>/<pod>, /explain/group/<namespace>/<name>       what would be decided now, and why
/evaluate                                                           POST: where some pods would go, with more nodes or without some
/evaluate/schema                                                    its JSON Schema

JSON for programs; `?format=text`, or a client that accepts text/plain, gets lines for people. New decisions are made on a copy of the
current cluster, and are marked as such.

`/evaluate` is for autoscalers and pipelines. Its answer names pods and nodes of all namespaces, so it is for those who may read
`/decisions`. A body has to be `application/json`: pages of other sites cannot send that unasked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from wharfinger.errors import UnknownObject, UsageError, WharfingerError
from wharfinger.model.objects.metadata import micro_time
from wharfinger.telemetry.recent_decisions import RankedNode, RecentDecision, RecentDecisions
from wharfinger.web.requests import (
    Answer,
    guarded,
    readable_json,
    refusal,
    requested_format,
    status_of,
    while_connected,
    with_body,
    with_format,
)
from wharfinger.what_if import live_evaluation
from wharfinger.what_if.live_evaluation import MAX_BYTES, EvaluationAnswer, EvaluationRequest

MAX_LISTED = 1000
DEFAULT_LISTED = 100
RESULTS = ("scheduled", "unschedulable", "error")

Explain = Callable[[str, list[str]], Awaitable[tuple[Mapping[str, Any], str]]]
"""The decision that would be made about a pod (`namespace/name`) now, with a report on the requested nodes: as plain values, and as text.

UnknownObject when there is no such pod or node, UsageError for a pod of another scheduler, another WharfingerError if there is none
now.
"""

ExplainGroup = Callable[[str], Awaitable[tuple[Mapping[str, Any], str]]]
"""The explanation of a group (`namespace/name`) now, as plain values and as text; errors as of `Explain`."""


Evaluate = Callable[[EvaluationRequest], Awaitable[EvaluationAnswer]]
"""The answer to a request. UnknownObject, UsageError or InvalidObject for what cannot be answered, another WharfingerError for later."""


class Decisions(Struct, frozen=True, kw_only=True):
    """The data, shown to this machine only, unless `public`: it names pods, and an explanation costs time."""

    recent: RecentDecisions
    explain: Explain
    explain_group: ExplainGroup | None = None
    public: bool = False


def routes(decisions: Decisions) -> list[Route]:
    """The routes."""
    found = {
        "/decisions": _list(decisions.recent),
        "/decisions/{namespace}/{name}": _of_pod(decisions.recent),
        "/explain/{namespace}/{name}": _explanation(decisions.explain),
    }
    if decisions.explain_group is not None:
        explain_group = decisions.explain_group
        found["/explain/group/{namespace}/{name}"] = _explanation(lambda group, _nodes: explain_group(group))
    known = {path: with_format(("json", "text"), answer) for path, answer in found.items()}
    return [Route(path, answer if decisions.public else guarded(answer, "remoteUi")) for path, answer in known.items()]


def _list(recent: RecentDecisions) -> Answer:
    async def listed(request: Request) -> Response:
        wanted = {name: request.query_params.get(name) for name in ("namespace", "result", "policy")}
        if wanted["result"] not in (None, *RESULTS):
            return _refusal(f"result={wanted['result']}: expected one of {', '.join(RESULTS)}", 400)
        limit = request.query_params.get("limit", str(DEFAULT_LISTED))
        if not limit.isascii() or not limit.isdigit():
            return _refusal(f"limit={limit}: expected a number", 400)
        found = list(islice(recent.latest(**wanted), min(int(limit[:9]), MAX_LISTED)))
        if _wants_text(request):
            return PlainTextResponse("".join(f"{line(record)}\n" for record in found))
        return readable_json({"decisions": [plain(record) for record in found], "kept": len(recent), "seen": recent.n_seen})

    return listed


def _of_pod(recent: RecentDecisions) -> Answer:
    async def of_pod(request: Request) -> Response:
        pod = _pod(request)
        found = list(recent.latest(pod=pod))
        if not found:
            return _refusal(f"no recent decision is about {pod}; what would be decided now says /explain/{pod}", 404)
        if _wants_text(request):
            return PlainTextResponse("\n".join(text(record) for record in found))
        return readable_json({"pod": pod, "decisions": [plain(record) | details(record) for record in found], "explain": f"/explain/{pod}"})

    return of_pod


def _explanation(explain: Explain) -> Answer:
    async def explained(request: Request) -> Response:
        try:
            found, text = await explain(_pod(request), request.query_params.getlist("node"))
        except UnknownObject as error:
            return _refusal(str(error), 404)
        except UsageError as error:
            return _refusal(str(error), 409)
        except WharfingerError as error:
            return _refusal(str(error), 503)
        return PlainTextResponse(text) if _wants_text(request) else readable_json(found)

    return explained


def plain(record: RecentDecision) -> dict[str, Any]:
    """A record as plain values; stages in milliseconds, as in the log."""
    return {
        "pod": record.pod,
        "uid": record.uid,
        "at": micro_time(record.at),
        "profile": record.profile,
        "result": record.result,
        "node": record.node,
        "message": record.message,
        "attempts": record.attempts,
        "policyRevision": record.policy_revision,
        "snapshotRevision": record.snapshot_revision,
        "feasible": record.feasible,
        "nodes": record.n_nodes,
        "rejectedBy": list(record.plugins),
        "policies": list(record.policies),
        "milliseconds": {stage: round(1000 * seconds, 3) for stage, seconds in record.seconds.items()},
    }


def details(record: RecentDecision) -> dict[str, Any]:
    """The best nodes as they were then; `best` is None where they were not kept."""
    return {"best": None if record.best is None else [_ranked(ranked) for ranked in record.best]}


def _ranked(ranked: RankedNode) -> dict[str, Any]:
    return {"node": ranked.node, "totals": list(ranked.totals), "scores": msgspec.to_builtins(ranked.scores)}


def line(record: RecentDecision) -> str:
    """A record in one line."""
    outcome = f"→ {record.node} ({record.feasible} of {record.n_nodes} feasible)" if record.result == "scheduled" else record.message
    return f"{micro_time(record.at)} {record.result:<13} {record.pod} {outcome}"


def text(record: RecentDecision) -> str:
    """A record with everything that is known of it."""
    return "".join(f"{found}\n" for found in [line(record), *_more(record)])


def _more(record: RecentDecision) -> Iterator[str]:
    yield f"  attempt {record.attempts}, policies {record.policy_revision[:12]}, cluster at revision {record.snapshot_revision}"
    stages = (f"{stage} {1000 * seconds:.3f} ms" for stage, seconds in record.seconds.items())
    yield f"  {', '.join(stages)}"
    if record.plugins:
        yield f"  rejected by {', '.join(record.plugins)}"
    if record.best is not None:
        yield from _scores(record.best)
    elif record.node is not None:
        yield f"  scores were not kept; /explain/{record.pod} decides again, on the cluster as it is then"


def _scores(best: Iterable[RankedNode]) -> Iterator[str]:
    for ranked in best:
        yield f"  {ranked.node}: {' / '.join(f'{total:g}' for total in ranked.totals)}"
        yield f"    {', '.join(f'{part.name} {part.weighted:g}' for part in ranked.scores)}"


def _pod(request: Request) -> str:
    return f"{request.path_params['namespace']}/{request.path_params['name']}"


def _wants_text(request: Request) -> bool:
    named = requested_format(request)
    return named == "text" or (named is None and request.headers.get("accept", "").startswith("text/plain"))


def _refusal(sentence: str, status: int) -> Response:
    return PlainTextResponse(f"{sentence}\n", status)


class Evaluations(Struct, frozen=True, kw_only=True):
    """Answers requests of this machine only, unless `public`."""

    evaluate: Evaluate
    public: bool = False


def evaluation_routes(evaluations: Evaluations) -> list[Route]:
    """The routes of `/evaluate` and its schema."""

    async def evaluated(request: Request, body: bytes) -> Response:
        return await while_connected(request, _answer(evaluations.evaluate, body))

    async def schema(_request: Request) -> Response:
        return _json(live_evaluation.schema())

    answer = with_body("application/json", MAX_BYTES, evaluated)
    endpoint = answer if evaluations.public else guarded(answer, "remoteUi")
    return [Route("/evaluate", endpoint, methods=["POST"]), Route("/evaluate/schema", schema)]


async def _answer(evaluate: Evaluate, body: bytes) -> Response:
    try:
        return _json(await evaluate(live_evaluation.read_request(body)))
    except WharfingerError as error:
        return refusal(str(error), status_of(error))


def _json(found: object) -> Response:
    return Response(msgspec.json.encode(found), media_type="application/json")
