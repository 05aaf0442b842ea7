"""The files of a decision log: `decisions.jsonl` is being written; `decisions.jsonl.000001` and so on are finished, oldest first.

They are written in a separate thread: the recorder only puts references into a queue. The thread makes lines of them, gathers these for a
moment, and writes; it starts a new file when one is big enough. Only finished files are synced to disk: what was written survives any end
of the process, except for the last `BATCH_SECONDS` seconds; a crash of the machine loses what its kernel had not written yet.

Several processes may share a log. Each holds a lock on the file that it writes, so the others do not remove it while it is still empty.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO, Any

from wharfinger.errors import UsageError, WharfingerError
from wharfinger.event_loop import BatchThread
from wharfinger.scheduler.decision_log.lines import ENCODE, HEAD, MADE_BY, VERSION, Encoding, Line

_NUMBER = re.compile(r"\.(\d{6,})$")
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


class LogNotWritten(WharfingerError):
    """The disk refuses a part of the log."""


class LogWriter:
    """Writes the files of one run of the process. `wants_checkpoint`: the next entry has to be a checkpoint; a new file begins with it."""

    def __init__(self, path: str, *, max_bytes: int, max_files: int, failed: Callable[[BaseException], None]) -> None:
        self._path = Path(path).resolve()
        self._max_bytes = max_bytes
        self._max_files = max_files
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
        try:
            self._empty: FileIO | None = begun(self._path)
            prune(self._path, max_files)
        except OSError as error:
            raise UsageError(f"{path}: the decision log cannot be written: {error.strerror}") from error
        self._thread = BatchThread("decision log", BATCH_SECONDS, self._write_entries, self._end)

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
        self._thread.wake()

    @property
    def has_room(self) -> bool:
        """True if a checkpoint would find room in the queue, and the disk has not failed recently."""
        return len(self._entries) < MAX_WAITING // 2 and time.monotonic() >= self._paused_until

    def close(self) -> None:
        """Write the remaining lines, in at most `CLOSE_TIMEOUT` seconds."""
        self._thread.close(CLOSE_TIMEOUT)

    def _write_entries(self) -> None:
        try:
            self._write_all()
        except Exception as error:  # noqa: BLE001 — the log continues after a full disk
            self._failed_write(error)

    def _end(self) -> None:
        self._end_file()
        if self._empty is not None:
            self._empty.close()

    def _failed_write(self, error: BaseException) -> None:
        self._failed(self._named(error))
        if self._file is not None and self._n_decisions == self._n_before:
            # A part of a checkpoint cannot be replayed, and would take the place of a file that can.
            with suppress(OSError):
                self._file.truncate(0)
                self._file.seek(0)
                self._empty, self._file = self._file, None
        self._end_file()
        self._paused_until = time.monotonic() + RETRY_AFTER
        self._entries.clear()
        self._content.clear()
        self._lost = True
        self.wants_checkpoint = True  # last: a checkpoint that the event loop adds meanwhile is dropped and requested again

    def _write_all(self) -> None:
        pause_at = time.perf_counter() + WORK_SECONDS
        while self._entries:
            for line in self._lines(self._entries.popleft()):
                self._content.append(line)
                if time.perf_counter() >= pause_at and not self._thread.is_closing:
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
        if self._n_bytes >= self._max_bytes:
            self._n_bytes = 0  # requested once; the next entry starts the new file
            self.wants_checkpoint = True

    def _begin_file(self, *, lost: bool) -> None:
        self._write()
        self._end_file()
        begun = self._new_file()
        prune(self._path, self._max_files - 1)
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
        return empty or begun(self._path)

    def _end_file(self) -> None:
        if self._file is None:
            return
        try:
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            self._failed(self._named(error))
        self._file = None

    def _named(self, error: BaseException) -> BaseException:
        """The error with the path of the log and the way out, if the disk has raised it."""
        if not isinstance(error, OSError):
            return error
        goes_on = "nothing is recorded until the disk has free space and may be written"
        return LogNotWritten(f"{self._path}: the decision log cannot be written: {error.strerror or error}; {goes_on}")


def begun(path: Path) -> FileIO:
    """A new empty file for its owner alone: it names every pod of the cluster.

    A file that is there becomes the last finished one; a process that still writes to it continues there. Raises UsageError if what is
    there is no decision log, OSError when the file cannot be written.
    """
    while True:
        if wrong := _not_a_log(path):
            raise UsageError(f"{path}: the decision log cannot be written: {wrong}")
        try:
            file = FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
        except FileExistsError:
            _finish(path)
        else:
            os.fchmod(file.fileno(), 0o600)
            _lock(file, fcntl.LOCK_SH)
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # another process has removed it before it was locked


def _finish(path: Path) -> None:
    """Rename the present file to the next number.

    An empty file takes the number first, as a rename would replace a file that another process has just finished.
    """
    target = path.with_name(f"{path.name}.{max(map(_number, _numbered(path)), default=0) + 1:06d}")
    try:
        reserved = FileIO(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    except FileExistsError:
        return
    with reserved:
        _lock(reserved, fcntl.LOCK_SH)
        if not os.fstat(reserved.fileno()).st_nlink:
            return
        try:
            path.rename(target)
        except OSError as error:
            target.unlink(missing_ok=True)
            if not isinstance(error, FileNotFoundError):
                raise


def _lock(file: FileIO, kind: int) -> bool:
    """True if the file is locked until it is closed; False if another process has locked it, or the file system has no locks."""
    try:
        fcntl.flock(file, kind)
    except OSError:
        return False
    return True


def _numbered(path: Path) -> list[Path]:
    """The numbered files of a log, oldest first."""
    numbered = (found for found in path.parent.glob(f"{_escaped(path.name)}.*") if _NUMBER.fullmatch(found.name.removeprefix(path.name)))
    return sorted(numbered, key=_number)


def _size(path: Path) -> int:
    """Bytes of a file; 0 for one that has just been removed."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _not_a_log(path: Path) -> str:
    """The reason not to move or overwrite an existing file, or ""."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return "that is a folder; name a file in it"
        if not stat.S_ISREG(mode):
            return "that is a device or a pipe, and parts of the log that are finished could not be kept next to it; name a file"
        with path.open("rb") as stream:
            return "" if HEAD.startswith(stream.read(len(HEAD))) else "the file contains something else; name another one"
    except FileNotFoundError:
        return ""


def prune(path: Path, limit: int) -> None:
    """Remove all but the latest `limit` finished files, and empty files that no process will write to or replace."""
    sizes = {found: _size(found) for found in _numbered(path)}
    present = [found for found, size in sizes.items() if size]
    for old in present[: -limit or None]:
        old.unlink(missing_ok=True)
    for empty in sizes.keys() - set(present):
        _remove_if_unused(empty)


def _remove_if_unused(empty: Path) -> None:
    """Remove a file unless a process has locked it, has written to it, or has renamed another file to its name."""
    with suppress(FileNotFoundError), FileIO(empty) as file:
        if _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
            locked = os.fstat(file.fileno())
            if not locked.st_size and os.path.samestat(locked, empty.stat()):
                empty.unlink()


def opened(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Every file of a log, opened, in order: the finished ones and the one being written; of a finished file that is named, only that.

    A log may grow while it is read: files that are finished during the reading are read, files that are removed are left out. Raises
    UsageError if there is none.
    """
    path = path.resolve() if path.is_symlink() and path.is_file() else path
    alone = bool(_NUMBER.search(path.name)) and path.exists()
    number, found = 0, False
    while True:
        left = None if alone else _next(path, number)
        try:
            stream = (left or path).open("rb")
        except FileNotFoundError:
            if left is None and not found:
                raise UsageError(f"{path}: no such decision log") from None
            if left is None:
                return
            number = _number(left)
            continue
        with stream:
            if left is None and not alone and _next(path, number) is not None:
                continue
            yield left or path, stream
        if left is None:
            return
        number, found = _number(left), True


def _next(path: Path, before: int) -> Path | None:
    """The first finished file with a higher number that is not empty; an empty one is of a process that ended before it wrote."""
    return next((found for found in _numbered(path) if _number(found) > before and _size(found)), None)


def _number(path: Path) -> int:
    found = _NUMBER.search(path.name)
    return int(found[1]) if found else 0


def _escaped(name: str) -> str:
    """The name as a pattern that matches nothing else."""
    return re.sub(r"([*?\[])", r"[\1]", name)
