"""The files of a decision log: `decisions.jsonl` is being written; `decisions.jsonl.000001` and so on are finished, oldest first."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import IO

from wharfinger.errors import UsageError
from wharfinger.scheduler.decision_log.lines import HEAD

_NUMBER = re.compile(r"\.(\d{6,})$")


def begun(path: Path) -> FileIO:
    """A new empty file for its owner alone: it names every pod of the cluster.

    A file that is there becomes the last finished one; a process that still writes to it goes on there. Raises UsageError if what is there
    is no decision log, OSError when the file cannot be written.
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
            return file


def _finish(path: Path) -> None:
    """Rename the present file to the next number.

    An empty file takes the number first, as a rename would replace a file that another process has just finished.
    """
    target = path.with_name(f"{path.name}.{max(map(_number, _numbered(path)), default=0) + 1:06d}")
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    try:
        path.rename(target)
    except OSError as error:
        target.unlink(missing_ok=True)
        if not isinstance(error, FileNotFoundError):
            raise


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
    """What is there that must not be moved or overwritten; "" if nothing is."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return "that is a folder; name a file in it"
        if not stat.S_ISREG(mode):
            return "that is a device or a pipe, and parts of the log that are finished could not be kept next to it; name a file"
        with path.open("rb") as stream:
            return "" if HEAD.startswith(stream.read(len(HEAD))) else "the file holds something else; name another one"
    except FileNotFoundError:
        return ""


def prune(path: Path, most: int) -> None:
    """Remove all but the latest `most` finished files, and empty files but the last, which may be about to be replaced."""
    sizes = {found: _size(found) for found in _numbered(path)}
    there = [found for found, size in sizes.items() if size]
    empty = [found for found in list(sizes)[:-1] if not sizes[found]]
    for old in [*there[: -most or None], *empty]:
        old.unlink(missing_ok=True)


def opened(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Every file of a log, opened, in order: the finished ones and the one being written; of a finished file that is named, only that.

    A log may grow while it is read: files that are finished meanwhile are read, files that are removed meanwhile are left out. Raises
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
