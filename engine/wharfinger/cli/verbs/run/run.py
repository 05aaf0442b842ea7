"""`wharf run`: schedules pods on a cluster until it is stopped by a signal."""

from __future__ import annotations

import asyncio
import signal

from wharfinger.cli.verbs.run.settings import taking_settings
from wharfinger.daemon.serve import serve
from wharfinger.daemon.settings import Settings
from wharfinger.errors import WharfingerError

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@taking_settings
def wharf_run(settings: Settings) -> int:
    """Run the scheduler: place the pods that name it in spec.schedulerName, until SIGTERM or SIGINT.

    A second signal ends the process at once.

    $ wharf run --policy policies/ --dry-run
    """
    asyncio.run(_until_signalled(settings))
    return 0


class StoppedAtOnce(WharfingerError):
    """A second signal came while the process was stopping."""


async def _until_signalled(settings: Settings) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    serving = asyncio.ensure_future(serve(settings, stop=stop))

    def signalled() -> None:
        if stop.is_set():
            serving.cancel()
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, signalled)
    try:
        await serving
    except asyncio.CancelledError:
        raise StoppedAtOnce("stopped at once by a second signal; what was under way may or may not have been written") from None
