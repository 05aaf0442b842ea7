"""`wharf playground`: it serves until it is stopped, and reports errors before it serves."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

WHARF = (sys.executable, "-m", "wharfinger", "playground")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_playground_serves_on_this_machine_until_it_is_stopped(number):
    with subprocess.Popen([*WHARF, "--port", "0"], stderr=subprocess.PIPE, text=True) as process:
        said = process.stderr.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/ui/playground", said)[0]
        with urllib.request.urlopen(url, timeout=20) as answer:
            page = answer.read().decode()
        with urllib.request.urlopen(url.removesuffix("/ui/playground"), timeout=20) as answer:
            at = answer.url
        process.send_signal(number)
        assert process.wait(20) == 0
    assert "<title>Wharfinger playground</title>" in page
    assert at == url


@pytest.mark.parametrize(("snapshot", "said"), [("nope.json", "nope.json: No such file"), ("example:huge", "no such example")])
def test_a_snapshot_that_is_not_there_is_reported_at_once(wharf, snapshot, said):
    code, _, err = wharf("playground", "--snapshot", snapshot)
    assert (code, said in err) == (2, True)


def test_a_snapshot_without_nodes_is_refused(wharf, tmp_path):
    (tmp_path / "broken.json").write_text('{"kind": ')
    code, _, err = wharf("playground", "--snapshot", tmp_path / "broken.json")
    assert code == 2
    assert "broken.json: it has no nodes" in err


def test_a_port_that_is_taken_is_reported(wharf):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = wharf("playground", "--port", taken.getsockname()[1])
    assert (code, "another process uses the port already" in err) == (2, True)
