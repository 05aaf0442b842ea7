"""Reading of decision logs, however they ended.

A file whose last line was cut off by the end of the process is read up to that line. Anything else that is not as it was written is an
error that names the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from wharfinger.errors import UsageError
from wharfinger.runtime.decision_log import files
from wharfinger.runtime.decision_log.lines import DECODE, VERSION, Line


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
    _run: str = ""
    _file: int = 0
    _decisions: int = 0

    def lines(self) -> Iterator[tuple[Place, Line]]:
        """Every line of every file, in order. UsageError for a log that is not there, BrokenLog for one that is broken."""
        found: Sequence[Path] = [path for path in files.of_log(self.path) if _has_content(path)]
        if not found:
            raise BrokenLog(f"{self.path}: nothing has been written to this decision log yet")
        for path in found:
            yield from self._of_file(path)

    def _of_file(self, path: Path) -> Iterator[tuple[Place, Line]]:
        try:
            with path.open("rb") as stream:
                for number, content in enumerate(stream, start=1):
                    place = Place(path=path, number=number)
                    if not content.endswith(b"\n"):
                        self.notes.append(f"{place}: the last line is not complete and is left out: the process ended while it was written")
                        return
                    line = _decoded(place, content)
                    if number == 1:
                        self._begins(place, line)
                    self._decisions += line.t == "decision"
                    yield place, line
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error

    def _begins(self, place: Place, line: Line) -> None:
        """Check the first line of a file, and whether it follows on the file before."""
        if line.t != "log":
            raise BrokenLog(f"{place}: this is not the beginning of a decision log; the lines before are missing")
        if line.version != VERSION:
            raise BrokenLog(f"{place}: a decision log of version {line.version}; this program reads version {VERSION}")
        if line.lost:
            self.notes.append(f"{place.path}: decisions before this file were not recorded: the disk was full, or too slow")
        elif line.run == self._run and (line.file != self._file + 1 or line.decisions != self._decisions):
            missing = line.decisions - self._decisions
            self.notes.append(f"{place.path}: {missing} decisions before this file are missing: a file was removed, or cut off")
        self._run, self._file, self._decisions = line.run, line.file, line.decisions


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _decoded(place: Place, content: bytes) -> Line:
    try:
        return DECODE(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if place.number == 1:
            raise BrokenLog(f"{place}: this is not a decision log: {error}") from error
        raise BrokenLog(f"{place}: the line cannot be read: {error}") from error
