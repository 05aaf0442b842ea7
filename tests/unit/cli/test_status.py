"""`wharf status` shows what a running scheduler answers."""

import http.server
import json
import threading

import pytest

POLICY = {
    "name": "spread",
    "state": "active",
    "mode": "Enforce",
    "source": "policies/",
    "key": "a.policy",
    "version": "1.0.0",
    "revision": "f" * 64,
    "activeSince": "2026-01-02T03:04:05Z",
    "lastAttempt": {"result": "accepted", "time": "2026-01-02T03:04:05Z", "generation": 0},
    "diagnostics": [],
    "omittedDiagnostics": 0,
}
BAD = {"severity": "error", "code": "P303", "message": "unknown attribute", "file": "policies/a.policy", "line": 2, "column": 5}


@pytest.fixture
def scheduler():
    """A server that answers with what it is given; its URL."""
    answer = {}

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/policies?format=json" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield lambda **given: answer.update(given) or f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_all_is_well(wharf, scheduler):
    code, out, _ = wharf("status", "--url", scheduler(sources=[], policies=[POLICY]))
    assert code == 0
    assert out.splitlines() == [
        "POLICY  STATE   REVISION      SINCE                 FROM",
        "spread  active  ffffffffffff  2026-01-02T03:04:05Z  policies/: a.policy",
    ]


def test_what_is_wrong_is_listed_and_is_the_exit_code(wharf, scheduler):
    lost = {"name": "configmap x/y", "lost": "the ConfigMap has been deleted", "notes": [], "texts": 1}
    kept = {**POLICY, "state": "kept", "diagnostics": [BAD], "omittedDiagnostics": 3}
    code, out, _ = wharf("status", "--url", scheduler(sources=[lost], policies=[kept]))
    assert code == 1
    assert out.splitlines()[2:] == [
        "configmap x/y cannot be read: the ConfigMap has been deleted",
        "policies/a.policy:2:5: error P303: unknown attribute",
        "… and 3 more about a.policy",
    ]


def test_nobody_there_is_a_sentence(wharf):
    code, _, err = wharf("status", "--url", "http://127.0.0.1:1")
    assert code == 2
    assert "no scheduler answers there" in err
