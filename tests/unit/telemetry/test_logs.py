"""The written log lines, compared with golden lines, because tools parse them."""

import asyncio
import logging
import sys
import warnings
from pathlib import Path

import msgspec
import pytest

from tests.unit.scheduler.running import node, pod, view
from tests.unit.telemetry.scene import Scene, scheduling
from wharfinger.emit import Failed
from wharfinger.framework.ports import BindFailed
from wharfinger.scheduler.events import AttemptEnded, PodsFlushed
from wharfinger.telemetry import logs
from wharfinger.telemetry.logs import redacted
from wharfinger.telemetry.scheduling import line_of

TOKEN = "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl"


def attempt(**fields):
    given = {
        "profile": "wharfinger",
        "attempts": 2,
        "first_seen": 90.0,
        "started": 100.0,
        "ended": 100.02,
        "policy_revision": "abcdef" * 10,
    }
    return AttemptEnded(pod=view("one"), **{**given, **fields})


PLACED = {
    "result": "scheduled",
    "node": "a",
    "feasible": 3,
    "n_nodes": 4,
    "snapshot_revision": 17,
    "stages": {"queue": 0.25, "decide": 0.0012345, "reserve": 0.000001, "bind": 0.0125},
}
REJECTED = {
    "result": "unschedulable",
    "n_nodes": 4,
    "message": "0/4 nodes are available: 4 Insufficient cpu.",
    "plugins": ("NodeResourcesFit",),
    "stages": {"queue": 0.25, "decide": 0.001},
}
GOLDEN = Path(__file__).parents[2] / "golden" / "logs"


def log_lines(scene, *stories):
    for story in stories:
        story(scene.emit)
    return scene.text().splitlines()


@pytest.mark.parametrize("part", ["a:", "://a:", "eyJ-", "-eyJ", "eyJ.", "Bearer "])
def test_a_long_text_without_credentials_is_read_in_linear_time(part):
    """A search that begins anew at each part would take hours."""
    text = "://" + part * 1_000_000
    assert redacted(text) == text or part == "Bearer "


def test_json_lines_have_their_documented_form(scene):
    lines = log_lines(
        scene,
        lambda emit: emit(attempt(**PLACED)),
        lambda emit: emit(attempt(**REJECTED)),
        lambda emit: emit(Failed("pod default/one", BindFailed("too busy"))),
        lambda emit: emit(PodsFlushed(3)),
    )
    assert lines == (GOLDEN / "json.log").read_text().splitlines()


def test_text_lines_have_their_documented_form():
    lines = log_lines(
        Scene("console"),
        lambda emit: emit(attempt(**PLACED)),
        lambda emit: emit(Failed("pod default/one", BindFailed("too busy"))),
    )
    assert lines == (GOLDEN / "console.log").read_text().splitlines()


def test_every_attempt_of_a_running_scheduler_has_exactly_one_line(scene):
    async def story():
        async with scheduling(node("a", cpu="2"), *(pod(f"p{index}") for index in range(4)), scene=scene) as world:
            world.cluster.put(node("b"))
            await world.pass_time(3)

    asyncio.run(story())
    lines = scene.lines("attempt")
    tried = sorted((line["pod"], line["attempts"], line["result"]) for line in lines)
    assert [line for line in tried if line[2] == "scheduled"] == [
        ("default/p0", 1, "scheduled"),
        ("default/p1", 1, "scheduled"),
        ("default/p2", 2, "scheduled"),
        ("default/p3", 2, "scheduled"),
    ]
    assert len(set(tried)) == len(tried) == 6
    placed = next(line for line in lines if line["pod"] == "default/p0")
    assert {"queue_ms", "decide_ms", "reserve_ms", "bind_ms", "total_ms"} <= placed.keys()
    assert len({line["uid"] for line in lines}) == 4


def test_an_unexpected_error_comes_with_its_traceback(scene):
    def story(emit):
        try:
            {}["x"]
        except KeyError as error:
            emit(Failed("pod default/one", error))

    log_lines(scene, story)
    line = msgspec.json.decode(b"".join(scene.written))
    assert line["level"] == "error"
    assert line["exception"].startswith("Traceback")
    assert "test_logs.py" in line["exception"]


def test_levels_below_the_one_asked_for_are_not_written():
    lines = log_lines(
        Scene(level="warning"),
        lambda emit: emit(attempt(**PLACED)),
        lambda emit: emit(attempt(**{**PLACED, "result": "error", "message": "no"})),
    )
    assert [msgspec.json.decode(line)["result"] for line in lines] == ["error"]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Authorization: Bearer abc.DEF-123==", "Authorization: Bearer [redacted]"),
        (f"token {TOKEN} expired", "token [redacted] expired"),
        ("GET https://me:secret@host:6443/api: refused", "GET https://[redacted]@host:6443/api: refused"),
        ("basic dXNlcjpwYXNz", "basic [redacted]"),
        ("0/4 nodes are available: 4 Insufficient cpu.", "0/4 nodes are available: 4 Insufficient cpu."),
    ],
)
def test_credentials_are_redacted(said, written):
    assert redacted(said) == written


def test_no_credential_is_written(scene):
    def story(emit):
        emit(attempt(result="error", message=f"Bearer {TOKEN}"))
        emit(Failed("lease", RuntimeError(f"Bearer {TOKEN}")))
        logging.getLogger("aiohttp").warning("sent %s", TOKEN)

    text = "\n".join(log_lines(scene, story))
    assert text.count("[redacted]") == 4  # the message, the error and its traceback, the other library's line
    assert TOKEN not in text


def test_lines_of_other_libraries_have_the_same_form(scene):
    logging.getLogger("uvicorn.error").error("cannot %s", "serve")
    logging.getLogger("asyncio").info("of no interest")
    assert [(line["event"], line["level"], line["logger"]) for line in scene.lines()] == [("cannot serve", "error", "uvicorn.error")]


def test_control_sequences_are_escaped_on_a_terminal():
    scene = Scene("console")
    logs.log().info("a\nb", pod="\x1b[2Jx", text="one\ntwo")
    assert scene.text().splitlines() == ["2023-11-14T22:13:20.250000Z [info] a b pod=�[2Jx text='one two'"]


def test_the_console_shows_reports_below_the_line():
    scene = Scene("console")
    logs.log().error("policy refused", report="web.policy:1:1: no\n  \x1b[2Jscore", policy="web")
    line = "2023-11-14T22:13:20.250000Z [error] policy refused policy=web"
    assert scene.text().splitlines() == [line, "web.policy:1:1: no", "  �[2Jscore"]


def test_only_texts_with_blanks_or_quotes_are_quoted_on_the_console():
    scene = Scene("console")
    logs.log().bind(dry_run=True).warning("started", a="x", b="x y", c="it's", d=1, e=None, f=(1, "z"))
    line = """2023-11-14T22:13:20.250000Z [warning] started dry_run=True a=x b='x y' c="it's" d=1 e=None f=(1, 'z')"""
    assert scene.text().splitlines() == [line]


def test_a_terminal_gets_colours(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    scene = Scene("console")
    logs.log().error("broken", pod="a")
    assert scene.text() == "2023-11-14T22:13:20.250000Z [\x1b[31merror\x1b[0m] \x1b[1mbroken\x1b[0m pod=a\n"


def test_values_that_json_has_not_are_written_as_text(scene):
    logs.log().info("started", folder=sys.path.__class__, fields={"a": (1, 2)})
    assert scene.lines()[0]["fields"] == {"a": [1, 2]}


def test_repeated_errors_are_written_a_few_times_and_then_counted():
    now = [0.0]
    scene = Scene(monotonic=lambda: now[0])
    for _ in range(100):
        scene.emit(Failed("watch of Pod", OSError("broken")))
    scene.emit(Failed("lease", OSError("broken")))
    assert scene.value("wharfinger_errors_total", place="watch") == 100
    now[0] = 11.0
    scene.emit(Failed("watch of Pod", OSError("broken")))
    assert scene.value("wharfinger_log_lines_left_out_total", reason="repeated") == 95
    reported = [(line["event"], line["place"], line.get("lines")) for line in scene.lines()]
    assert reported == [
        *[("failed", "watch", None)] * 5,
        ("failed", "lease", None),
        ("errors suppressed", "watch", 95),
        ("failed", "watch", None),
    ]


def test_suppressed_lines_are_reported_at_the_end(scene):
    for _ in range(7):
        scene.emit(Failed("watch of Pod", OSError("broken")))
    assert [line["lines"] for line in scene.lines("errors suppressed")] == [2]


def test_the_record_of_an_attempt_is_documented_in_milliseconds():
    fields = line_of(attempt(**PLACED))
    assert (fields["decide_ms"], fields["total_ms"]) == (1.234, 20.0)


def test_after_the_end_logging_is_as_before():
    before = list(logging.getLogger().handlers), sys.excepthook
    Scene().text()
    assert (logging.getLogger().handlers, sys.excepthook) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logging.getLogger("x").info("nobody listens")
