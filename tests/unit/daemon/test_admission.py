"""The verdicts of the webhook about policies."""

import asyncio
import json
import ssl

import aiohttp
import pytest

from tests.unit.web.certificates import Authority, signed_by_itself
from wharfinger.daemon import admission
from wharfinger.daemon.admission import admission_served
from wharfinger.daemon.settings import AdmissionSettings
from wharfinger.event_loop import SystemClock
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.operator.policy_admission import checked

RIGHTS = TenantRights()

TESTED = """policy "p"
score s = 1
test "t" {
  node a { cpu: 1cpu }
  pod web { requests: { cpu: 1cpu } }
  place web
  expect web pending
}
"""


class EventNames:
    """A log that keeps the names of events."""

    def __init__(self):
        self.events = []

    def info(self, event, **_fields):
        self.events.append(event)

    warning = info


def policy(source, **spec):
    return {"metadata": {"name": "mine"}, "spec": {"source": source, **spec}}


def app(**spec):
    return {"kind": "PolicyApp", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"image": "web:1", **spec}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"source": 'policy "p"\nfilter {'}, "schedulingpolicies/mine:2:"),
        ({"source": 'policy "p"\nfilter f { require node.lables["a"] == "b" else "no" }'}, "node.lables"),
        ({"source": TESTED}, 'test "t" fails'),
        ({"source": 'policy "p"\nparam k: percent = 5% range 0%..50%\nscore s = 1', "params": {"k": "90%"}}, "outside of its range"),
        ({"source": "let a = 1"}, "the text has no `policy` line"),
        ({"source": 'import "other.policy" as other\npolicy "p"\nscore s = 1'}, "other.policy"),
    ],
    ids=["syntax", "types", "tests", "params", "none", "imports"],
)
def test_a_policy_that_could_not_decide_is_refused_with_what_is_wrong(spec, said):
    verdict = checked(policy(**spec), RIGHTS)

    assert verdict.refusal.startswith("the policy would not become active\n")
    assert said in verdict.refusal


def test_a_valid_object_is_allowed_and_notes_are_warnings():
    assert not checked(policy('policy "p"\nscore s = 1'), RIGHTS).refusal
    odd = checked(policy('policy "p"\nparam unused: percent = 5% range 0%..50%\nscore s = 1'), RIGHTS)
    assert not odd.refusal
    assert "unused" in odd.warnings[0]


@pytest.mark.parametrize(
    ("inline", "said"),
    [
        ('policy "p"\nscore s = 1', ""),
        ("score s = 1", "belongs to a policy"),
        ('policy "p"\nscore = 1', "error[P"),
        ('policy "p"\nfilter zone { require node.lables["zone"] == "east" else "no" }', "`node` has no field `lables`"),
        ('policy "p"\nfilter f { require (node.annotations["a"] ?? "") == "" else "no" }', "annotation"),
    ],
    ids=["good", "none", "syntax", "types", "authority"],
)
def test_the_inline_policy_of_an_app_is_checked_as_that_of_its_namespace(inline, said):
    refusal = checked(app(policy={"inline": inline}), RIGHTS).refusal

    assert bool(refusal) == bool(said)
    assert said in refusal


def test_an_app_without_a_policy_of_its_own_passes():
    assert not checked(app(), RIGHTS).refusal
    assert not checked(app(policy={"name": "gold"}), RIGHTS).refusal


@pytest.mark.parametrize("obj", [{}, {"spec": []}, {"spec": {"mode": "New"}}, {"metadata": 3}], ids=repr)
def test_objects_that_the_schema_refuses_are_left_to_the_schema(obj):
    assert not checked(obj, RIGHTS).refusal


def test_the_webhook_answers_as_soon_as_there_is_a_certificate(tmp_path, monkeypatch):
    monkeypatch.setattr(admission, "POLL_SECONDS", 0.02)
    authority = Authority(tmp_path)
    settings = AdmissionSettings(
        certificate=str(tmp_path / "tls.crt"), key=str(tmp_path / "tls.key"), port=0, client_ca_file=str(authority.certificate)
    )
    results = []
    body = json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "CREATE", "object": policy("x")},
        }
    )

    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.load_cert_chain(*authority.client("kube-apiserver"))

    async def ask(url):
        while True:  # until the process that checks policies has started, there is no verdict in time
            async with aiohttp.ClientSession() as session, session.post(f"{url}/validate?timeout=29s", data=body, ssl=tls) as answer:
                if answer.status != 504:
                    return (await answer.json())["response"]["allowed"]

    async def main():
        log = EventNames()
        async with admission_served(settings, "127.0.0.1", results.append, SystemClock(), log, RIGHTS) as server:
            with pytest.raises(aiohttp.ClientError):
                await ask(server.url)
            signed_by_itself(tmp_path)
            async with asyncio.timeout(30):
                while "admission has a certificate" not in log.events:  # noqa: ASYNC110 — what waits is logged
                    await asyncio.sleep(0.02)
            return await ask(server.url), log.events

    allowed, events = asyncio.run(main())
    assert allowed is False
    assert [result for result in results if result != "late"] == ["refused"]
    assert events == ["serving admission", "admission has no new certificate", "admission has a certificate"]
