"""A progress bar for people who watch; nothing for pipes, files and CI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

WORTH_A_BAR = 500


@contextmanager
def bar(stream: TextIO, title: str, total: int) -> Iterator[Callable[[], None]]:
    """A function to call once per step done; it draws on `stream` if that is a terminal and there is enough to do."""
    if not stream.isatty() or total < WORTH_A_BAR:
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415 — 40 ms that only a terminal is worth
    from rich.progress import Progress  # noqa: PLC0415 — likewise

    with Progress(console=Console(file=stream), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)
