"""`POST /evaluate`: who may ask, in which form, and which errors mean what."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.web.asking import FAR, NEAR, asking
from wharfinger.errors import InvalidObject, UnknownObject, UsageError, WharfingerError
from wharfinger.web import decisions
from wharfinger.web.app import Checks, Debug, application
from wharfinger.web.decisions import Evaluations, evaluation_routes
from wharfinger.web.server import Server
from wharfinger.what_if.live_evaluation import EvaluatedPod, EvaluationAnswer

ANSWER = EvaluationAnswer(
    placed=1,
    unschedulable=0,
    pods=[EvaluatedPod(pod="x/one", node="a", outcome="placed")],
    groups=[],
    steps=0,
    budgets=[],
    new_nodes=[],
    warnings=[],
    scheduler_name="wharfinger",
    policy_revision="abc",
    state_revision=7,
)


def post(content=b"{}", kind="application/json", client=NEAR, error=None, **more):
    asked = []

    async def evaluate(request):
        asked.append(request)
        if error is not None:
            raise error
        return ANSWER

    web = asking(extra_routes=evaluation_routes(Evaluations(evaluate=evaluate, **more)), client=client)
    answer = web.request("POST", "/evaluate", content=content, headers={"host": "localhost", "content-type": kind})
    return answer, asked


def test_the_answer_is_json():
    answer, (asked,) = post(b'{"drain": ["a"], "nodes": [{"like": "b", "count": 2}]}', kind="application/json; charset=utf-8")
    assert (asked.drain, asked.nodes[0].count) == (["a"], 2)
    assert answer.json() == {
        "placed": 1,
        "unschedulable": 0,
        "pods": [{"pod": "x/one", "node": "a", "outcome": "placed"}],
        "groups": [],
        "steps": 0,
        "budgets": [],
        "newNodes": [],
        "warnings": [],
        "schedulerName": "wharfinger",
        "policyRevision": "abc",
        "stateRevision": 7,
    }


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"client": FAR}, 403),
        ({"client": FAR, "public": True}, 200),
        ({"kind": "text/plain"}, 415),
        ({"content": b"{"}, 400),
        ({"content": b'{"objects": [' + b"[" * 100_000}, 400),
        ({"content": b'{"drain": ["\xff"]}'}, 400),
        ({"error": UsageError("too many")}, 400),
        ({"error": InvalidObject("no quantity")}, 400),
        ({"error": UnknownObject("there is no node x")}, 404),
        ({"error": WharfingerError("not known yet")}, 503),
    ],
)
def test_a_request_that_cannot_be_answered_gets_the_status_of_its_error(more, status):
    answer, _ = post(**more)
    assert answer.status_code == status
    if "error" in more:
        assert answer.text == f"{more['error']}\n"


def test_long_bodies_are_not_read_to_the_end(monkeypatch):
    monkeypatch.setattr(decisions, "MAX_BYTES", 100)
    answer, asked = post(b" " * 101)
    assert (answer.status_code, asked) == (413, [])


def test_the_schema_is_public():
    web = asking(extra_routes=evaluation_routes(Evaluations(evaluate=None)), client=FAR)
    assert {"request", "answer", "$defs"} == web.get("/evaluate/schema").json().keys()


def test_an_evaluation_ends_when_its_client_has_gone():
    """On a real port. It would otherwise take the time of requests whose clients still wait."""

    async def main():
        begun, ended = asyncio.Event(), asyncio.Event()

        async def evaluate(_request):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        app = application(Checks(), CollectorRegistry(), Debug(), extra_routes=evaluation_routes(Evaluations(evaluate=evaluate)))
        async with asyncio.timeout(20), Server(app) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"POST /evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            await begun.wait()
            assert not ended.is_set()
            writer.close()
            await ended.wait()

    asyncio.run(main())
