"""Structured logs on standard error: one JSON object per line, or text for a terminal.

Every line has `time`, `level` and `event`; docs/operating/metrics-and-logs.md lists the other fields. Lines that libraries write through
`logging` have the same form. Credentials are redacted.

Lines are written by a separate thread, so a slow disk or reader never blocks the scheduler. All lines are written before the process ends.
While `MAX_BYTES` wait, further lines are dropped and counted, and a line reports their number.
"""

from __future__ import annotations

import atexit
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

import msgspec

from wharfinger.errors import printable, printable_lines
from wharfinger.event_loop import BatchThread

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]

BATCH_SECONDS = 0.05
"""Seconds for which lines are collected before they are written, so that thousands of lines a second cost a few dozen writes."""

MAX_BYTES = 16 * 2**20

CLOSE_TIMEOUT = 5.0
"""Seconds that the end of the process waits for lines to be written."""

REDACTED = "[redacted]"

_LOGGER = "wharfinger"
_CREDENTIALS = re.compile(
    r"(?P<scheme>\b(?:Bearer|Basic)\s+)[\w.~+/=-]+"
    r"|(?P<user>://)[^\s/@:]*:[^\s/@]+@"
    r"|(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w-]*",
    re.IGNORECASE,
)  # each part begins where the part before it cannot, so that a search is linear in the length of the text
_QUOTED = re.compile(r"""[ \t=\r\n"']""").search
_ENCODER = msgspec.json.Encoder(enc_hook=str)
_LEVELS: dict[str, int] = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_COLORS = {"debug": "2", "info": "32", "warning": "33", "error": "31"}  # ANSI: dim, green, yellow, red

Line = dict[str, Any]
"""The fields of a line in their order: `time`, `level`, `event`, then the others."""


class Log:
    """Writes events with fields to Python's logging; `bind` adds fields to every event."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, fields: Line | None = None) -> None:
        self._logger = logger
        self._fields = fields or {}

    def bind(self, **fields: Any) -> Log:
        """A log whose events have these fields too."""
        return Log(self._logger, {**self._fields, **fields})

    def is_enabled_for(self, level: int) -> bool:
        """True if events of a level of `logging` are written."""
        return self._logger.isEnabledFor(level)

    def info(self, event: str, /, **fields: Any) -> None:
        """Log an event of level info."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        """Log an event of level warning."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, *, exc_info: BaseException | None = None, **fields: Any) -> None:
        """Log an event of level error, with the traceback of an exception."""
        self._write(logging.ERROR, event, fields, exc_info)

    def _write(self, level: int, event: str, fields: Line, error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):  # no frame is looked up for the record: nothing shows where a line was logged
            raised = None if error is None else (type(error), error, error.__traceback__)
            extra = {"fields": {**self._fields, **fields}}
            self._logger.handle(self._logger.makeRecord(_LOGGER, level, "", 0, event, (), raised, extra=extra))


class Logs:
    """The outputs of log lines, until `close`."""

    def __init__(self, writer: LineWriter, handler: logging.Handler, level: int) -> None:
        self.writer = writer
        self._handler = handler
        self._excepthook = sys.excepthook
        root, own = logging.getLogger(), logging.getLogger(_LOGGER)
        self._levels = [(root, root.level), (own, own.level)]
        logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no line shows them (logging, "Optimization")
        root.addHandler(handler)
        root.setLevel(max(logging.WARNING, level))  # libraries log every request at lower levels
        own.setLevel(level)
        sys.excepthook = self._crashed

    def close(self) -> None:
        """Write the remaining lines, and restore the former configuration of logging."""
        sys.excepthook = self._excepthook
        logging.getLogger().removeHandler(self._handler)
        for logger, level in self._levels:
            logger.setLevel(level)
        self.writer.close()

    def _crashed(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Log the exception that ends the process as one line, so that its traceback is not mixed with other lines."""
        if isinstance(error, Exception):
            log().error("crashed", exc_info=error)
        else:
            self._excepthook(kind, error, trace)


def configure(
    format: Format = "console",  # noqa: A002 — the name of the setting
    level: Level = "info",
    *,
    write: Callable[[bytes], object] | None = None,
    now: Callable[[], float] = time.time,
) -> Logs:
    """The logs, configured for `log()` and for `logging`; `write` is standard error unless given."""
    render = _json if format == "json" else _console if not sys.stderr.isatty() else _colored
    stamp = _stamps(now)
    gap = {"level": "warning", "event": "log lines dropped", "reason": "they were not read in time"}
    writer = LineWriter(write or _to_standard_error, gap=lambda missing: render({"time": stamp(), **gap, "lines": missing}))
    return Logs(writer, _Handler(writer, render, stamp), _LEVELS[level])


def log() -> Log:
    """The log of the process; it writes to the stream of `configure`."""
    return Log(logging.getLogger(_LOGGER))


def redacted(text: str) -> str:
    """The text without tokens, passwords and the like."""
    return _CREDENTIALS.sub(lambda found: f"{found['scheme'] or found['user'] or ''}{REDACTED}{'@' if found['user'] else ''}", text)


class _Handler(logging.Handler):
    """Renders records and hands them to the writer; records of libraries get the name of their logger as a field."""

    def __init__(self, writer: LineWriter, render: Callable[[Line], bytes], stamp: Callable[[], str]) -> None:
        super().__init__()
        self._writer = writer
        self._render = render
        self._stamp = stamp

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a record."""
        level = next((name for name in reversed(_LEVELS) if record.levelno >= _LEVELS[name]), "debug")
        line: Line = {"time": self._stamp(), "level": level}
        if record.name == _LOGGER:
            line |= {"event": record.msg, **vars(record)["fields"]}
        else:
            line |= {"event": redacted(record.getMessage()), "logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = redacted("".join(traceback.format_exception(record.exc_info[1])).rstrip())
        self._writer.line(self._render(line))


def _stamps(now: Callable[[], float]) -> Callable[[], str]:
    """The function that returns the present time as text."""
    second, text = -1, ""

    def stamp() -> str:
        nonlocal second, text
        microseconds = int(now() * 1_000_000)
        if microseconds // 1_000_000 != second:  # formatting a date costs more than the rest of a line
            second = microseconds // 1_000_000
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{text}.{microseconds % 1_000_000:06d}Z"

    return stamp


def _json(line: Line) -> bytes:
    return _ENCODER.encode(line)


def _colored(line: Line) -> bytes:
    return _console(line, colors=True)


def _console(line: Line, *, colors: bool = False) -> bytes:
    """The line for a terminal: values without control characters; the report and the traceback below it."""
    below = [printable_lines(text) for text in (line.pop("report", None), line.pop("exception", None)) if text]
    level, event = line.pop("level"), printable(line.pop("event"))
    if colors:
        level, event = f"\x1b[{_COLORS[level]}m{level}\x1b[0m", f"\x1b[1m{event}\x1b[0m"
    parts = [f"{line.pop('time')} [{level}] {event}"]
    if (logger := line.pop("logger", None)) is not None:
        parts.append(f"[{logger}]")
    for name, value in line.items():
        if not isinstance(value, str):
            parts.append(f"{name}={value!r}")
        else:
            text = value if value.isprintable() else printable(value)
            parts.append(f"{name}={text!r}" if _QUOTED(text) else f"{name}={text}")
    return "\n".join([" ".join(parts), *below]).encode()


def _to_standard_error(content: bytes) -> None:
    sys.stderr.buffer.write(content)
    sys.stderr.buffer.flush()


class LineWriter:
    """Writes lines in a thread by `write`, which may block; `gap` makes the line that counts the dropped ones."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        gap: Callable[[int], bytes],
        max_bytes: int = MAX_BYTES,
        gathering: float = BATCH_SECONDS,
    ) -> None:
        self._write = write
        self._gap = gap
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._n_bytes = 0
        self._missing = 0
        self.dropped = 0
        self._thread = BatchThread("log", gathering, self._deliver)
        atexit.register(self.close)

    def line(self, text: bytes) -> None:
        """Take a line, without its line end, from any thread."""
        with self._lock:
            if self._n_bytes + len(text) > self._max_bytes:
                self.dropped += 1
                self._missing += 1
                return
            self._n_bytes += len(text) + 1
            self._lines.append(text)
            first = len(self._lines) == 1
        if first:
            self._thread.wake()

    def close(self) -> None:
        """Write the remaining lines, within `CLOSE_TIMEOUT`. Later lines are dropped."""
        atexit.unregister(self.close)
        self._thread.close(CLOSE_TIMEOUT)

    def _take(self) -> bytes:
        with self._lock:
            lines, self._lines, self._n_bytes = self._lines, [], 0
            missing, self._missing = self._missing, 0
        if missing:
            lines.append(self._gap(missing))
        return b"".join(line + b"\n" for line in lines)

    def _deliver(self) -> None:
        content = self._take()
        if not content:
            return
        try:
            self._write(content)
        except (OSError, ValueError):  # the reader has ended, or the stream is closed
            with self._lock:
                self.dropped += content.count(b"\n")
