"""The playground: a page to write a policy on, with its tests and its effect on a cluster.

/ui/playground                    the page
/ui/playground/static/<file>      its files; those of the live page are in /ui/static
/ui/playground/start              what there is to choose from
/ui/playground/clusters/<key>     a cluster as a map, and its pods
/ui/playground/check              POST: findings, highlighting and tests of a text
/ui/playground/complete           POST: candidates at a position; `hover`: the documentation of a word; `format`: the text in its layout
/ui/playground/decide             POST: what is decided about a pod with the policy
/ui/playground/clusters           POST: a file with a cluster, where uploads are taken: on the machine of the author only

Bodies are `application/json`, files `application/octet-stream`: a page of another site cannot send these unasked. Requests are answered
one at a time, in a thread.

A scheduler has better things to do than to try policies for visitors. So texts are limited in length, checks in steps and decisions in
their cost; one request is answered at a time, in a thread for which the scheduler does not rest; after a response there is a pause in
proportion to its time; and only a few requests may wait.

The results are those of `wharf check`, `wharf fmt` and `wharf lsp`, as plain values; positions are in UTF-16 code units.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from wharfinger.authoring.completion.candidates import candidates
from wharfinger.authoring.document import Document, Finding, findings
from wharfinger.authoring.highlighting import highlights
from wharfinger.authoring.hover import hover
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.protocol.positions import Positions
from wharfinger.compiler.cost import CLUSTER_BUDGET, Budget
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.event_loop import BuildThread
from wharfinger.language.files import shipped_policies
from wharfinger.language.report import render
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.report.plain_values import plain
from wharfinger.language.semantics import typed
from wharfinger.model.reading import decode
from wharfinger.web import page_files
from wharfinger.web.playground import trial
from wharfinger.web.playground.clusters import Choice, Clusters, OpenedCluster
from wharfinger.web.requests import SERVICE_UNAVAILABLE, Answer, refusal, status_of, with_body

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock

MAX_QUESTION_BYTES = 2**20
"""Bytes of a question: a policy and a manifest, with every character escaped."""
MAX_UPLOAD_BYTES = 256 * 2**20
"""Bytes of an uploaded file."""
PATH = "/ui/playground"
MAX_TEXT_LENGTH = 65_536
"""Characters of a policy, and of a manifest."""
NAME = "playground.policy"
MAX_OFFERS = 200
MAX_KEPT = 2
"""Texts whose check is kept: the one that is being typed, and the one before."""

Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]
Name = Annotated[str, Meta(max_length=600)]
T = TypeVar("T")


def routes(workbench: Workbench, *, public: bool = False, setting: str | None = None) -> list[Route]:
    """The routes; they answer this machine only, unless `public`, which `setting` decides."""
    files = page_files.files_of(__package__)
    guarded = partial(page_files.guarded, public=public, setting=setting)

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
    answers: dict[str, Answer] = {
        "/check": _question(TextQuestion, workbench.check),
        "/complete": _question(TextQuestion, workbench.complete),
        "/hover": _question(TextQuestion, workbench.hover),
        "/format": _question(TextQuestion, workbench.format),
        "/decide": _question(PodQuestion, workbench.decide),
    }
    if workbench.clusters.uploads:
        answers["/clusters"] = with_body("application/octet-stream", MAX_UPLOAD_BYTES, partial(_upload, workbench), called="file")
    return [
        *(Route(f"{PATH}{path}", guarded(answer), methods=["POST"]) for path, answer in answers.items()),
        *(Route(f"{PATH}{path}", guarded(answer)) for path, answer in read_only.items()),
    ]


def _question(kind: type[T], answer: Callable[[T], Awaitable[Any]]) -> Answer:
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
        if found.status_code == SERVICE_UNAVAILABLE:
            found.headers["Retry-After"] = "2"
        return found


class PlaygroundBusy(WharfingerError):
    """Too many questions wait, or one has waited for too long."""


class TextQuestion(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question about a text. `at` is a place in it in UTF-16 code units; `cluster` is the one whose names and values are offered."""

    text: Text
    at: Annotated[int, Meta(ge=0)] = 0
    cluster: Name = ""


class PodQuestion(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question about a pod: `pod` by its key, or a `manifest`. `node` is one to be explained; `layout` the tiles that are known."""

    text: Text
    cluster: Name
    pod: Name = ""
    manifest: Text = ""
    node: Name = ""
    layout: Name = ""


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of a workbench.

    `rest`: the pause after an answer, as a multiple of the time that it took. `timeout` are seconds that a question waits for its turn,
    and `waiting` how many may. A policy may cost `budget` to be decided about.
    """

    rest: float = 0.0
    timeout: float = 60.0
    waiting: int = 16
    budget: Budget = CLUSTER_BUDGET


class Workbench:
    """Answers questions about texts and clusters. No text is kept beyond the next requests, or adopted."""

    def __init__(self, clusters: Clusters, clock: Clock, limits: Limits | None = None) -> None:
        self.clusters = clusters
        self._clock = clock
        self._limits = limits or Limits()
        self._thread = BuildThread(clock)
        self._turn = asyncio.Lock()
        self._n_waiting = 0
        self._paused_until = 0.0
        self._documents: dict[str, Document] = {}
        self._compiled: dict[str, CompiledPolicy | WharfingerError | None] = {}

    def start(self) -> Mapping[str, Any]:
        """The choices of the page: clusters, examples and policies."""
        return {
            "clusters": plain(list(self.clusters.choices())),
            "policies": [{"name": path.stem, "text": path.read_text("utf-8")} for path in sorted(shipped_policies().glob("*.policy"))],
            "uploads": self.clusters.uploads,
        }

    async def check(self, question: TextQuestion) -> Mapping[str, Any]:
        """The findings, the highlighting and the results of the tests of a text."""
        async with self._taking_turns():
            return await self._run(partial(self._checked, question.text))

    async def complete(self, question: TextQuestion) -> Mapping[str, Any]:
        """The completion items at a place."""
        async with self._taking_turns():
            known = (await self._opened(question.cluster)).known if question.cluster else None
            return await self._run(lambda: _completion(self._document(question.text), question.at, known))

    async def hover(self, question: TextQuestion) -> Mapping[str, Any] | None:
        """The documentation of the word at a position; None for nothing."""
        async with self._taking_turns():
            known = (await self._opened(question.cluster)).known if question.cluster else None
            return await self._run(lambda: _hover(self._document(question.text), question.at, known))

    async def format(self, question: TextQuestion) -> Mapping[str, Any]:
        """The text in its canonical layout, None where it does not parse."""
        async with self._taking_turns():
            return await self._run(lambda: {"text": self._document(question.text).formatted})

    async def cluster(self, key: str) -> Mapping[str, Any]:
        """A cluster as a map, and the pods to ask about. UnknownObject if there is none."""
        async with self._taking_turns():
            opened = await self._opened(key)
            return await self._run(lambda: trial.described(opened))

    async def decide(self, question: PodQuestion) -> Mapping[str, Any]:
        """The decision about a pod. Raises UnknownObject, InvalidObject (a bad manifest) or UsageError (a bad policy)."""
        async with self._taking_turns():
            opened = await self._opened(question.cluster)
            return await self._run(partial(self._decided, question, opened))

    async def upload(self, name: str, content: bytes) -> Choice:
        """The choice for a file; raises InvalidObject for one that is no cluster."""
        async with self._taking_turns():
            return await self.clusters.add(name, content, self._run)

    def _document(self, text: str) -> Document:
        found = self._documents.pop(text, None) or Document(NAME, text)
        self._documents[text] = found
        while len(self._documents) > MAX_KEPT:
            former = next(iter(self._documents))
            del self._documents[former]
            self._compiled.pop(former, None)
        return found

    def _policy(self, text: str) -> CompiledPolicy | None:
        """The policy of a text, None where it has errors or no policy; raises WharfingerError for one that may not be tried."""
        policy = _usable(self._document(text))
        if text not in self._compiled:
            try:
                self._compiled[text] = None if policy is None else trial.compiled(policy, self._limits.budget)
            except WharfingerError as error:
                self._compiled[text] = error
        found = self._compiled[text]
        if isinstance(found, WharfingerError):
            raise found
        return found

    def _checked(self, text: str) -> Mapping[str, Any]:
        document = self._document(text)
        policy = _usable(document)
        tests = {"tests": None} if policy is None else trial.tested(policy, Positions(document.text))
        return {**_findings_and_colours(document), "policy": None if policy is None else policy.name, **tests}

    def _decided(self, question: PodQuestion, opened: OpenedCluster) -> Mapping[str, Any]:
        policy = self._policy(question.text)
        found = trial.decided(opened, policy, question.pod, question.manifest, [question.node] if question.node else [], question.layout)
        return {**found, "policy": None if policy is None else policy.name}

    async def _opened(self, key: str) -> OpenedCluster:
        return await self.clusters.opened(key, self._run)

    async def _run(self, function: Callable[[], T]) -> T:
        return await self._thread.run_without_rest(function)

    @asynccontextmanager
    async def _taking_turns(self) -> AsyncIterator[None]:
        if self._n_waiting >= self._limits.waiting:
            raise PlaygroundBusy(f"{self._n_waiting} requests wait already, and no more can; try again later")
        self._n_waiting += 1
        try:
            async with asyncio.timeout(self._limits.timeout):
                await self._take_turn()
        except TimeoutError:
            raise PlaygroundBusy(f"no answer within {self._limits.timeout:g} s; the request is too expensive, try again later") from None
        finally:
            self._n_waiting -= 1
        began = self._clock.monotonic()
        try:
            yield
        finally:
            ended = self._clock.monotonic()
            self._paused_until = ended + self._limits.rest * (ended - began)
            self._turn.release()

    async def _take_turn(self) -> None:
        await self._turn.acquire()
        try:
            rest = self._paused_until - self._clock.monotonic()
            if rest > 0:
                await self._clock.sleep(rest)
        except BaseException:
            self._turn.release()
            raise


def read(body: bytes, kind: type[T]) -> T:
    """The question in a body; UsageError for an invalid body."""
    try:
        return msgspec.json.decode(body, type=kind)
    except decode.NOT_JSON as error:
        raise UsageError(f"the body is not a question: {error}") from None


def _usable(document: Document) -> typed.Policy | None:
    """The policy of a document, None where it has errors or there is none."""
    broken = any(found.severity == "error" for found in findings(document))
    return None if broken else document.checked.policy


def _findings_and_colours(document: Document) -> Mapping[str, Any]:
    """The findings and the highlighting."""
    positions = Positions(document.text)
    return {
        "found": [_finding(found, positions) for found in findings(document)],
        "tokens": [
            {"from": positions.to_units(each.start), "to": positions.to_units(each.end), "kinds": [each.kind, *each.modifiers]}
            for each in highlights(document)
        ],
    }


def _finding(found: Finding, positions: Positions) -> Mapping[str, Any]:
    start, end = positions.to_units(found.start), positions.to_units(found.end)
    line, column = positions.at(found.start)
    return {
        "from": start,
        "to": end,
        "line": line + 1,
        "column": column + 1,
        "severity": found.severity,
        "code": found.code,
        "message": found.message,
        "help": found.help or "",
        "text": found.text,
        "suggestion": found.suggestion,
    }


def _completion(document: Document, at: int, cluster: KnownCluster | None) -> Mapping[str, Any]:
    """The completion items at a place."""
    positions = Positions(document.text)
    found = candidates(document, positions.from_units(at), cluster)[:MAX_OFFERS]
    return {
        "items": [
            {
                "label": offer.label,
                "kind": offer.kind,
                "from": positions.to_units(offer.start),
                "to": positions.to_units(offer.end),
                "text": offer.written,
                "snippet": offer.snippet,
                "detail": offer.detail,
                "doc": offer.doc,
            }
            for offer in found
        ]
    }


def _hover(document: Document, at: int, cluster: KnownCluster | None) -> Mapping[str, Any] | None:
    """The hover text of the word at a place, as Markdown, or None."""
    positions = Positions(document.text)
    found = hover(document, positions.from_units(at), cluster)
    return None if found is None else {"from": positions.to_units(found.start), "to": positions.to_units(found.end), "text": found.text}
