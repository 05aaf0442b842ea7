"""The validating webhook of the running process, and the worker processes that check policies for it.

Every replica serves it, leader or not. The server starts with the process, so a port that is taken is found at the start; without a
certificate it refuses connections, which does not stop scheduling.

A thread that computes for too long cannot be stopped, and it holds Python's lock against the event loop. So each check runs in a worker
process that is killed at its deadline; a few run at a time, in fair turns.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from wharfinger.daemon.settings import AdmissionSettings
from wharfinger.errors import WharfingerError
from wharfinger.event_loop import Tasks
from wharfinger.framework.ports import Clock
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.operator.policy_admission import MAX_MEMORY_BYTES, READY, CheckRequest, CheckResult
from wharfinger.signals.fair_queue import FairTurns, QueueLimits, Requester, TooMany
from wharfinger.telemetry.logs import Log
from wharfinger.web.admission import Admission, Caller, Callers, Check, DeadlineExceeded, Overloaded, Verdict
from wharfinger.web.server import Server, ServingCertificate

PROCESSES = 3
CHECK_TIMEOUT = 2.0
"""Seconds that one check may take; a usual text takes a hundredth of that."""
QUEUE_LIMITS = QueueLimits(number=PROCESSES, of_group=PROCESSES - 1, of_requester=1, waiting=64, waiting_of_requester=8)
_START_SECONDS = 30.0
_MAX_LINE_BYTES = 2**20


def checker_command(rights: TenantRights) -> tuple[str, ...]:
    """The command of a process that checks policies, where policies of namespaces have these rights."""
    return sys.executable, "-P", "-m", "wharfinger.operator.policy_admission", msgspec.json.encode(rights).decode()


class TooLong(WharfingerError):
    """A check did not end in time."""


class CheckerPool:
    """Processes that check policies, started when they are needed."""

    def __init__(self, monotonic: Callable[[], float], *, command: tuple[str, ...], seconds: float = CHECK_TIMEOUT) -> None:
        self.turns = FairTurns(QUEUE_LIMITS, monotonic)
        self._command = command
        self._seconds = seconds
        self._idle: list[Process] = []
        self._coming: list[asyncio.Task[Process]] = []
        self._all: set[Process] = set()
        self._ended: list[Process] = []
        self._closed = False

    def prepare(self) -> None:
        """Start a process now: that takes a second, which is better spent before a request waits for it."""
        if not self._closed:
            self._coming.append(asyncio.get_running_loop().create_task(self._started(), name="policy check"))

    async def __call__(self, obj: Mapping[str, Any] | msgspec.Raw, requester: Requester) -> CheckResult:
        """The result of checking an object, or one as JSON. TooMany where too many wait, TooLong, WharfingerError where the process ended.

        Cancelling it ends the process that pool.
        """
        async with self.turns.of(requester):
            process = self._waiting() or await self._next()
            answered = False
            try:
                answer = await self._checked_by(process, obj)
                answered = True
            finally:
                if answered:
                    self._idle.append(process)
                else:
                    self._end(process)
                    self.prepare()
            if answer.unreadable:
                raise WharfingerError(f"the object cannot be read: {answer.unreadable}")
            return answer

    async def close(self) -> None:
        """End all processes, without waiting for checks under way."""
        self._closed = True
        self._idle.clear()
        for task in self._coming:
            task.cancel()
        await asyncio.gather(*self._coming, return_exceptions=True)
        for process in list(self._all):
            self._end(process)
        for process in self._ended:
            await process.wait()

    def _waiting(self) -> Process | None:
        """A process that waits for an object; processes that have ended, for example for lack of memory, are skipped."""
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
            self._end(process)
        return None

    async def _next(self) -> Process:
        """The next process that has started. If this is cancelled, the process continues to start for others."""
        if not self._coming:
            self.prepare()
        if self._closed:
            raise WharfingerError("the process stops")
        task = self._coming.pop(0)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._coming.append(task)
            raise

    async def _checked_by(self, process: Process, obj: Mapping[str, Any] | msgspec.Raw) -> CheckResult:
        assert process.stdin is not None  # noqa: S101 — as it is started
        assert process.stdout is not None  # noqa: S101 — as above
        written = msgspec.Raw(msgspec.json.encode(obj).replace(b"\n", b" "))  # a request is one line, and JSON may have several
        request = msgspec.json.encode(CheckRequest(object=written, seconds=self._seconds))
        with suppress(ConnectionError):  # it has ended; the reason is reported below
            process.stdin.write(request + b"\n")
            await process.stdin.drain()
        try:
            async with asyncio.timeout(2 * self._seconds):  # it stops itself; this is for one that does not get to run
                line = await process.stdout.readline()
        except TimeoutError:
            line = b""
            self._end(process)  # only then: asyncio does not know any more how one ended that is killed as it ends
        if line.endswith(b"\n"):
            return msgspec.json.decode(line, type=CheckResult)
        status = await process.wait()
        if status in {-14, -9}:  # SIGALRM by the process itself, SIGKILL by us
            raise TooLong(f"the text was not checked within {self._seconds:g} s; `wharf check --cost` shows its cost")
        raise WharfingerError(
            f"the process that checked the text ended with status {status}; it may take {MAX_MEMORY_BYTES >> 20} MiB of memory"
        )

    async def _started(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_MAX_LINE_BYTES, start_new_session=True
        )
        self._all.add(process)
        assert process.stdout is not None  # noqa: S101 — as it is started
        ready = b""
        try:
            async with asyncio.timeout(_START_SECONDS):
                ready = await process.stdout.readline()
        except TimeoutError:
            pass
        finally:
            if ready != READY:
                self._end(process)
        if ready != READY:
            raise WharfingerError(f"the process that checks texts cannot be started: {' '.join(self._command)}")
        return process

    def _end(self, process: Process) -> None:
        self._all.discard(process)
        self._ended = [other for other in self._ended if other.returncode is None and other is not process]
        self._ended.append(process)
        with suppress(ProcessLookupError):
            process.kill()


POLL_SECONDS = 10.0
"""Seconds between two looks at the files of the certificate."""


@asynccontextmanager
async def admission_served(  # noqa: PLR0913, PLR0917 — collaborators, passed in by the composition
    settings: AdmissionSettings, host: str, on_result: Callable[[str], None], clock: Clock, log: Log, rights: TenantRights
) -> AsyncIterator[Server]:
    """The server of the webhook while the context lasts; UsageError when the port is not available."""
    certificate = ServingCertificate(settings.certificate, settings.key, settings.client_ca_file)
    callers = Callers(names=frozenset(settings.client_names), anyone=settings.any_caller)
    pool = CheckerPool(clock.monotonic, command=checker_command(rights))
    admission = Admission(check_of(pool, log), callers, on_result)
    try:
        async with Server(admission.application(), host, settings.port, certificate.context) as server, Tasks() as tasks:
            log.info("serving admission", url=server.url)
            if settings.any_caller:
                log.warning(
                    "admission accepts any client", fix="set admission.clientCaFile to the CA of the API server's client certificate"
                )
            pool.prepare()
            tasks.start(_followed(certificate, clock, log), "certificate")
            yield server
    finally:
        await pool.close()


def check_of(pool: CheckerPool, log: Log) -> Check:
    """The check of the webhook: fair between users, and between addresses where anyone may ask."""

    async def check(obj: msgspec.Raw, caller: Caller) -> Verdict:
        try:
            found = await pool(obj, Requester(caller.user, group=caller.address or caller.user))
        except TooMany:
            raise Overloaded from None
        except WharfingerError as error:
            log.warning("admission gave no verdict", user=caller.user, object=_name(obj), error=str(error))
            if isinstance(error, TooLong):
                raise DeadlineExceeded from error
            raise
        return Verdict(refusal=found.refusal, warnings=found.warnings)

    return check


class _Named(msgspec.Struct):
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


def _name(obj: msgspec.Raw) -> str:
    """The name in an object; empty if it has none."""
    try:
        return msgspec.json.decode(obj, type=_Object).metadata.name
    except msgspec.ValidationError:
        return ""


async def _followed(certificate: ServingCertificate, clock: Clock, log: Log) -> None:
    """Serve the certificate in the files soon after they change; never returns."""
    trouble = ""
    while True:
        try:
            if await asyncio.to_thread(certificate.reload):
                log.info("admission has a certificate")
            trouble = ""
        except OSError as error:
            if str(error) != trouble:
                served = "the former certificate" if certificate.is_served else "none: connections fail"
                log.warning("admission has no new certificate", error=str(error), served=served)
            trouble = str(error)
        await clock.sleep(POLL_SECONDS)
