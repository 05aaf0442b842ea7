"""Standard output and standard error: encoding, colours, warnings, and a progress bar for terminals."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from wharfinger.errors import printable, printable_lines, with_escapes

TRACEBACK = "WHARF_TRACEBACK"
"""The environment variable that has tracebacks written instead of one line."""


def prepare() -> None:
    """Make the standard streams the same everywhere: UTF-8 for any locale, and present even if the caller closed them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 — for as long as the process runs
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def out(text: str) -> None:
    """Write text to stdout."""
    sys.stdout.write(text)


def json_text(value: Any) -> str:
    """Plain values as indented JSON, with a newline at the end, and with escapes for characters that cannot be seen."""
    return with_escapes(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def print_stderr(text: str) -> None:
    """Write one line to stderr."""
    sys.stdout.flush()
    sys.stderr.write(f"wharf: {printable_lines(text)}\n")


def warn(sentences: Iterable[str]) -> None:
    """Write a warning to stderr for each sentence."""
    for sentence in sentences:
        print_stderr(f"warning: {printable(sentence)}")


def colors(stream: TextIO) -> bool:
    """True if output to a stream is coloured: for a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def print_stderr_text(text: str) -> None:
    """Write text to stderr as it is."""
    sys.stdout.flush()
    sys.stderr.write(text)


@contextmanager
def handled(number: signal.Signals, handler: Callable[..., object]) -> Iterator[None]:
    """A context in which a signal calls a handler; without effect outside of the main thread, which alone can set handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """A function that returns True after Ctrl-C was pressed. A second Ctrl-C ends the command as usual."""
    pressed, before = False, signal.getsignal(signal.SIGINT)

    def on_interrupt(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    with handled(signal.SIGINT, on_interrupt):
        yield lambda: pressed


MIN_STEPS_FOR_BAR = 500
SECONDS_BETWEEN_DRAWINGS = 0.1


@contextmanager
def bar(stream: TextIO, title: str, total: int, min_steps: int = MIN_STEPS_FOR_BAR) -> Iterator[Callable[[], None]]:
    """A function to call once per step done; it draws on `stream` if that is a terminal and there are at least `min_steps` steps."""
    if not stream.isatty() or total < min_steps:
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415 — 40 ms that only a terminal is worth
    from rich.progress import Progress  # noqa: PLC0415 — as above

    # drawn by this thread, so that the process can be forked
    with Progress(console=Console(file=stream), transient=True, auto_refresh=False) as progress:
        task = progress.add_task(title, total=total)
        drawn = time.monotonic()

        def advance() -> None:
            nonlocal drawn
            progress.advance(task)
            if (now := time.monotonic()) - drawn >= SECONDS_BETWEEN_DRAWINGS:
                progress.refresh()
                drawn = now

        yield advance
