"""Lines on their way to a file or a pipe, written by a thread of their own.

Whoever logs only puts a line into memory; a slow disk or a reader that pauses holds up the thread and nobody else. The thread gathers
lines for a moment, so that thousands a second cost a few dozen writes. Whatever was logged is written before the process ends; only when
nobody reads for so long that `most_bytes` wait are further lines left out, counted, and the gap is noted where it is.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable

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
