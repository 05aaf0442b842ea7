"""SIGTERM and SIGHUP end a command as Ctrl-C does: its clean-up runs, during any work of the event loop."""

import asyncio
import os
import signal

import pytest

from wharfinger.cli.live_cluster import signals_as_interrupt


def test_sigterm_cancels_the_main_task_and_no_other():
    """The signal arrives while a task of a server runs. KeyboardInterrupt there would leave the server half stopped."""
    seen = []

    async def answers(begun: asyncio.Event) -> None:
        await begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        seen.append("answered")

    async def serve() -> None:
        begun = asyncio.Event()
        answering = asyncio.create_task(answers(begun))
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await answering
            seen.append("stopped")

    with signals_as_interrupt(), pytest.raises(KeyboardInterrupt):
        asyncio.run(serve())
    assert seen == ["answered", "stopped"]


def test_the_end_of_the_terminal_interrupts_unless_it_is_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with signals_as_interrupt(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
        with signals_as_interrupt():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_sigterm_interrupts_also_where_ctrl_c_is_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_as_interrupt(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
