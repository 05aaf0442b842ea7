"""`/policies` for programs and for people."""

import re

import pytest
from msgspec import structs

from tests import json_schemas
from tests.unit.web.asking import FAR, asking
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.framework.policy_status import Finding, MetricStatus, Mode, PolicyStatus, Result, SourceStatus
from wharfinger.web.policies import Policies, routes

FINDING = Finding(severity="error", code="P303", message="unknown <b>attribute</b>", file="a.policy", line=2, column=5)


def status(**fields):
    given = {
        "name": "spread",
        "source": "policies/",
        "key": "a.policy",
        "mode": Mode.ENFORCE,
        "result": Result.ACCEPTED,
        "revision": "f" * 64,
        "version": "1.0.0",
        "since": 1_700_000_000.0,
        "attempted": 1_700_000_100.0,
        "generation": 0,
        "generation_in_force": 0,
    }
    return PolicyStatus(**{**given, **fields})


@pytest.fixture
def client():
    refused = status(result=Result.REFUSED, findings=(FINDING,), report="error[P303]: unknown <b>attribute</b>\n")
    never = status(name=None, key="b.policy", result=Result.REFUSED, revision=None, since=None, version=None)
    policies = Policies(
        statuses=lambda: [refused, status(name="new", mode=Mode.SHADOW), never],
        sources=lambda: [SourceStatus(name="policies/", lost="no <such> folder", notes=("a note",), texts=1)],
        shadows=lambda: {"new": {"disagreed": 3}},
    )
    return asking(extra_routes=routes(policies))


def test_programs_get_json(client):
    found = client.get("/policies").json()
    json_schemas.assert_holds("status", found)
    assert [(policy["name"], policy["state"]) for policy in found["policies"]] == [(None, "refused"), ("spread", "kept"), ("new", "shadow")]
    assert found["policies"][1]["activeSince"] == "2023-11-14T22:13:20Z"
    assert found["policies"][1]["diagnostics"] == [
        {"severity": "error", "code": "P303", "message": "unknown <b>attribute</b>", "file": "a.policy", "line": 2, "column": 5}
    ]
    assert found["sources"][0]["lost"] == "no <such> folder"


def test_browsers_get_a_page_in_which_nothing_is_run(client):
    page = client.get("/policies", headers={"accept": "text/html,*/*"}).text
    assert page.startswith("<!doctype html>")
    assert "&lt;b&gt;attribute" in page
    assert "<b>" not in page
    assert "<such>" not in page
    assert 'href="policies/new/shadow"' in page
    assert client.get("/policies?format=json", headers={"accept": "text/html"}).json()["policies"]


def test_a_shadow_has_its_own_answer(client):
    assert client.get("/policies/new/shadow").json() == {"disagreed": 3}
    assert client.get("/policies/spread/shadow").status_code == 404


def test_an_unknown_name_of_a_shadow_is_answered_with_those_there_are(client):
    assert client.get("/policies/none/shadow").text == "there is no shadow policy none; there are new\n"


def test_links_to_shadows_escape_the_name():
    name = 'a/b?c#d"<e>%2f'
    policies = Policies(statuses=lambda: [status(name=name, mode=Mode.SHADOW)], sources=list, shadows=lambda: {name: {"disagreed": 3}})
    asked = asking(extra_routes=routes(policies))
    page = asked.get("/policies", headers={"accept": "text/html"})
    link = re.search(r'href="([^"]*)"', page.text)[1]
    assert asked.get(f"/{link}").json() == {"disagreed": 3}
    assert page.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert page.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/policies", "/policies/new/shadow", "/policies/gone/shadow"])
def test_only_local_requests_are_answered_unless_the_page_is_public(path):
    policies = Policies(statuses=list, sources=list, shadows=lambda: {"new": {}})
    near, far = asking(extra_routes=routes(policies)), asking(extra_routes=routes(policies), client=FAR)
    opened = asking(extra_routes=routes(structs.replace(policies, public=True)), client=FAR)
    answer = 404 if "gone" in path else 200

    assert [client.get(path).status_code for client in (near, far, opened)] == [answer, 403, answer]
    assert "remoteUi: true" in far.get(path).text
    assert near.get(path, headers={"host": "rebound.example"}).status_code == 403


def explaining(answer):
    async def explain(name):
        if isinstance(answer, Exception):
            raise answer
        return {"policy": name}, f"{name} does this\n"

    policies = Policies(statuses=list, sources=list, shadows=dict, explain=explain)
    return asking(extra_routes=routes(policies))


def test_a_policy_is_explained_as_values_and_as_text():
    client = explaining(None)
    assert client.get("/policies/team/a/explain").json() == {"policy": "team/a"}
    assert client.get("/policies/team%2Fa/explain?format=text").text == "team/a does this\n"


@pytest.mark.parametrize(("error", "status"), [(UnknownObject("no policy a is in force"), 404), (WharfingerError("later"), 503)])
def test_a_policy_that_cannot_be_explained_is_a_sentence(error, status):
    answer = explaining(error).get("/policies/a/explain")
    assert (answer.status_code, answer.text) == (status, f"{error}\n")


def test_explanations_are_shown_to_this_machine_only():
    async def explain(name):
        return {}, name

    policies = Policies(statuses=list, sources=list, shadows=dict, explain=explain)
    assert asking(extra_routes=routes(policies), client=FAR).get("/policies/a/explain").status_code == 403


WARNING = Finding(severity="warning", code="P701", message="a metric has no sample")
WORST_FIRST = (
    {"refused": {"result": Result.REFUSED, "revision": None}},
    {"kept": {"result": Result.REFUSED}, "kept-suspended": {"result": Result.REFUSED, "suspended": "too slow"}},
    {"suspended": {"suspended": "too slow"}},
    {"shadow-errors": {"mode": Mode.SHADOW}, "shadow-now": {"mode": Mode.SHADOW, "now": (WARNING,)}},
    {"now": {"now": (WARNING,)}, "warned": {"findings": (WARNING,)}, "metric-failed": {}, "metric-suspended": {}},
    {"active": {}, "shadow": {"mode": Mode.SHADOW}},
    {"off": {"mode": Mode.OFF}, "off-refused": {"mode": Mode.OFF, "result": Result.REFUSED}},
)
"""Policies by name with what is the matter with them; those of one entry keep the order of their sources."""


def names_on(page):
    return re.findall(r"<tr><td>([^<]+)</td>", page)


def test_the_worst_news_is_first_for_programs_and_for_people():
    statuses = [status(name=name, key=name, **fields) for alike in reversed(WORST_FIRST) for name, fields in alike.items()]
    troubles = {"metric-suspended": {"suspended_since": 1.0}, "metric-failed": {"failure": "no answer"}, "active": {}}
    policies = Policies(
        statuses=lambda: statuses,
        sources=list,
        shadows=lambda: {"shadow-errors": {"errors": 1}, "shadow": {"errors": 0}},
        metrics=lambda: [MetricStatus(policy=name, name="load", asked=True, **fields) for name, fields in troubles.items()],
    )
    client = asking(extra_routes=routes(policies))
    found = [policy["name"] for policy in client.get("/policies").json()["policies"]]
    assert found == [name for alike in WORST_FIRST for name in alike]
    assert names_on(client.get("/policies?format=html").text) == found


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/policies?format=xml", "json or html"),
        ("/policies?format=text", "json or html"),
        ("/policies?format=", "json or html"),
        ("/policies?format=xml&format=json", "json or html"),
        ("/policies/new/shadow?format=text", "json"),
        ("/policies/spread/explain?format=yaml", "json or text"),
    ],
)
def test_an_unknown_format_is_refused(path, allowed):
    async def explain(name):
        return {}, name

    client = asking(extra_routes=routes(Policies(statuses=list, sources=list, shadows=lambda: {"new": {}}, explain=explain)))
    answer = client.get(path, headers={"accept": "text/html"})
    assert (answer.status_code, answer.text) == (400, f"format={path.split('format=')[1].split('&')[0]}: expected {allowed}\n")
