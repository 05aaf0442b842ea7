"""Health is reported as by Kubernetes' components (apiserver/pkg/server/healthz/healthz_test.go, Kubernetes 1.36)."""

import asyncio

import pytest

from tests.unit.web.asking import asking
from wharfinger.web import app
from wharfinger.web.app import Checks


async def _slowly_well():
    await asyncio.sleep(0)


async def _unwell():
    return "two\nlines"


def _broken():
    raise ValueError("no such thing")


ALL_WELL = Checks(ready={"informer-sync": lambda: None, "leader": _slowly_well})
ONE_UNWELL = Checks(ready={"informer-sync": lambda: None, "leader": lambda: "somebody else leads"}, live={"loop": _unwell})


@pytest.mark.parametrize(
    ("checks", "path", "status", "text"),
    [
        (ALL_WELL, "/readyz", 200, "ok"),
        (ALL_WELL, "/healthz", 200, "ok"),
        (ALL_WELL, "/livez/ping", 200, "ok"),
        (ALL_WELL, "/readyz?verbose", 200, "[+]ping ok\n[+]informer-sync ok\n[+]leader ok\nreadyz check passed\n"),
        (
            ALL_WELL,
            "/readyz?verbose=1&exclude=leader",
            200,
            "[+]ping ok\n[+]informer-sync ok\n[+]leader excluded: ok\nreadyz check passed\n",
        ),
        (ALL_WELL, "/readyz/leader", 200, "ok"),
        (ALL_WELL, "/readyz/liver", 404, "there is no check liver; there are ping, informer-sync, leader\n"),
        (ONE_UNWELL, "/readyz", 500, "[+]ping ok\n[+]informer-sync ok\n[-]leader failed: somebody else leads\nreadyz check failed\n"),
        (ONE_UNWELL, "/readyz?exclude=leader", 200, "ok"),
        (ONE_UNWELL, "/readyz?exclude=leader,informer-sync", 200, "ok"),
        (ONE_UNWELL, "/readyz/leader", 500, "internal server error: somebody else leads\n"),
        (ONE_UNWELL, "/readyz/informer-sync", 200, "ok"),
        (ONE_UNWELL, "/livez", 500, "[+]ping ok\n[-]loop failed: two lines\nlivez check failed\n"),
        (ONE_UNWELL, "/healthz/loop", 500, "internal server error: two lines\n"),
        (Checks(live={"loop": _broken}), "/livez/loop", 500, "internal server error: ValueError: no such thing\n"),
    ],
)
def test_each_path_answers_with_its_status_and_text(checks, path, status, text):
    answer = asking(checks).get(path)
    assert (answer.status_code, answer.text) == (status, text)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_exclusion_of_an_unknown_object_is_reported():
    answer = asking(ALL_WELL).get("/readyz?verbose&exclude=lieder&exclude=leader")
    assert answer.status_code == 200
    assert 'warn: some health checks cannot be excluded: no matches for "lieder"\nreadyz check passed\n' in answer.text


def test_a_check_that_hangs_fails(monkeypatch):
    monkeypatch.setattr(app, "CHECK_TIMEOUT", 0.02)
    answer = asking(Checks(live={"loop": asyncio.Event().wait, "other": lambda: None})).get("/livez")
    assert answer.status_code == 500
    assert answer.text == "[+]ping ok\n[-]loop failed: no answer within 0.02 s\n[+]other ok\nlivez check failed\n"
