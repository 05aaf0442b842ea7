"""Where output goes."""

from __future__ import annotations

import os
import sys
from typing import TextIO


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
