"""The webhook: verdicts are returned, and every other outcome is a failure of the webhook, which blocks no request."""

import asyncio
import json
import tracemalloc

import httpx
import pytest

from wharfinger.errors import WharfingerError
from wharfinger.web.admission import MAX_BYTES, Admission, AdmissionLimits, Caller, Callers, DeadlineExceeded, Overloaded, Verdict

BAD = {"spec": {"source": "bad"}}
GOOD = {"spec": {"source": "good"}}
ANYBODY = Callers(anyone=True)
FAILURES = {"boom": RuntimeError("boom"), "busy": Overloaded(), "late": DeadlineExceeded(), "ended": WharfingerError("it ended")}


async def check(obj, _caller):
    source = json.loads(bytes(obj))["spec"]["source"]
    if source in FAILURES:
        raise FAILURES[source]
    return Verdict(refusal="it is bad") if source == "bad" else Verdict(warnings=("x" * 400,))


def review(obj, operation="CREATE", **request):
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": operation, "object": obj, **request},
    }


@pytest.fixture
def results():
    return []


def asking(admission, name=None, address="192.0.2.1"):
    """A client of the webhook at an address, whose certificate has that name."""
    application = admission.application()

    async def known(scope, receive, send):
        await application({**scope, "state": {"peer_name": name}}, receive, send)

    transport = httpx.ASGITransport(known, raise_app_exceptions=False, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="https://webhook")


@pytest.fixture
def ask(results):
    admission = Admission(check, ANYBODY, results.append)

    def post(content):
        async def main():
            async with asking(admission) as client:
                return await client.post("/validate", content=content if isinstance(content, bytes) else json.dumps(content))

        return asyncio.run(main())

    return post


def test_a_refusal_says_why(ask, results):
    found = ask(review(BAD)).json()

    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert found["response"] == {"uid": "u-1", "allowed": False, "status": {"code": 422, "reason": "Invalid", "message": "it is bad"}}
    assert results == ["refused"]


def test_an_allowed_object_may_have_warnings(ask, results):
    assert ask(review(GOOD)).json()["response"] == {"uid": "u-1", "allowed": True, "warnings": ["x" * 250]}
    assert results == ["allowed"]


@pytest.mark.parametrize(
    "question",
    [
        review(None, "DELETE", oldObject=BAD),
        review({**BAD, "metadata": {"finalizers": []}}, "UPDATE", oldObject=BAD),
        review({**BAD, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "UPDATE", oldObject=GOOD),
    ],
    ids=["deleted", "its text stays", "going"],
)
def test_a_change_of_no_text_is_not_checked(ask, question):
    assert ask(question).json()["response"]["allowed"] is True


def test_a_changed_text_is_checked(ask):
    assert ask(review(BAD, "UPDATE", oldObject=GOOD)).json()["response"]["allowed"] is False


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"{}",
        review(GOOD) | {"apiVersion": "admission.k8s.io/v1beta1"},
        review(GOOD) | {"kind": "Pod"},
        review(GOOD) | {"request": None},
        review(GOOD) | {"request": {"object": GOOD}},
        review("not an object"),
        review(["not an object"]),
        json.dumps(review(GOOD)).encode().replace(b"good", b"\xff"),
        b"[" * 200_000,
        b" " * (MAX_BYTES + 1),
    ],
    ids=lambda content: repr(content)[:40],
)
def test_a_body_that_is_no_review_is_400(ask, results, content):
    assert ask(content).status_code == 400
    assert results == ["unreadable"]


def test_a_large_object_is_passed_on_without_being_read(results):
    """4 MB of empty objects would take the event loop 0.13 s, and 80 MB of memory."""
    large = review({**GOOD, "x": [{}] * 500_000})
    content = json.dumps(large | {"request": large["request"] | {"oldObject": BAD, "operation": "UPDATE"}}).encode()

    async def main():
        async with asking(Admission(waiting_check(done), ANYBODY, results.append)) as client:
            return (await client.post("/validate", content=content)).status_code

    done = asyncio.Event()
    done.set()
    tracemalloc.start()
    try:
        assert asyncio.run(main()) == 200
        assert tracemalloc.get_traced_memory()[1] < 8 * len(content)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("source", "status", "result"), [("boom", 500, "failed"), ("ended", 500, "failed"), ("busy", 503, "busy"), ("late", 504, "late")]
)
def test_without_a_verdict_the_answer_counts_as_a_failed_webhook(ask, results, source, status, result):
    assert ask(review({"spec": {"source": source}})).status_code == status
    assert results == [result]


def test_nothing_else_is_served():
    async def main():
        async with asking(Admission(check, ANYBODY)) as client:
            return [(await client.get(path)).status_code for path in ("/validate", "/", "/metrics")]

    assert asyncio.run(main()) == [405, 404, 404]


@pytest.mark.parametrize(
    ("callers", "name", "status"),
    [
        (Callers(), None, 403),
        (Callers(), "kube-apiserver", 200),
        (Callers(), "", 200),
        (Callers(names=frozenset({"kube-apiserver"})), "kube-apiserver", 200),
        (Callers(names=frozenset({"kube-apiserver"})), "somebody", 403),
        (Callers(names=frozenset({"kube-apiserver"})), "", 403),
        (ANYBODY, None, 200),
    ],
)
def test_only_allowed_callers_get_an_answer(results, callers, name, status):
    async def main():
        async with asking(Admission(check, callers, results.append), name) as client:
            return (await client.post("/validate", json=review(GOOD))).status_code

    assert asyncio.run(main()) == status
    assert results == ["allowed" if status == 200 else "forbidden"]


def test_the_check_gets_the_user_and_the_address():
    seen = []

    async def noting(_obj, caller):
        seen.append(caller)
        return Verdict()

    async def main():
        for callers, name in ((ANYBODY, None), (Callers(), "kube-apiserver")):
            async with asking(Admission(noting, callers), name) as client:
                await client.post("/validate", json=review(GOOD, userInfo={"username": "jo", "groups": ["x"]}))

    asyncio.run(main())
    assert seen == [Caller("jo", "192.0.2.1"), Caller("jo")]


def waiting_check(go):
    async def wait(_obj, _caller):
        await go.wait()
        return Verdict()

    return wait


def test_requests_above_the_limit_are_refused_and_one_address_has_half_of_the_room(results):
    async def main():
        go = asyncio.Event()
        admission = Admission(waiting_check(go), ANYBODY, results.append, AdmissionLimits(present=4))
        async with asking(admission, address="192.0.2.1") as one, asking(admission, address="192.0.2.2") as other:
            waiting = [asyncio.create_task(client.post("/validate", json=review(GOOD))) for client in (one, one, other)]
            for _ in range(20):
                await asyncio.sleep(0)
            assert (await one.post("/validate", json=review(GOOD))).status_code == 503
            waiting.append(asyncio.create_task(other.post("/validate", json=review(GOOD))))
            for _ in range(20):
                await asyncio.sleep(0)
            assert (await other.post("/validate", json=review(GOOD))).status_code == 503
            go.set()
            assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [200] * 4
            assert (await one.post("/validate", json=review(GOOD))).status_code == 200

    asyncio.run(main())
    assert sorted(results) == ["allowed"] * 5 + ["busy"] * 2


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("?timeout=5s", 4.0), ("?timeout=2s", 1.5), ("?timeout=1s", 0.5), ("", 4.0), ("?timeout=30s", 4.0), ("?timeout=x", 4.0)],
)
def test_an_answer_comes_before_the_api_server_gives_up(asked, seconds):
    limits = AdmissionLimits()
    seen = []

    class Noting(Admission):
        def _timeout(self, request):
            seen.append(super()._timeout(request))
            return 0.01

    async def main():
        async with asking(Noting(waiting_check(asyncio.Event()), ANYBODY, limits=limits)) as client:
            return (await client.post(f"/validate{asked}", json=review(GOOD))).status_code

    assert asyncio.run(main()) == 504
    assert seen == [seconds]
