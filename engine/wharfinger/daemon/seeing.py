"""What the process shows of its decisions: who keeps them, and who explains them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import wharfinger
from wharfinger.daemon.health import Health
from wharfinger.daemon.identity import identity
from wharfinger.daemon.seeing_settings import MEBIBYTE, DecisionLogSettings, TracingSettings
from wharfinger.errors import WharfingerError
from wharfinger.framework.ports import Attempt, Clock, Observer
from wharfinger.runtime.decision_log.recorder import DecisionRecorder
from wharfinger.runtime.decision_log.writer import LogWriter
from wharfinger.runtime.live_explanation import LiveExplanations
from wharfinger.telemetry import tracing
from wharfinger.telemetry.recent_decisions import RecentDecisions
from wharfinger.web import decisions as pages
from wharfinger.web.decisions import Decisions


class ToldToo:
    """An observer of which others are told the attempts too."""

    def __init__(self, observer: Observer, *told: Callable[[Attempt], None]) -> None:
        self._told = (observer.attempted, *told)
        self.queued = observer.queued
        self.preempted = observer.preempted
        self.flushed = observer.flushed
        self.failed = observer.failed
        self.stopwatch = observer.stopwatch

    def attempted(self, attempt: Attempt) -> None:
        """None; an attempt has ended."""
        for told in self._told:
            told(attempt)


def decisions_shown(recent: RecentDecisions, health: Health, clock: Clock, *, to_anybody: bool = False) -> Decisions:
    """What the pages about decisions ask, and whether from anywhere."""
    explanations = LiveExplanations(clock)

    async def explain(pod: str, nodes: list[str]) -> tuple[Mapping[str, Any], str]:
        daemon = health.daemon
        if daemon is None or daemon.scheduler.missing_kinds:
            raise WharfingerError("the cluster is not known yet")
        found = await explanations.of(daemon.scheduler, pod, nodes)
        last = next(recent.latest(pod=pod), None)
        if last is None:
            return {**found.plain(), "lastDecision": None}, str(found)
        return {
            **found.plain(),
            "lastDecision": {**pages.plain(last), **pages.details(last)},
        }, f"last decision: {pages.text(last)}\n{found}"

    return Decisions(recent=recent, explain=explain, to_anybody=to_anybody)


def recorder_of(settings: DecisionLogSettings | None, observer: Observer, opened: AsyncExitStack) -> DecisionRecorder | None:
    """What records the decisions until the context ends; None where that is not wanted. UsageError for a file that cannot be written."""
    if settings is None:
        return None
    writer = LogWriter(
        settings.path,
        most_bytes=settings.max_mebibytes * MEBIBYTE,
        most_files=settings.max_files,
        failed=_on_loop(observer, "decision log"),
    )
    opened.callback(writer.close)
    return DecisionRecorder(writer)


def traces_of(
    settings: TracingSettings | None, observer: Observer, clock: Clock, opened: AsyncExitStack
) -> Iterator[Callable[[Attempt], None]]:
    """Who is to be told of attempts so that they are traced until the context ends; nobody where that is not wanted."""
    if settings is not None:
        exporter = tracing.exporter_of(settings.endpoint, _on_loop(observer, "traces"))
        provider = tracing.provider_of(exporter, wharfinger.__version__, identity())
        traces = tracing.PodTraces(provider, settings.sampling_ratio, clock.now, clock.monotonic)
        opened.callback(traces.close)
        yield traces.attempted


def _on_loop(observer: Observer, where: str) -> Callable[[BaseException], None]:
    """What tells the observer on the event loop of what has failed in another thread."""
    loop = asyncio.get_running_loop()

    def failed(error: BaseException) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(observer.failed, where, error)

    return failed
