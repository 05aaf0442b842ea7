"""The routes of the web app, who may request them, and what is never shown."""

import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.unit.web.asking import FAR, NEAR, asking
from wharfinger.errors import WharfingerError
from wharfinger.web.app import Debug


async def _report():
    return {"equal": True, "missingNodes": ["a"]}


async def _unreachable():
    raise WharfingerError("GET /api/v1/nodes: no answer in time")


async def _broken(_request=None):
    raise RuntimeError("secret of the house")


@pytest.fixture
def registry():
    made = CollectorRegistry()
    attempts = Counter("scheduler_schedule_attempts", "Attempts", ["result", "profile"], registry=made)
    for i in range(40):
        attempts.labels("scheduled", f"profile-{i}").inc(3)
    Counter("other", "Other", registry=made)
    return made


def test_the_index_names_every_path(registry):
    extra = Route("/plans", lambda _: PlainTextResponse("plans"))
    client = asking(registry=registry, debug=Debug(cache=_report), extra_routes=[extra])
    paths = client.get("/").text.splitlines()
    assert paths == ["/debug/cache", "/debug/profile", "/healthz", "/livez", "/metrics", "/plans", "/readyz"]
    assert all(client.get(path, params={"seconds": "0.01"}).status_code == 200 for path in paths)


@pytest.mark.parametrize("path", ["/nowhere", "/metrics/", "/readyz/", "/debug/", "/../etc/passwd"])
def test_unknown_paths_are_404(path):
    answer = asking(debug=Debug()).get(path)
    assert (answer.status_code, answer.text) == (404, "404 Not Found\n")


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/readyz/ping", "/debug/profile"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_405(method, path):
    answer = asking(debug=Debug()).request(method, path)
    assert (answer.status_code, answer.text) == (405, "405 Method Not Allowed\n")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_a_head_has_no_body():
    answer = asking().request("HEAD", "/healthz")
    assert (answer.status_code, answer.content) == (200, b"")


def test_an_internal_error_shows_no_internals():
    client = asking(debug=Debug(cache=_broken), extra_routes=[Route("/broken", _broken)])
    for path in ("/debug/cache", "/broken"):
        answer = client.get(path)
        assert (answer.status_code, answer.text) == (500, "500 Internal Server Error\n")


class TestMetrics:
    def test_are_text_without_an_accept_header(self, registry):
        answer = asking(registry=registry).get("/metrics", headers={"Accept": "*/*", "Accept-Encoding": "identity"})
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'scheduler_schedule_attempts_total{profile="profile-0",result="scheduled"} 3.0\n' in answer.text

    def test_are_openmetrics_for_clients_that_accept_it(self, registry):
        answer = asking(registry=registry).get(
            "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
        )
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert answer.text.endswith("# EOF\n")

    def test_are_compressed_for_clients_that_accept_it(self, registry):
        client = asking(registry=registry)
        packed = client.get("/metrics", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(packed.text) / 4
        assert "# HELP scheduler_schedule_attempts_total" in packed.text
        assert "content-encoding" not in client.get("/metrics", headers={"Accept-Encoding": "identity"}).headers

    def test_are_read_in_steps_of_the_event_loop_and_encoded_in_a_thread(self):
        """One step for all would be the longer the more policies there are, and meanwhile no Lease is renewed."""
        turns, read, encoding = [], [], set()

        class Value(float):
            def __float__(self):
                encoding.add(threading.get_ident())
                return 1.0

        class Many:
            def describe(self):
                return ()

            def collect(self):
                for number in range(50):
                    read.append((threading.get_ident(), len(turns)))
                    asyncio.get_running_loop().call_soon(turns.append, number)
                    yield GaugeMetricFamily(f"metric_{number}", "one of many", value=Value())

        registry = CollectorRegistry()
        registry.register(Many())
        text = asking(registry=registry).get("/metrics").text
        assert text.count("# TYPE metric_") == 50
        assert read == [(threading.get_ident(), number) for number in range(50)]
        assert encoding
        assert threading.get_ident() not in encoding

    def test_can_be_chosen_by_name(self, registry):
        text = asking(registry=registry).get("/metrics", params={"name[]": "other_total"}).text
        assert "other_total 0.0" in text
        assert "scheduler_schedule_attempts" not in text


class TestDebug:
    def test_is_not_there_unless_wanted(self):
        assert asking().get("/debug/profile").status_code == 404

    @pytest.mark.parametrize(
        ("client", "from_anywhere", "status"),
        [
            (NEAR, False, 200),
            (("::1", 1), False, 200),
            (("::ffff:127.0.0.1", 1), False, 200),
            (FAR, False, 403),
            (("::ffff:192.0.2.7", 1), False, 403),
            (("testclient", 1), False, 403),
            (FAR, True, 200),
        ],
    )
    def test_is_for_the_machine_itself(self, client, from_anywhere, status):
        asked = asking(debug=Debug(cache=_report, from_anywhere=from_anywhere), client=client)
        assert asked.get("/debug/cache").status_code == status
        assert asked.get("/debug/profile?seconds=0.01", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == status
        assert asked.get("/healthz").status_code == 200

    @pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-origin", 200), ("none", 200)])
    def test_is_not_for_pages_of_other_sites_in_a_browser_on_the_machine(self, site, status):
        answer = asking(debug=Debug()).get("/debug/profile?seconds=0.01", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == status

    @pytest.mark.parametrize(
        ("host", "status"),
        [
            ("localhost:10261", 200),
            ("LOCALHOST", 200),
            ("127.0.0.1:10261", 200),
            ("[::1]", 200),
            ("[::1]:10261", 200),
            ("rebound.example", 403),
            ("re{bound.example", 403),  # Chromium takes such a name for one, and resolves its address
            ("re`bound.example:10261", 403),
            ('re"bound.example', 403),
            ("127.0.0.1@rebound.example", 403),
            ("rebound.example#@127.0.0.1", 403),
            ("[::1", 403),
            ("", 403),
        ],
    )
    def test_is_not_for_a_page_that_got_itself_the_address(self, host, status):
        asked = asking(debug=Debug(cache=_report))
        assert asked.get("/debug/cache", headers={"Host": host}).status_code == status

    def test_a_refusal_names_what_would_help(self):
        answer = asking(debug=Debug(cache=_report), client=FAR).get("/debug/cache", headers={"Host": "scheduler.example"})
        assert answer.text == (
            "only for the machine itself, and this request came from 192.0.2.7 for 'scheduler.example'; "
            "ask there for http://127.0.0.1 or http://localhost (kubectl port-forward does), or set `remoteDebugging: true`\n"
        )

    def test_the_cache_is_printed_as_json(self):
        answer = asking(debug=Debug(cache=_report)).get("/debug/cache")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == {"equal": True, "missingNodes": ["a"]}

    def test_a_comparison_that_cannot_be_made_has_a_reason(self):
        answer = asking(debug=Debug(cache=_unreachable)).get("/debug/cache")
        assert (answer.status_code, answer.text) == (503, "cannot compare: GET /api/v1/nodes: no answer in time\n")

    @pytest.mark.parametrize("seconds", ["0", "-1", "60.1", "1e9", "nan", "inf", "five", "", "1_0.5", " 1", "+1", "١"])
    def test_a_profile_has_a_limit(self, seconds):
        answer = asking(debug=Debug()).get("/debug/profile", params={"seconds": seconds})
        assert (answer.status_code, answer.text) == (400, "seconds: expected a number above 0 and up to 60\n")
