"""`wharf top` shows a running scheduler in a terminal."""

import http.server
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from wharfinger.cli.commands.observe.running import MetricsInterval, readings, screen
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics

POLICIES = {
    "sources": [{"name": "policies/", "lost": None, "notes": []}],
    "policies": [
        {"name": "even", "state": "active", "revision": "f" * 64, "metrics": []},
        {"name": None, "state": "refused", "revision": None, "metrics": []},
    ],
}
DECISIONS = [
    {"pod": "default/web-1", "at": "2026-01-02T03:04:05.678901Z", "result": "scheduled", "node": "n1", "message": ""},
    {
        "pod": "default/web-2",
        "at": "2026-01-02T03:04:04.678901Z",
        "result": "unschedulable",
        "node": None,
        "message": "0/3 nodes " + "x" * 99,
    },
]


class Process:
    """The measurements of a process."""

    def __init__(self):
        self.registry = CollectorRegistry()
        metrics = self.metrics = Metrics(self.registry)
        self.attempts = metrics.counter(Metric.ATTEMPTS)
        self.seconds = metrics.histogram(Metric.ALGORITHM_DURATION)
        self.rules = {
            ("even", "few"): 0.25,
            ("even", "room"): 1.5,
            ("other", "room"): 0.2,
            ("team-a.web", "*"): 0.125,
            ("team-b.web", "*"): 0.5,
        }
        metrics.read(Metric.PENDING_PODS, lambda: {("active",): 3, ("unschedulable",): 1200})
        metrics.read(Metric.CACHE_SIZE, lambda: {("nodes",): 5000, ("pods",): 12, ("assumed_pods",): 1})
        metrics.read(Metric.LEADER, lambda: {("wharfinger",): 1})
        metrics.read(Metric.BUILD, lambda: {("0.1.0",): 1})
        metrics.read(Metric.RULE_SECONDS, lambda: self.rules)

    def place(self, n, seconds):
        self.attempts.labels("scheduled", "wharfinger").inc(n)
        for _ in range(n):
            self.seconds.observe(seconds)

    def text(self):
        return generate_latest(self.registry).decode()

    def read(self, at):
        return readings(self.text(), at)


@pytest.fixture
def scheduler():
    """A server; (its URL, the process)."""
    process = Process()

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            answers = {"/metrics": process.text(), "/policies": json.dumps(POLICIES), "/decisions": json.dumps({"decisions": DECISIONS})}
            self.send_response(200 if path in answers else 404)
            self.end_headers()
            self.wfile.write(answers.get(path, "").encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        process.end = server.shutdown
        yield f"http://127.0.0.1:{server.server_port}", process
        server.shutdown()
        thread.join()


def test_a_process_that_is_not_ready_is_not_shown_as_leader():
    between = MetricsInterval(now=Process().read(1.0), before=None)
    (first, _), (second, style) = screen(between, ["api-server: no answer for 45 s"], POLICIES, DECISIONS, 200)[:2]
    assert first.startswith("wharfinger 0.1.0, not ready; ")
    assert (second, style) == ("not ready: api-server: no answer for 45 s", "red")


def test_rates_and_quantiles_are_those_between_two_looks():
    process = Process()
    process.place(50, 0.5)
    before = process.read(10.0)
    process.place(100, 0.003)
    between = MetricsInterval(now=process.read(12.0), before=before)

    assert between.rate("scheduler_schedule_attempts_total", "result", "scheduled") == 50.0
    assert 0.002 < between.quantile("scheduler_scheduling_algorithm_duration_seconds", 0.99) <= 0.004
    assert MetricsInterval(now=process.read(12.0), before=None).quantile("scheduler_scheduling_algorithm_duration_seconds", 0.99) > 0.25
    assert between.quantile("scheduler_permit_wait_duration_seconds", 0.5) is None


def test_a_process_that_was_started_anew_counts_from_its_beginning():
    first, second = Process(), Process()
    first.place(500, 0.001)
    second.place(10, 0.001)
    between = MetricsInterval(now=second.read(20.0), before=first.read(10.0))
    assert between.rate("scheduler_schedule_attempts_total", "result", "scheduled") == 1.0


def test_the_picture_has_everything_and_fits(scheduler):
    _, process = scheduler
    process.place(10, 0.001)
    lines = [text for text, _ in screen(MetricsInterval(now=process.read(1.0), before=None), [], POLICIES, DECISIONS, 200)]
    text = "\n".join(lines)
    assert lines[0] == "wharfinger 0.1.0, leader; 5,000 nodes, 12 pods, 1 assumed pods"
    assert "active 3  backoff 0  unschedulable 1,200  gated 0" in text
    assert "scheduled 10  unschedulable 0  error 0" in text
    assert "ffffffffffff" in text
    assert text.index("room") < text.index("few"), "the slowest rule comes first"
    assert "1,500.0ms" in text
    assert [line.split("  ")[0] for line in lines[lines.index("SLOWEST RULES                TIME  REJECTED") + 1 :][:5]] == [
        "even/room",
        "team-b.web (all rules)",
        "even/few",
        "other/room",
        "team-a.web (all rules)",
    ]
    assert "03:04:05  default/web-1  n1" in text

    for width in (20, 40, 79):
        narrow = screen(MetricsInterval(now=process.read(1.0), before=None), [], POLICIES, DECISIONS, width)
        assert max(len(line) for line, _ in narrow) <= width


@pytest.mark.parametrize(
    ("metric", "is_shown"),
    [
        ({"suspendedSince": None, "failure": None}, False),
        ({"suspendedSince": "2026-01-02T03:04:05Z", "failure": None}, True),
        ({"suspendedSince": None, "failure": "the last refresh failed"}, True),
    ],
    ids=["well", "suspended", "not answered"],
)
def test_a_metric_that_is_not_well_is_told(metric, is_shown):
    policy = {"name": "even", "state": "active", "revision": "f", "metrics": [{"name": "load", "message": "metric `load` is …", **metric}]}
    between = MetricsInterval(now=Process().read(1.0), before=None)
    lines = [text for text, _ in screen(between, [], {"sources": [], "policies": [policy]}, [], 80)]
    assert ("even: metric `load` is …" in lines) == is_shown


def test_once_prints_and_ends(wharf, scheduler):
    url, process = scheduler
    process.place(7, 0.001)
    code, out, err = wharf("top", "--once", "--url", url)
    assert (code, err) == (0, "")
    assert "scheduled 7" in out
    assert "\x1b" not in out


def test_another_server_there_is_reported(wharf, scheduler):
    url, process = scheduler
    process.text = lambda: "<html>\n"
    code, _, err = wharf("top", "--once", "--url", url)
    assert code == 2
    assert "this is not an answer of a scheduler" in err


def test_messages_of_many_lines_are_one_line(wharf, scheduler, monkeypatch):
    url, _ = scheduler
    monkeypatch.setattr(sys.modules[__name__], "DECISIONS", [{**DECISIONS[1], "result": "error", "message": "a\nb\u2028c\x1b[2J"}])
    code, out, err = wharf("top", "--once", "--url", url)
    assert (code, err) == (0, "")
    assert "default/web-2  a b c\ufffd[2J\n" in out


def test_another_shape_is_reported(wharf, scheduler, monkeypatch):
    url, _ = scheduler
    monkeypatch.setattr(sys.modules[__name__], "DECISIONS", {"none": 1})
    code, _, err = wharf("top", "--once", "--url", url)
    assert code == 2
    assert "/decisions?limit=" in err
    assert "this is not an answer of a scheduler: Expected `array`" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("term", "number", "code", "wanted"), [("dumb", None, 0, b"scheduled 5"), ("xterm", signal.SIGTERM, 0, b"\x1b[?1049l")]
)
def test_a_terminal_is_left_as_it_was(scheduler, term, number, code, wanted):
    url, process = scheduler
    process.place(5, 0.001)
    own, terminal = pty.openpty()
    environment = {**os.environ, "TERM": term, "COLUMNS": "60", "LINES": "30"}
    top = subprocess.Popen(
        [Path(sys.executable).with_name("wharf"), "top", "--url", url], stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    try:
        read = read_until(own, b"scheduled 5")
        if number is not None:
            top.send_signal(number)
            read = read_until(own, wanted)
        assert top.wait(60) == code
        assert wanted in read
    finally:
        top.kill()
        os.close(own)
        os.close(terminal)


def read_until(descriptor, wanted, seconds=20.0):
    found, ends = b"", time.monotonic() + seconds
    while wanted not in found and time.monotonic() < ends:
        if select.select([descriptor], [], [], 0.1)[0]:
            found += os.read(descriptor, 65536)
    assert wanted in found, found.decode(errors="replace")
    return found


@pytest.mark.slow
def test_a_terminal_is_redrawn_also_while_the_process_is_away(scheduler):
    url, process = scheduler
    process.place(5, 0.001)
    own, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "LINES": "30", "NO_COLOR": "1"}
    command = [Path(sys.executable).with_name("wharf"), "top", "--url", url, "--interval", "0.2"]
    top = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    try:
        read_until(own, b"scheduled 5")
        read_until(own, b"per s")
        process.text = lambda: "nothing that a scheduler says"
        read_until(own, b"asking again; what follows is the last that was known")
        top.send_signal(signal.SIGINT)
        assert top.wait(60) == 0
    finally:
        top.kill()
        os.close(own)
        os.close(terminal)
