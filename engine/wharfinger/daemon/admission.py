"""The webhook in the running process: served beside everything else by every replica, leader or not, whether or not the API server answers.

It serves from the start, so that a port that is taken is found then. As long as its certificate is not there it can answer nobody, which
is no reason not to schedule.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from wharfinger.daemon.admission_settings import AdmissionSettings
from wharfinger.daemon.judging import Judges, TooLong, judging_with
from wharfinger.daemon.tasks import Tasks
from wharfinger.errors import WharfingerError
from wharfinger.framework.ports import Clock
from wharfinger.language.authority import TenantRights
from wharfinger.signals.fair_queue import Asker, TooMany
from wharfinger.web.admission import Admission, Busy, Caller, Callers, Judge, Late, Verdict
from wharfinger.web.server import Server
from wharfinger.web.serving_certificate import ServingCertificate

LOOK = 10.0
"""Seconds between two looks at the files of the certificate."""


@asynccontextmanager
async def admission_served(  # noqa: PLR0913, PLR0917 — where it is served, whom it tells, and by what it judges
    settings: AdmissionSettings, host: str, seen: Callable[[str], None], clock: Clock, log: Any, rights: TenantRights
) -> AsyncIterator[Server]:
    """The server of the webhook while the context lasts; UsageError when the port cannot be had."""
    certificate = ServingCertificate(settings.certificate, settings.key, settings.client_ca_file)
    callers = Callers(names=frozenset(settings.client_names), anybody=settings.any_caller)
    judges = Judges(clock.monotonic, command=judging_with(rights))
    admission = Admission(judge_of(judges, log), callers, seen)
    try:
        async with Server(admission.application(), host, settings.port, certificate.context) as server, Tasks() as tasks:
            log.info("serving admission", url=server.url)
            if settings.any_caller:
                log.warning("admission answers anybody", fix="name with admission.clientCaFile who signs the API server's certificate")
            judges.prepare()
            tasks.start(_followed(certificate, clock, log), "certificate")
            yield server
    finally:
        await judges.close()


def judge_of(judges: Judges, log: Any) -> Judge:
    """What judges for the webhook: fair between users, and between addresses where anybody may ask."""

    async def judge(obj: Mapping[str, Any], caller: Caller) -> Verdict:
        try:
            found = await judges(obj, Asker(caller.user, group=caller.address or caller.user))
        except TooMany:
            raise Busy from None
        except WharfingerError as error:
            log.warning("admission gave no verdict", user=caller.user, object=_name(obj), error=str(error))
            if isinstance(error, TooLong):
                raise Late from error
            raise
        return Verdict(refusal=found.refusal, warnings=found.warnings)

    return judge


def _name(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


async def _followed(certificate: ServingCertificate, clock: Clock, log: Any) -> None:
    """Never returns: what the files hold is served, soon after they change."""
    trouble = ""
    while True:
        try:
            if await asyncio.to_thread(certificate.reload):
                log.info("admission has a certificate")
            trouble = ""
        except OSError as error:
            if str(error) != trouble:
                log.warning("admission has no new certificate", error=str(error))
            trouble = str(error)
        await clock.sleep(LOOK)
