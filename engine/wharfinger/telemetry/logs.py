"""Structured logs on standard error: one JSON object per line, or lines for people.

Every line has `time`, `level` and `event`; docs/operations.md lists the other fields. Lines that libraries write through `logging` have
the same form. Credentials are redacted.

Lines are written by a thread of their own, so a slow disk or reader never blocks the scheduler. All lines are written before the process
ends. While `MOST_BYTES` wait, further lines are dropped and counted, and a line says how many are missing.
"""

from __future__ import annotations

import atexit
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from wharfinger.errors import printable, printable_lines

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

GATHERING = 0.05
"""Seconds between the first line and its being written."""

MOST_BYTES = 16 * 2**20

PATIENCE = 5.0
"""Seconds that the end of the process waits for lines that nobody reads."""


class LineWriter:
    """Writes lines by `write`, which may block; `gap` makes the line that stands for so many that were left out."""

    def __init__(
        self, write: Callable[[bytes], object], *, gap: Callable[[int], bytes], most_bytes: int = MOST_BYTES, gathering: float = GATHERING
    ) -> None:
        self._write = write
        self._gap = gap
        self._most_bytes = most_bytes
        self._gathering = gathering
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._n_bytes = 0
        self._missing = 0
        self.left_out = 0
        self._waiting = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def line(self, text: bytes) -> None:
        """Have a line written, without its end; from any thread."""
        with self._lock:
            if self._n_bytes + len(text) > self._most_bytes:
                self.left_out += 1
                self._missing += 1
                return
            self._n_bytes += len(text) + 1
            self._lines.append(text)
            first = len(self._lines) == 1
        if first:
            self._waiting.set()

    def close(self) -> None:
        """Write what is left, within `PATIENCE`. Lines that come later are left out."""
        atexit.unregister(self.close)
        self._closing.set()
        self._waiting.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        closing = False
        while not closing:
            self._waiting.wait()
            closing = self._closing.wait(self._gathering)
            content = self._take()
            if content:
                self._deliver(content)

    def _take(self) -> bytes:
        with self._lock:
            self._waiting.clear()
            lines, self._lines, self._n_bytes = self._lines, [], 0
            missing, self._missing = self._missing, 0
        if missing:
            lines.append(self._gap(missing))
        return b"".join(line + b"\n" for line in lines)

    def _deliver(self, content: bytes) -> None:
        try:
            self._write(content)
        except (OSError, ValueError):  # nobody reads any more, or the stream is closed
            with self._lock:
                self.left_out += content.count(b"\n")


_QUOTED = re.compile(r"""[ \t=\r\n"']""").search


def plain_line(event: EventDict) -> bytes:
    """The line of an event that has a time, a level and a name; its `exception` goes below it."""
    parts = [f"{event.pop('time')} [{event.pop('level')}] {event.pop('event')}"]
    if (logger := event.pop("logger", None)) is not None:
        parts.append(f"[{logger}]")
    below = event.pop("exception", None)
    for name, value in event.items():
        if isinstance(value, str):
            parts.append(f"{name}={value!r}" if _QUOTED(value) else f"{name}={value}")
        else:
            parts.append(f"{name}={value!r}")
    line = " ".join(parts)
    return (line if below is None else f"{line}\n{below}").encode()


@contextmanager
def _without(module: str) -> Iterator[None]:
    if module in sys.modules:
        yield  # it is there already and costs nothing
        return
    absent: dict[str, None] = {module: None}
    vars(sys)["modules"].update(absent)
    try:
        yield
    finally:
        del sys.modules[module]


with _without("rich"):
    import structlog

__all__ = ["structlog"]


Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]

BLOTTED = "[redacted]"

FIELDS = "_fields"
"""A field whose value is a mapping of further fields: two dozen keywords handed through structlog would cost more than the line itself."""

_CREDENTIALS = re.compile(
    r"(?P<scheme>\b(?:Bearer|Basic)\s+)[\w.~+/=-]+"
    r"|(?P<user>://)[^\s/@]+:[^\s/@]+@"
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]*",
    re.IGNORECASE,
)
_ENCODER = msgspec.json.Encoder(enc_hook=str)
_LEVELS: dict[str, int] = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Logs:
    """Where log lines go until `close`."""

    def __init__(self, writer: LineWriter, forwarding: logging.Handler) -> None:
        self.writer = writer
        self._forwarding = forwarding
        self._excepthook = sys.excepthook
        sys.excepthook = self._crashed

    def close(self) -> None:
        """Write what is left, and take nothing more from `logging`."""
        sys.excepthook = self._excepthook
        logging.getLogger().removeHandler(self._forwarding)
        self.writer.close()

    def _crashed(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """The process ends by an exception: told as a line, so that it does not end up in the middle of another."""
        if isinstance(error, Exception):
            structlog.get_logger().error("crashed", exc_info=(kind, error, trace))
        else:
            self._excepthook(kind, error, trace)


def configure(
    format: Format = "console",  # noqa: A002 — the name of the setting
    level: Level = "info",
    *,
    write: Callable[[bytes], object] | None = None,
    now: Callable[[], float] = time.time,
) -> Logs:
    """The logs, configured for `structlog.get_logger()` and for `logging`; `write` is standard error unless given."""
    processors: list[Processor] = [_stamped(now), _explained, *_rendering(format)]
    writer = LineWriter(write or _to_standard_error, gap=lambda missing: _gap(processors, missing))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_: _Lines(writer),
        cache_logger_on_first_use=False,
    )
    forwarding = _Forwarding(_LEVELS[level])
    root = logging.getLogger()
    root.addHandler(forwarding)
    root.setLevel(max(logging.WARNING, _LEVELS[level]))  # other libraries tell of every request at lower levels
    return Logs(writer, forwarding)


def logger() -> Any:
    """What logs to wherever `configure` said."""
    return structlog.get_logger()


def blotted(text: str) -> str:
    """The text without tokens, passwords and the like."""
    return _CREDENTIALS.sub(_blot, text)


def _blot(found: re.Match[str]) -> str:
    return f"{found['scheme'] or found['user'] or ''}{BLOTTED}{'@' if found['user'] else ''}"


class _Lines:
    """What structlog calls with a finished line."""

    def __init__(self, writer: LineWriter) -> None:
        self.msg = self.debug = self.info = self.warning = self.error = self.critical = self.exception = writer.line


class _Forwarding(logging.Handler):
    """Takes lines from `logging`, with the name of who logged them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as an event of its text."""
        level = next(name for name in reversed(_LEVELS) if record.levelno >= _LEVELS[name] or name == "debug")
        error = {} if record.exc_info is None else {"exc_info": record.exc_info}
        getattr(structlog.get_logger(), level)(blotted(record.getMessage()), logger=record.name, **error)


def _stamped(now: Callable[[], float]) -> Processor:
    """What puts time, level and event first."""
    second, text = -1, ""

    def stamp(_: Any, level: str, event: EventDict) -> EventDict:
        nonlocal second, text
        microseconds = int(now() * 1_000_000)
        if microseconds // 1_000_000 != second:  # formatting a date costs more than all the rest of a line
            second = microseconds // 1_000_000
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        first = {"time": f"{text}.{microseconds % 1_000_000:06d}Z", "level": level, "event": event.pop("event")}
        return {**first, **event.pop(FIELDS, {}), **event}

    return stamp


def _explained(_: Any, __: str, event: EventDict) -> EventDict:
    """The event with the traceback of its exception as text."""
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()
    if isinstance(found, BaseException):
        found = type(found), found, found.__traceback__
    if found and found[1] is not None:
        event["exception"] = blotted("".join(traceback.format_exception(*found)).rstrip())
    return event


def _rendering(format: Format) -> list[Processor]:  # noqa: A002 — as above
    if format == "json":
        return [_json]
    if not sys.stderr.isatty():
        return [_printable, lambda _logger, _level, event: plain_line(event)]
    renderer = structlog.dev.ConsoleRenderer(
        colors=True,
        timestamp_key="time",
        exception_formatter=structlog.dev.plain_traceback,
        sort_keys=False,
        pad_level=False,
        pad_event_to=0,
    )
    return [_printable, lambda logger, level, event: renderer(logger, level, event).encode()]


def _json(_: Any, __: str, event: EventDict) -> bytes:
    return _ENCODER.encode(event)


def _printable(_: Any, __: str, event: EventDict) -> EventDict:
    """The fields with every text on one line and nothing in it that a terminal would obey; reports and tracebacks below the line."""
    if "report" in event:
        event["exception"] = "\n".join(filter(None, (event.pop("report"), event.get("exception"))))
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = printable_lines(value) if key == "exception" else printable(value)
    return event


def _gap(processors: list[Processor], missing: int) -> bytes:
    event: Any = {"event": "log lines left out", "lines": missing, "reason": "nobody read them in time"}
    for processor in processors:
        event = processor(None, "warning", event)
    rendered: bytes = event
    return rendered


def _to_standard_error(content: bytes) -> None:
    sys.stderr.buffer.write(content)
    sys.stderr.buffer.flush()
