"""Writes a decision log to disk, in a thread of its own.

The recorder only puts references into a queue. The thread makes lines of them, gathers these for a moment, and writes; it starts a new file
when one is big enough. Only finished files are synced to disk: what was written survives any end of the process, except for the last
`BATCH_SECONDS` seconds; a crash of the machine loses what its kernel had not written yet.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from wharfinger.errors import UsageError, WharfingerError
from wharfinger.scheduler.decision_log import files
from wharfinger.scheduler.decision_log.lines import ENCODE, MADE_BY, VERSION, Encoding, Line

BATCH_SECONDS = 0.05
"""Seconds for which entries are gathered before they are written."""
MAX_WAITING = 200_000
"""Entries that wait for the disk; further ones are lost, and the log starts again with a checkpoint when there is room."""
CLOSE_TIMEOUT = 10.0
"""Seconds that the end of the process waits for the disk."""
RETRY_AFTER = 30.0
"""Seconds for which nothing is recorded after a write has failed."""
WORK_SECONDS, PAUSE_SECONDS = 0.0005, 0.001
"""Seconds of encoding lines, and of sleep after them: a decision releases Python's lock with every array it works on."""

Entry = tuple[Any, ...]


class LogOverflow(WharfingerError):
    """Entries come faster than they can be written."""


class LogWriter:
    """Writes the files of one run of the process. `wants_checkpoint`: the next entry has to be a checkpoint; a new file begins with it."""

    def __init__(self, path: str, *, most_bytes: int, most_files: int, failed: Callable[[BaseException], None]) -> None:
        self._path = Path(path).resolve()
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._failed = failed
        self._run_id = os.urandom(8).hex()
        self._entries: deque[Entry] = deque()
        self._encoding = Encoding()
        self._content: list[bytes] = []
        self._file: FileIO | None = None
        self._n_files = 0
        self._n_bytes = 0
        self._n_decisions = self._n_before = 0
        self._lost = False
        self._paused_until = 0.0
        self.wants_checkpoint = True
        self._waiting = threading.Event()
        self._closing = threading.Event()
        try:
            self._empty: FileIO | None = files.begun(self._path)
            files.prune(self._path, most_files)
        except OSError as error:
            raise UsageError(f"{path}: the decision log cannot be written: {error.strerror}") from error
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Queue an entry to be written; from one thread only. Without room the entry is lost, and so are all others until a checkpoint."""
        if len(self._entries) >= MAX_WAITING:
            if not self._lost:
                self._failed(LogOverflow(f"the disk does not keep up: {MAX_WAITING} entries wait, and later ones are lost"))
            self.wants_checkpoint = self._lost = True
            return
        if entry[0] == "checkpoint":
            entry = (*entry, self._lost)
            self.wants_checkpoint = self._lost = False
        elif self.wants_checkpoint and self._lost:
            return
        self._entries.append(entry)
        if not self._waiting.is_set():
            self._waiting.set()

    @property
    def has_room(self) -> bool:
        """True if a checkpoint would find room in the queue, and the disk has not failed lately."""
        return len(self._entries) < MAX_WAITING // 2 and time.monotonic() >= self._paused_until

    def close(self) -> None:
        """Write what is left, in at most `CLOSE_TIMEOUT` seconds."""
        self._closing.set()
        self._waiting.set()
        self._thread.join(CLOSE_TIMEOUT)

    def _run(self) -> None:
        closing = False
        while not closing:
            self._waiting.wait()
            closing = self._closing.wait(BATCH_SECONDS)
            self._waiting.clear()
            try:
                self._write_all()
            except Exception as error:  # noqa: BLE001 — a disk that is full must not end the log for good
                self._failed_write(error)
        self._end_file()
        if self._empty is not None:
            self._empty.close()

    def _failed_write(self, error: BaseException) -> None:
        self._failed(error)
        if self._file is not None and self._n_decisions == self._n_before:
            # A part of a checkpoint cannot be replayed, and would take the place of a file that can.
            with suppress(OSError):
                self._file.truncate(0)
                self._file.seek(0)
                self._empty, self._file = self._file, None
        self._end_file()
        self._paused_until = time.monotonic() + RETRY_AFTER
        self._lost = True
        self.wants_checkpoint = True
        self._entries.clear()
        self._content.clear()

    def _write_all(self) -> None:
        pause_at = time.perf_counter() + WORK_SECONDS
        while self._entries:
            for line in self._lines(self._entries.popleft()):
                self._content.append(line)
                if time.perf_counter() >= pause_at and not self._closing.is_set():
                    self._write()
                    time.sleep(PAUSE_SECONDS)
                    pause_at = time.perf_counter() + WORK_SECONDS
        self._write()

    def _lines(self, entry: Entry) -> Iterator[bytes]:
        """The lines of an entry; a checkpoint begins a new file."""
        if entry[0] == "checkpoint":
            *_, lost = entry
            self._begin_file(lost=lost)
            yield from self._encoding.lines(entry[:-1])
            self._write()
            self._n_bytes = 0  # the limit is for the lines after the checkpoint: a cluster may be bigger than it
        elif self._file is not None:  # else it happened before the first checkpoint, and is in it
            yield from self._encoding.lines(entry)
            self._n_decisions += entry[0] == "decision"

    def _write(self) -> None:
        content, self._content = b"".join(line + b"\n" for line in self._content), []
        if not content or self._file is None:
            return
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) or 0 :]
        self._n_bytes += len(content)
        if self._n_bytes >= self._most_bytes:
            self._n_bytes = 0  # asked once; the next entry starts the new file
            self.wants_checkpoint = True

    def _begin_file(self, *, lost: bool) -> None:
        self._write()
        self._end_file()
        begun = self._new_file()
        files.prune(self._path, self._most_files - 1)
        self._n_files += 1
        self._n_bytes = 0
        self._n_before = self._n_decisions
        self._encoding = Encoding()
        self._file = begun
        head = Line(
            t="log",
            version=VERSION,
            made_by=MADE_BY,
            run=self._run_id,
            file=self._n_files,
            decisions=self._n_decisions,
            lost=lost,
        )
        self._content.append(ENCODE(head))

    def _new_file(self) -> FileIO:
        """The empty file that is kept, unless it was removed meanwhile."""
        empty, self._empty = self._empty, None
        if empty is not None and not os.fstat(empty.fileno()).st_nlink:
            empty.close()
            empty = None
        return empty or files.begun(self._path)

    def _end_file(self) -> None:
        if self._file is None:
            return
        try:
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            self._failed(error)
        self._file = None
