"""`wharf status` shows what a running scheduler answers."""

import contextlib
import http.server
import json
import socket
import threading

import pytest

from wharfinger.cli import running_process
from wharfinger.errors import UsageError

POLICY = {
    "name": "spread",
    "state": "active",
    "mode": "Enforce",
    "authority": "cluster",
    "source": "policies/",
    "key": "a.policy",
    "version": "1.0.0",
    "revision": "f" * 64,
    "activeSince": "2026-01-02T03:04:05Z",
    "lastAttempt": {"result": "accepted", "time": "2026-01-02T03:04:05Z", "generation": 0},
    "diagnostics": [],
    "omittedDiagnostics": 0,
    "now": [],
    "metrics": [],
}
BAD = {"severity": "error", "code": "P303", "message": "unknown attribute", "file": "policies/a.policy", "line": 2, "column": 5}


@pytest.fixture
def scheduler():
    """A server that answers with what it is given; its URL."""
    answer = {}
    unready = []

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/readyz":
                self.send_response(500 if unready else 200)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.end_headers()
                self.wfile.write("\n".join(["[+]ping ok", *unready, "readyz check failed"]).encode() if unready else b"ok")
                return
            self.send_response(200 if self.path == "/policies?format=json" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield lambda *checks, **given: unready.extend(checks) or answer.update(given) or f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_healthy_state_has_no_failures(wharf, scheduler):
    code, out, _ = wharf("status", "--url", scheduler(sources=[], policies=[POLICY]))
    assert code == 0
    assert out.splitlines() == [
        "POLICY  WHOSE    STATE   REVISION      SINCE                 FROM",
        "spread  cluster  active  ffffffffffff  2026-01-02T03:04:05Z  policies/: a.policy",
    ]


def test_problems_are_listed_and_set_the_exit_code(wharf, scheduler):
    lost = {"name": "configmap x/y", "lost": "the ConfigMap has been deleted", "notes": [], "texts": 1}
    kept = {**POLICY, "state": "kept", "diagnostics": [BAD], "omittedDiagnostics": 3}
    code, out, _ = wharf("status", "--url", scheduler(sources=[lost], policies=[kept]))
    assert code == 1
    assert out.splitlines()[2:] == [
        "configmap x/y cannot be read: the ConfigMap has been deleted",
        "policies/a.policy:2:5: error P303: unknown attribute",
        "… and 3 more about a.policy",
    ]


AWAY = "[-]api-server failed: no answer for 45 s: GET /version: connection refused"


def test_a_process_that_is_not_ready_is_not_well_whatever_its_policies_are(wharf, scheduler):
    url = scheduler(AWAY, "[+]informer-sync ok", sources=[], policies=[POLICY])
    code, out, err = wharf("status", "--url", url)
    assert (code, err) == (1, "")
    assert out.splitlines()[0] == "not ready: api-server: no answer for 45 s: GET /version: connection refused"
    assert out.splitlines()[2].startswith("spread")

    code, out, err = wharf("status", "--url", url, "--format", "json")
    assert (code, json.loads(out)["policies"]) == (1, [POLICY])
    assert err == "wharf: not ready: api-server: no answer for 45 s: GET /version: connection refused\n"


def test_control_characters_in_answers_are_escaped(wharf, scheduler):
    odd = {**BAD, "message": "a\x1b[2J\nb\u2028c\u202ed"}
    code, out, _ = wharf("status", "--url", scheduler(sources=[], policies=[{**POLICY, "state": "kept", "diagnostics": [odd]}]))
    assert code == 1
    assert out.splitlines()[-1] == "policies/a.policy:2:5: error P303: a\ufffd[2J b c\ufffdd"


@pytest.mark.parametrize("answer", [{}, {"sources": []}, {"sources": [], "policies": [{}]}, {"sources": 3, "policies": []}])
@pytest.mark.parametrize("flags", [[], ["--format", "json"]])
def test_another_answer_is_a_sentence(wharf, scheduler, answer, flags):
    url = scheduler(**answer)
    code, out, err = wharf("status", "--url", url, *flags)
    assert (code, out) == (2, "")
    assert err.startswith(f"wharf: {url}/policies?format=json: this is not an answer of a scheduler: ")


def test_another_path_is_reported_with_the_fix(wharf, scheduler):
    url = f"{scheduler()}/ui"
    code, _, err = wharf("status", "--url", url)
    sentence = "404 Not Found; expected the address of a `wharf run`, such as http://127.0.0.1:10261"
    assert (code, err) == (2, f"wharf: {url}/policies?format=json: {sentence}\n")


def test_the_page_of_another_server_is_not_printed(wharf):
    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(503)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        code, _, err = wharf("status", "--url", url)
        server.shutdown()
    assert code == 2
    assert err.startswith(f"wharf: {url}/policies?format=json: 503 Service Unavailable; expected the address of a `wharf run`")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "url",
    [
        " ",
        "127.0.0.1:10261",
        "ftp://a",
        "http://",
        "http://[::1",
        "http://a:b",
        "http://a:0",
        "http://a b",
        "http://a/?x",
        "http://\x1b[2J",
    ],
)
@pytest.mark.parametrize("command", ["status", "top"])
def test_an_invalid_address_is_reported_at_once(wharf, command, url):
    code, _, err = wharf(command, "--url", url)
    assert code == 2
    assert err.endswith(": expected a URL such as http://127.0.0.1:10261\n")
    assert "\x1b" not in err


@pytest.mark.parametrize("command", [("status",), ("top", "--once"), ("explain", "pod", "web")])
def test_without_a_scheduler_the_error_names_the_command_that_forwards_its_port(wharf, command):
    code, _, err = wharf(*command, "--url", "http://127.0.0.1:1")
    said, fix = err.splitlines()
    assert code == 2
    assert said.startswith("wharf: http://127.0.0.1:1: no scheduler answers there: ")
    assert fix == (
        "help: `kubectl -n wharfinger-system port-forward deploy/wharfinger 10261` makes the scheduler of a cluster answer at "
        "http://127.0.0.1:10261; --url names another address"
    )


def test_the_present_state_of_a_policy_is_distinguished_from_its_text(wharf, scheduler):
    now = {"severity": "warning", "code": "trial", "message": "spread: label `zone` is on 0 of 3 nodes", "file": "policies/a.policy"}
    said = "metric `load` is fresh on 69 of 69 nodes, samples are 3 s to 12 s old"
    metric = {"name": "load", "message": said, "suspendedSince": None, "failure": None}
    code, out, _ = wharf("status", "--url", scheduler(sources=[], policies=[{**POLICY, "now": [now], "metrics": [metric]}]))
    assert code == 0
    assert out.splitlines()[2:] == [
        "policies/a.policy: warning trial: spread: label `zone` is on 0 of 3 nodes (at present)",
        "spread: metric `load` is fresh on 69 of 69 nodes, samples are 3 s to 12 s old",
    ]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"suspendedSince": None, "failure": None}, 0),
        ({"suspendedSince": None, "failure": "the last refresh failed"}, 0),
        ({"suspendedSince": "2026-01-02T03:04:05Z", "failure": None}, 1),
    ],
    ids=["fresh", "one refresh failed", "suspended"],
)
def test_a_suspended_metric_sets_the_exit_code(wharf, scheduler, state, code):
    policy = {**POLICY, "metrics": [{"name": "load", "message": "metric `load` is …", **state}]}
    found, out, _ = wharf("status", "--url", scheduler(sources=[], policies=[policy]))
    assert found == code
    assert out.splitlines()[-1] == "spread: metric `load` is …"


@pytest.mark.parametrize("part", [b"", b"HTTP/1.0 200 OK\r\nX-Drip: ", b"HTTP/1.0 200 OK\r\n\r\n"], ids=["status line", "headers", "body"])
def test_a_server_that_drips_is_not_listened_to_for_ever(part):
    over = threading.Event()

    def drip(listening):
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(part or b"HTTP/1.0 200 ")
            while not over.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,), daemon=True)
        thread.start()
        with pytest.raises(UsageError, match=r"no complete answer within 0\.5 s"):
            running_process.text(f"http://127.0.0.1:{listening.getsockname()[1]}", "/policies", 0.5)
        over.set()
        thread.join(30)
