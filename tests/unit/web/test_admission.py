"""The webhook: verdicts go through, and everything else is a failure of the webhook, which blocks nobody."""

import asyncio
import json
import threading

import httpx
import pytest

from wharfinger.web.admission import MOST_BYTES, Admission, AdmissionLimits, Verdict

BAD = {"spec": {"source": "bad"}}
GOOD = {"spec": {"source": "good"}}


def judge(obj):
    if obj["spec"]["source"] == "boom":
        raise RuntimeError("boom")
    return Verdict(refusal="it is bad") if obj["spec"]["source"] == "bad" else Verdict(warnings=("x" * 400,))


def review(obj, operation="CREATE", **request):
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": operation, "object": obj, **request},
    }


@pytest.fixture
def results():
    return []


@pytest.fixture
def ask(results):
    admission = Admission(judge, results.append)

    def post(content):
        async def main():
            transport = httpx.ASGITransport(admission.application(), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="https://webhook") as client:
                return await client.post("/validate", content=content if isinstance(content, bytes) else json.dumps(content))

        return asyncio.run(main())

    yield post
    admission.close()


def test_a_refusal_says_why(ask, results):
    found = ask(review(BAD)).json()

    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert found["response"] == {"uid": "u-1", "allowed": False, "status": {"code": 422, "reason": "Invalid", "message": "it is bad"}}
    assert results == ["refused"]


def test_what_is_allowed_may_come_with_warnings(ask, results):
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
def test_what_changes_no_text_is_not_judged(ask, question):
    assert ask(question).json()["response"]["allowed"] is True


def test_a_changed_text_is_judged(ask):
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
        b"[" * 200_000,
        b" " * (MOST_BYTES + 1),
    ],
    ids=lambda content: repr(content)[:40],
)
def test_what_is_no_review_is_400(ask, results, content):
    assert ask(content).status_code == 400
    assert results == ["unreadable"]


def test_a_judge_that_fails_is_no_verdict(ask, results):
    assert ask(review({"spec": {"source": "boom"}})).status_code == 500
    assert results == ["failed"]


def test_nothing_else_is_served(ask):
    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(Admission(judge).application()), base_url="https://webhook") as client:
            return [(await client.get(path)).status_code for path in ("/validate", "/", "/metrics")]

    assert asyncio.run(main()) == [405, 404, 404]


def test_the_loop_goes_on_while_judging_and_who_is_too_many_is_sent_away(results):
    begun, go = threading.Semaphore(0), threading.Event()

    def slow(_obj):
        begun.release()
        go.wait(10)
        return Verdict()

    admission = Admission(slow, results.append, AdmissionLimits(judging=2, present=4))

    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(admission.application()), base_url="https://webhook") as client:
            waiting = [asyncio.create_task(client.post("/validate", json=review(GOOD))) for _ in range(4)]
            await asyncio.to_thread(begun.acquire)
            await asyncio.to_thread(begun.acquire)
            assert not await asyncio.to_thread(begun.acquire, timeout=0.05), "two at a time"
            assert (await client.post("/validate", json=review(GOOD))).status_code == 503
            go.set()
            return [answer.status_code for answer in await asyncio.gather(*waiting)]

    assert asyncio.run(main()) == [200] * 4
    assert sorted(results) == ["allowed"] * 4 + ["busy"]
    admission.close()
