"""`wharf top`: a running scheduler, live in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Annotated, TypeVar

import typer

from wharfinger.cli import running_process, streams
from wharfinger.cli.running_answers import POLICIES, Decision, Decisions, PolicyStates, shaped
from wharfinger.cli.top_readings import Between, Readings, readings
from wharfinger.cli.top_screen import screen
from wharfinger.errors import UsageError, WharfingerError

_SECONDS = 5.0
_FEWEST_DECISIONS, _MOST_DECISIONS = 3, 50
_OTHER_LINES = 16

T = TypeVar("T")
Picture = tuple[Between, Sequence[str], PolicyStates, Sequence[Decision]]


def command(
    url: running_process.Url = running_process.HERE,
    interval: Annotated[float, typer.Option("--interval", min=0.2, max=3600.0, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print what there is since the process began, and end.")] = False,
) -> int:
    """Watch a running scheduler: queues, rates, latencies, policies, rules that take time, recent decisions, errors. Ctrl-C ends it."""
    running_process.check(url)
    if once or not sys.stdout.isatty() or os.environ.get("TERM") in {"dumb", "unknown"}:  # where no line can be drawn anew
        lines = screen(*_picture(url, None), shutil.get_terminal_size((100, 40)).columns)
        streams.out("".join(f"{text}\n" for text, _ in lines))
        return 0
    try:
        _watch(url, interval)
    except KeyboardInterrupt:
        return 0
    return 0


def _picture(url: str, before: Readings | None) -> Picture:
    """What the process says now."""
    text = running_process.text(url, "/metrics", _SECONDS)
    try:
        now = readings(text, time.monotonic())
    except ValueError as error:
        raise UsageError(f"{url}/metrics: this is not what a scheduler answers: {error}") from error
    rows = shutil.get_terminal_size((100, 40)).lines
    wanted = max(_FEWEST_DECISIONS, min(_MOST_DECISIONS, rows - _OTHER_LINES))
    decisions = _asked(url, f"/decisions?limit={wanted}", Decisions)["decisions"]
    return Between(now=now, before=before), running_process.failing(url, _SECONDS), _asked(url, POLICIES, PolicyStates), decisions


def _asked(url: str, path: str, shape: type[T]) -> T:
    return shaped(running_process.plain(url, path, _SECONDS), shape, f"{url}{path}")


def _watch(url: str, interval: float) -> None:
    """Never returns: draws again and again, also while nobody answers."""
    from rich.console import Console  # noqa: PLC0415 — 40 ms that only a terminal is worth
    from rich.live import Live  # noqa: PLC0415 — likewise
    from rich.text import Text  # noqa: PLC0415 — likewise

    from wharfinger.cli.live_cluster import ended_tidily  # noqa: PLC0415 — likewise

    console = Console(no_color=not streams.colors(sys.stdout), highlight=False)
    before: Readings | None = None
    shown: list[tuple[str, str]] = []
    with ended_tidily(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            trouble: list[tuple[str, str]] = []
            try:
                picture = _picture(url, before)
                shown = screen(*picture, console.width)
                before = picture[0].now
            except WharfingerError as error:
                after = "; what follows is the last that was known" if shown else ""
                trouble = [(str(error)[: console.width], "bold red"), (f"asking again{after}", "red")]
            text = Text("\n").join(Text(line, style, no_wrap=True, overflow="ellipsis") for line, style in trouble + shown)
            live.update(text, refresh=True)
            time.sleep(interval)
