"""The files of a decision log: `decisions.jsonl` is being written, `decisions.jsonl.000001` and so on are finished, oldest first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from wharfinger.errors import UsageError

_NUMBER = re.compile(r"\.(\d{6,})$")


def finished(path: Path) -> list[Path]:
    """The finished files of a log, oldest first."""
    beside = (found for found in path.parent.glob(f"{_escaped(path.name)}.*") if _NUMBER.fullmatch(found.name.removeprefix(path.name)))
    return sorted(beside, key=_number)


def make_way(path: Path) -> None:
    """None; what the file holds becomes the last finished one. OSError when that cannot be."""
    if not path.exists() or not path.stat().st_size:
        return
    before = finished(path)
    path.rename(path.with_name(f"{path.name}.{(_number(before[-1]) if before else 0) + 1:06d}"))


def prune(path: Path, most: int) -> None:
    """None; at most so many finished files are left, the latest."""
    for old in finished(path)[: -most or None]:
        old.unlink(missing_ok=True)


def opened(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Every file of a log, opened and in order: the finished ones and the one that is written; of a finished one that is named, only that.

    A log may go on while it is read: what is finished meanwhile is read as such, and what was removed meanwhile is left out. UsageError
    when there is none.
    """
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
    """The first finished file with a higher number."""
    return next((found for found in finished(path) if _number(found) > before), None)


def _number(path: Path) -> int:
    found = _NUMBER.search(path.name)
    return int(found[1]) if found else 0


def _escaped(name: str) -> str:
    """The name as a pattern that matches nothing else."""
    return re.sub(r"([*?\[])", r"[\1]", name)
