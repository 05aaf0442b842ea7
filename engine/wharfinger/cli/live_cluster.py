"""The cluster as it is now, for commands that end: `wharf snapshot`, and dry runs with `--live`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wharfinger.errors import UsageError
from wharfinger.model import read
from wharfinger.runtime import cluster
from wharfinger.runtime.cluster import Cluster

if TYPE_CHECKING:
    from wharfinger.kube.capture import Captured


def cluster_of(paths: Sequence[str], kubeconfig: str | None, context: str | None, *, live: bool, skip_invalid: bool) -> Cluster:
    """The cluster that files describe, or the one that a kubeconfig leads to; UsageError unless it is one of the two."""
    if paths and live:
        raise UsageError("--snapshot and --live exclude each other: a file, or the cluster as it is now")
    if not live and (kubeconfig is not None or context is not None):
        raise UsageError("--kubeconfig and --context say where --live reads; give --live too")
    if live:
        return cluster.cluster_of(read.read_bytes(capture(kubeconfig, context).content, "the cluster"))
    if not paths:
        raise UsageError("which cluster? Give a file with --snapshot, or --live for the one that the kubeconfig names")
    return cluster.load_cluster(paths, skip_invalid=skip_invalid)


def capture(kubeconfig: str | None, context: str | None) -> Captured:
    """Everything that a decision depends on; UsageError says why it cannot be had."""
    from wharfinger.kube.capture import captured  # noqa: PLC0415 — half a second of imports that files do not need
    from wharfinger.kube.connection import Connection, Limits  # noqa: PLC0415 — likewise
    from wharfinger.kube.credentials import Credentials  # noqa: PLC0415 — likewise
    from wharfinger.runtime.system_clock import SystemClock  # noqa: PLC0415 — likewise

    async def read_cluster() -> Captured:
        clock = SystemClock()
        credentials = Credentials(kubeconfig, context, clock.monotonic)
        async with Connection(credentials, Limits(request_timeout=60.0), user_agent="wharf-snapshot") as connection:
            return await captured(connection, clock)

    return asyncio.run(read_cluster())


@contextlib.contextmanager
def ended_tidily() -> Iterator[None]:
    """While this lasts SIGTERM ends the command as Ctrl-C does, so that nothing half-done is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
