"""Plain lines are those of structlog's own renderer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.telemetry.logs import plain_line, structlog

RENDERER = structlog.dev.ConsoleRenderer(
    colors=False,
    timestamp_key="time",
    exception_formatter=structlog.dev.plain_traceback,
    sort_keys=False,
    pad_level=False,
    pad_event_to=0,
)
HEAD = {"time": "2026-01-02T03:04:05.000006Z", "level": "info", "event": "attempt"}
VALUES = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.tuples(st.text()), st.lists(st.integers()))
NAMES = st.sampled_from(["pod", "node", "total_ms", "message", "logger"])


def by_structlog(event):
    return RENDERER(None, event["level"], dict(event)).encode()


@given(st.dictionaries(NAMES.filter(lambda name: name != "logger"), VALUES))
def test_fields_are_written_as_structlog_does(fields):
    event = {
        **HEAD,
        **{name: value.encode(errors="replace").decode() if isinstance(value, str) else value for name, value in fields.items()},
    }
    assert plain_line(dict(event)) == by_structlog(event)


@pytest.mark.parametrize("more", [{"logger": "asyncio", "a": 1}, {"exception": "one\ntwo", "b": "x y"}, {"event": "no node, so far"}])
def test_so_is_what_is_no_field(more):
    event = {**HEAD, **more}
    assert plain_line(dict(event)) == by_structlog(event)
