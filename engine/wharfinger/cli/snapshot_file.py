"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from wharfinger.errors import UsageError

STDOUT = "-"
_GZIP_LEVEL = 6


@contextlib.contextmanager
def whole(path: str) -> Iterator[BinaryIO]:
    """A stream into the file, readable by its owner only; it takes its place when the context ends without an exception.

    `-` is standard output; a pipe or a device is written to as it is. UsageError when it cannot be written, said as early as possible.
    """
    if path == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))  # behind a link, as the link itself should stay
    with _as_usage_errors(path):
        if target.is_dir():
            raise UsageError(f"{path}: this is a folder; give the name of a file")
        with target.open("wb") if target.exists() and not target.is_file() else _replacing(target) as stream:
            yield stream


@contextlib.contextmanager
def _as_usage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A new file beside the target (on the same disk, mode 0600), renamed when it is complete and on disk, else removed."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write(stream: BinaryIO, pieces: Iterable[bytes], *, compressed: bool) -> None:
    """None; the same pieces make the same bytes, compressed too."""
    if not compressed:
        stream.writelines(pieces)
        return
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=stream, mtime=0) as packed:
        cast("BinaryIO", packed).writelines(pieces)
