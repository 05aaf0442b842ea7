"""The files of a decision log: `decisions.jsonl` is being written, `decisions.jsonl.000001` and so on are finished, oldest first."""

from __future__ import annotations

import re
from pathlib import Path

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


def of_log(path: Path) -> list[Path]:
    """All files of a log, in order: the finished ones and the one that is written; of a finished one that is named, only that.

    UsageError when there is none.
    """
    if _NUMBER.search(path.name) and path.exists():
        return [path]
    found = [*finished(path), *([path] if path.exists() else [])]
    if not found:
        raise UsageError(f"{path}: no such decision log")
    return found


def _number(path: Path) -> int:
    found = _NUMBER.search(path.name)
    return int(found[1]) if found else 0


def _escaped(name: str) -> str:
    """The name as a pattern that matches nothing else."""
    return re.sub(r"([*?\[])", r"[\1]", name)
