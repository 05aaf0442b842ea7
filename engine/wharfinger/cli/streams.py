"""Where output goes."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO


def prepare() -> None:
    """None; makes the standard streams the same everywhere: UTF-8 whatever the locale says, and there even when the caller closed them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 — for as long as the process runs
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def out(text: str) -> None:
    """None; writes text to stdout."""
    sys.stdout.write(text)


def complain(text: str) -> None:
    """None; writes one line to stderr."""
    sys.stdout.flush()
    sys.stderr.write(f"wharf: {text}\n")


def colors(stream: TextIO) -> bool:
    """Whether to colour what goes to a stream: a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def complain_all(text: str) -> None:
    """None; writes text to stderr as it is."""
    sys.stdout.flush()
    sys.stderr.write(text)
