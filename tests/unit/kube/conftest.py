"""A connection to a scripted API server, and a sink that records the cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kube.scripted_server import ScriptedServer
from wharfinger.emit import Emit, Failed, ignore
from wharfinger.framework.ports import WriteFailed
from wharfinger.kube.api_errors import RequestBackoff
from wharfinger.kube.connection import Connection, Limits
from wharfinger.kube.credentials import Credentials
from wharfinger.model.objects import key_of

_PATIENCE = 15.0


class RealClock:
    """The machine's clock; waits are remembered and made a hundred times shorter, or shorter still."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self.waits.append(seconds)
        await asyncio.sleep(min(seconds / 100, 0.05))


class Recorder:
    """A sink that stores the objects and the reports."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.reported: list[tuple[str, str]] = []
        self.kinds_synced: list[str] = []
        self.reports: list[tuple[str, BaseException]] = []

    def upsert(self, kind: str, obj: Any) -> None:
        self.reported.append(("upsert", key_of(obj)))
        self.objects.setdefault(kind, {})[key_of(obj)] = obj

    def delete(self, kind: str, obj: Any) -> None:
        self.reported.append(("delete", key_of(obj)))
        self.objects.setdefault(kind, {}).pop(key_of(obj), None)

    def replace(self, kind: str, objs: Any) -> None:
        self.reported.append(("replace", kind))
        self.objects[kind] = {key_of(obj): obj for obj in objs}

    def synced(self, kind: str) -> None:
        self.kinds_synced.append(kind)

    def emit(self, event: Failed) -> None:
        self.reports.append((event.where, event.error))

    def names(self, kind: str) -> set[str]:
        return set(self.objects.get(kind, {}))


def kubeconfig(folder: Path, server: str, cluster: dict[str, str] | None = None, **user: Any) -> str:
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
                "users": [{"name": "u", "user": user or {"token": "secret"}}],
            }
        )
    )
    return str(path)


@asynccontextmanager
async def connected(folder: Path, server: ScriptedServer, emit: Emit = ignore, **limits: Any) -> AsyncIterator[Connection]:
    credentials = Credentials(kubeconfig(folder, server.address), None, time.monotonic)
    async with Connection(credentials, Limits(**limits), emit=emit) as connection:
        yield connection


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    """Runs a scenario against a scripted server; it has fifteen seconds, which only a fault takes."""

    def start(scenario: Callable[[ScriptedServer, Connection], Awaitable[None]], **limits: Any) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(_PATIENCE),
                ScriptedServer().serving() as server,
                connected(tmp_path, server, **limits) as connection,
            ):
                await scenario(server, connection)

        asyncio.run(main())

    return start


async def failure_of(write: Awaitable[object]) -> WriteFailed | None:
    """The failure of a write; None if it succeeded."""
    try:
        await write
    except WriteFailed as error:
        return error
    return None


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 — there is no event to wait for
        await asyncio.sleep(0.002)


@asynccontextmanager
async def running(task: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """The coroutine as a task that is cancelled in the end; what it raises on its own is raised here."""
    started = asyncio.ensure_future(task)
    try:
        yield started
    finally:
        started.cancel()
        await asyncio.gather(started, return_exceptions=True)


def steady() -> RequestBackoff:
    return RequestBackoff(draw=lambda: 0.0)
