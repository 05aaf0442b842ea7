"""The decisions over HTTP: the list, one pod, and explanations."""

import pytest

from tests.unit.scheduler.running import view
from tests.unit.telemetry.test_recent_decisions import Timer, attempt, observe
from tests.unit.web.asking import FAR, NEAR, asking
from wharfinger.errors import UnknownObject, UsageError, WharfingerError
from wharfinger.telemetry.recent_decisions import RecentDecisions
from wharfinger.web.decisions import Decisions, routes


@pytest.fixture
def recent():
    return RecentDecisions(lambda: 1_700_000_000.25, Timer())


async def unexplained(pod, nodes):
    raise UnknownObject(f"there is no pod {pod}")


class Web:
    """The pages, requested by a name of this machine."""

    def __init__(self, recent, explain, client, **more):
        self._asking = asking(extra_routes=routes(Decisions(recent=recent, explain=explain, **more)), client=client)

    def get(self, path, headers=()):
        return self._asking.get(path, headers={"host": "localhost", **dict(headers)})


def web(recent, explain=unexplained, client=NEAR, **more):
    return Web(recent, explain, client, **more)


def test_the_list_is_newest_first_and_can_be_narrowed(recent):
    observe(recent, attempt(view("a"), snapshot_revision=7, policy_revision="abc", feasible=2, n_nodes=3))
    observe(recent, attempt(view("b"), result="unschedulable", node=None, message="0/3", plugins=("NodeResourcesFit",)))
    answer = web(recent).get("/decisions").json()

    assert answer["kept"] == answer["seen"] == 2
    assert [found["pod"] for found in answer["decisions"]] == ["default/b", "default/a"]
    assert answer["decisions"][0]["rejectedBy"] == ["NodeResourcesFit"]
    assert answer["decisions"][1] == {
        "pod": "default/a",
        "uid": "uid-a",
        "at": "2023-11-14T22:13:20.250000Z",
        "profile": "wharfinger",
        "result": "scheduled",
        "node": "n1",
        "message": "",
        "attempts": 1,
        "policyRevision": "abc",
        "snapshotRevision": 7,
        "feasible": 2,
        "nodes": 3,
        "rejectedBy": [],
        "policies": [],
        "milliseconds": {"queue": 1.0, "decide": 2.0},
    }
    for query, expected in (("result=scheduled", ["default/a"]), ("namespace=other", []), ("limit=1", ["default/b"])):
        assert [found["pod"] for found in web(recent).get(f"/decisions?{query}").json()["decisions"]] == expected


@pytest.mark.parametrize("query", ["result=lost", "limit=many", "limit=-1", "limit=²"])
def test_nonsense_is_refused_in_words(recent, query):
    answer = web(recent).get(f"/decisions?{query}")
    assert answer.status_code == 400
    assert "expected" in answer.text


def test_one_pod_has_all_its_attempts_as_json_and_as_text(recent):
    observe(recent, attempt(view("a"), result="unschedulable", node=None, message="0/3 nodes", plugins=("mix/few",)))
    observe(recent, attempt(view("a")))
    answer = web(recent).get("/decisions/default/a").json()
    assert [found["result"] for found in answer["decisions"]] == ["scheduled", "unschedulable"]
    assert answer["explain"] == "/explain/default/a"

    text = web(recent).get("/decisions/default/a?format=text").text
    assert "scheduled     default/a → n1" in text
    assert "rejected by mix/few" in text
    assert "scores were not kept; /explain/default/a decides again" in text


def test_a_pod_that_nothing_was_decided_about_is_not_found(recent):
    answer = web(recent).get("/decisions/default/a")
    assert answer.status_code == 404
    assert "/explain/default/a" in answer.text


@pytest.mark.parametrize(("error", "status"), [(UnknownObject, 404), (UsageError, 409), (WharfingerError, 503)])
def test_an_explanation_that_is_impossible_gives_the_reason(recent, error, status):
    async def explain(pod, nodes):
        raise error(f"not {pod}")

    answer = web(recent, explain).get("/explain/default/a")
    assert (answer.status_code, answer.text) == (status, "not default/a\n")


def test_an_explanation_is_json_or_text_and_is_asked_about_nodes(recent):
    async def explain(pod, nodes):
        return {"pod": pod, "nodes": nodes}, "in words\n"

    assert web(recent, explain).get("/explain/default/a?node=n1&node=n2").json() == {"pod": "default/a", "nodes": ["n1", "n2"]}
    assert web(recent, explain).get("/explain/default/a", headers={"accept": "text/plain"}).text == "in words\n"


@pytest.mark.parametrize("path", ["/decisions", "/decisions/default/a", "/explain/default/a"])
def test_only_local_requests_are_answered_unless_the_page_is_public(recent, path):
    assert web(recent, client=FAR).get(path).status_code == 403
    assert web(recent, client=FAR, public=True).get(path).status_code in {200, 404}
    assert web(recent).get(path, headers={"host": "rebound.example.com"}).status_code == 403


@pytest.mark.parametrize("path", ["/decisions", "/decisions/default/a", "/explain/default/a"])
def test_an_unknown_format_is_refused(recent, path):
    answer = web(recent).get(f"{path}?format=xml", headers={"accept": "text/plain"})
    assert (answer.status_code, answer.text) == (400, "format=xml: expected json or text\n")
