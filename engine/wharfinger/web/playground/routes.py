"""The playground: a page to write a policy on, with its tests and its effect on a cluster.

/ui/playground                    the page
/ui/playground/static/<file>      its files; those of the live page are in /ui/static
/ui/playground/start              what there is to choose from
/ui/playground/clusters/<key>     a cluster as a map, and its pods
/ui/playground/check              POST: findings, highlighting and tests of a text
/ui/playground/complete           POST: candidates at a position; `hover`: the documentation of a word; `format`: the text in its layout
/ui/playground/decide             POST: what is decided about a pod with the policy
/ui/playground/clusters           POST: a file with a cluster, where uploads are taken: on the machine of the author only

Bodies are `application/json`, files `application/octet-stream`: a page of another site cannot send these unasked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from wharfinger.errors import UsageError, WharfingerError
from wharfinger.language.report import render
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.report.plain_values import plain
from wharfinger.web import page_files
from wharfinger.web.playground.workbench import About, Placing, Workbench, read
from wharfinger.web.requests import TRY_LATER, Answer, refusal, status_of, with_body

MAX_QUESTION_BYTES = 2**20
"""Bytes of a question: a policy and a manifest, with every character escaped."""
MAX_UPLOAD_BYTES = 256 * 2**20
"""Bytes of an uploaded file."""
PATH = "/ui/playground"

Q = TypeVar("Q")


def routes(workbench: Workbench, *, to_anybody: bool = False, setting: str | None = None) -> list[Route]:
    """The routes; they answer this machine only, unless `to_anybody`, which `setting` decides."""
    files = page_files.files_of(__package__)
    guarded = partial(page_files.guarded, to_anybody=to_anybody, setting=setting)

    async def start(_request: Request) -> Response:
        return page_files.fresh_json(workbench.start())

    async def cluster(request: Request) -> Response:
        return await _response(workbench.cluster(request.path_params["key"]))

    async def slash(_request: Request) -> Response:
        return RedirectResponse("../playground", 308)

    read_only: dict[str, Answer] = {
        "": page_files.page(files, "playground.html"),
        "/": slash,
        "/static/{name}": page_files.static(files),
        "/start": start,
        "/clusters/{key:path}": cluster,
    }
    asked: dict[str, Answer] = {
        "/check": _question(About, workbench.check),
        "/complete": _question(About, workbench.complete),
        "/hover": _question(About, workbench.hover),
        "/format": _question(About, workbench.format),
        "/decide": _question(Placing, workbench.decide),
    }
    if workbench.clusters.uploads:
        asked["/clusters"] = with_body("application/octet-stream", MAX_UPLOAD_BYTES, partial(_upload, workbench), called="file")
    return [
        *(Route(f"{PATH}{path}", guarded(answer), methods=["POST"]) for path, answer in asked.items()),
        *(Route(f"{PATH}{path}", guarded(answer)) for path, answer in read_only.items()),
    ]


def _question(kind: type[Q], answer: Callable[[Q], Awaitable[Any]]) -> Answer:
    async def asked(_request: Request, body: bytes) -> Response:
        try:
            question = read(body, kind)
        except UsageError as error:
            return refusal(str(error), status_of(error))
        return await _response(answer(question))

    return with_body("application/json", MAX_QUESTION_BYTES, asked)


async def _upload(workbench: Workbench, request: Request, body: bytes) -> Response:
    name = request.query_params.get("name", "")[:100] or "the file"
    return await _response(workbench.upload(name, body), plain)


async def _response(answer: Awaitable[Any], shown: Callable[[Any], Any] = lambda found: found) -> Response:
    try:
        return page_files.fresh_json(shown(await answer))
    except PolicyError as error:
        return PlainTextResponse(render.render(error.diagnostics, "plain"), 400)
    except WharfingerError as error:
        found = refusal(str(error), status_of(error))
        if found.status_code == TRY_LATER:
            found.headers["Retry-After"] = "2"
        return found
