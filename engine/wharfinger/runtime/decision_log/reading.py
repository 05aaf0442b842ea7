"""Reading of decision logs, however they ended.

A file whose last line was cut off by the end of the process is read up to that line. Anything else that is not as it was written is an
error that names the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO

import msgspec

from wharfinger.errors import UsageError
from wharfinger.language.counts import count
from wharfinger.runtime.decision_log import files
from wharfinger.runtime.decision_log.lines import DECODE, HEAD, VERSION, Line

MOST_OF_HEAD = 65_536
"""Bytes of a first line: what has more without a break is no log."""
_GZIP = b"\x1f\x8b"


class BrokenLog(UsageError):
    """A log that cannot be replayed from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of a file, counted from 1."""

    path: Path
    number: int

    def __str__(self) -> str:
        return f"{self.path}:{self.number}"


@dataclass(slots=True, kw_only=True)
class LogReader:
    """Reads a log from its path; `notes` are sentences about what is missing in it."""

    path: Path
    notes: list[str] = field(default_factory=list)
    _run: str | None = None
    _file: int = 0
    _decisions: int = 0

    def lines(self) -> Iterator[tuple[Place, Line]]:
        """Every line of every file, in order. UsageError for a log that is not there, BrokenLog for one that is broken."""
        try:
            for path, stream in files.opened(self.path):
                yield from self._of_file(path, stream)
        except OSError as error:
            raise UsageError(f"{error.filename or self.path}: {error.strerror}") from error
        if self._run is None:
            raise BrokenLog(f"{self.path}: nothing has been written to this decision log yet")

    def _of_file(self, path: Path, stream: IO[bytes]) -> Iterator[tuple[Place, Line]]:
        first = stream.readline(MOST_OF_HEAD)
        for number, content in enumerate(chain([first] if first else [], stream), start=1):
            place = Place(path=path, number=number)
            if not content.endswith(b"\n") and (number > 1 or _may_begin(content)):
                self._run = self._run or ""
                self.notes.append(
                    f"{place}: the last line is not complete and is left out: it is being written, or the process ended while it was"
                )
                return
            line = _decoded(place, content)
            if number == 1 or line.t == "log":
                self._begins(place, line)
            self._decisions += line.t == "decision"
            yield place, line

    def _begins(self, place: Place, line: Line) -> None:
        """Check the first line of a file, and whether it follows on the file before."""
        if line.t != "log":
            raise BrokenLog(f"{place}: this is not the beginning of a decision log; the lines before are missing")
        if line.version != VERSION:
            raise BrokenLog(f"{place}: a decision log of version {line.version}; this program reads version {VERSION}")
        if line.lost:
            self.notes.append(f"{place.path}: decisions before this file were not recorded: the disk was full, or too slow")
        elif line.run == self._run and line.decisions > self._decisions:
            missing = line.decisions - self._decisions
            are = "is" if missing == 1 else "are"
            said = f"{count(missing, 'decision')} before this file {are} missing: a file was removed, or cut off"
            self.notes.append(f"{place.path}: {said}")
        elif line.run == self._run and line.file != self._file + 1:
            self.notes.append(f"{place}: what begins here does not follow on what is before: out of order, or there twice")
        self._run, self._file, self._decisions = line.run, line.file, line.decisions


def _may_begin(content: bytes) -> bool:
    """Whether a first line that was cut off is one of a log."""
    return content[: len(HEAD)] == HEAD[: len(content)]


def _decoded(place: Place, content: bytes) -> Line:
    try:
        return DECODE(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if content.startswith(_GZIP):
            raise BrokenLog(f"{place}: this is compressed; uncompress it first (`wharf replay <(gunzip -c FILE)`)") from error
        if place.number == 1:
            raise BrokenLog(f"{place}: this is not a decision log: {error}") from error
        raise BrokenLog(f"{place}: the line cannot be read: {error}") from error
