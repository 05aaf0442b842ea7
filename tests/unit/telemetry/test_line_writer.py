"""Lines reach a file of any speed, and logging does not wait for it."""

import subprocess
import sys
import threading
import time

import msgspec
import pytest

from wharfinger.telemetry import logs
from wharfinger.telemetry.logs import LineWriter


def gap(missing):
    return b"%d missing" % missing


def test_lines_are_gathered_and_in_order():
    written = []
    writer = LineWriter(written.append, gap=gap)
    for index in range(5000):
        writer.line(b"%d" % index)
    writer.close()
    assert b"".join(written) == b"".join(b"%d\n" % index for index in range(5000))
    assert len(written) < 100


def test_a_line_is_written_soon_without_another():
    seen = threading.Event()
    writer = LineWriter(lambda _: seen.set(), gap=gap, gathering=0.01)
    writer.line(b"x")
    assert seen.wait(30)
    writer.close()


def test_logging_does_not_wait_for_a_reader_that_pauses():
    going_on = threading.Event()
    written = []

    def write(content):
        going_on.wait(10)
        written.append(content)

    writer = LineWriter(write, gap=gap, gathering=0, max_bytes=10_000)
    writer.line(b"first")
    time.sleep(0.1)  # it is being written now
    for _ in range(1000):
        writer.line(b"x" * 99)
    assert written == [], "logging did not wait"
    going_on.set()
    writer.close()
    lines = b"".join(written).split()
    assert writer.dropped == 900
    assert lines[0] == b"first"
    assert b"".join(written).endswith(b"x\n900 missing\n")


def test_a_closed_pipe_is_no_error():
    def write(content):
        raise BrokenPipeError

    writer = LineWriter(write, gap=gap)
    writer.line(b"x")
    writer.close()
    assert writer.dropped == 1


def test_the_close_has_a_timeout(monkeypatch):
    monkeypatch.setattr(logs, "CLOSE_TIMEOUT", 0.05)
    going_on = threading.Event()
    writer = LineWriter(lambda _: going_on.wait(10), gap=gap, gathering=0)
    writer.line(b"x")
    writer.close()
    going_on.set()


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "raise RuntimeError", "import asyncio; asyncio.run(boom())"])
def test_nothing_is_lost_at_the_end_of_the_process(ending):
    program = f"""
from wharfinger.telemetry import logs
async def boom(): raise RuntimeError
logs.configure("json", "info")
log = logs.log()
for index in range(3000): log.info("line", index=index)
{ending}
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    lines = [msgspec.json.decode(line)["event"] for line in ended.stderr.splitlines()]
    assert lines == ["line"] * 3000 + ["crashed"] * ("RuntimeError" in ended.stderr)
