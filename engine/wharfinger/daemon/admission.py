"""The webhook in the running process: served beside everything else by every replica, leader or not, whether or not the API server answers.

It serves from the start, so that a port that is taken is found then. As long as its certificate is not there it can answer nobody, which
is no reason not to schedule.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any

from wharfinger.daemon.admission_settings import AdmissionSettings
from wharfinger.daemon.tasks import Tasks
from wharfinger.framework.ports import Clock
from wharfinger.language.authority import TenantRights
from wharfinger.reconcile.policy_admission import foreseen
from wharfinger.web.admission import Admission, Verdict
from wharfinger.web.server import Server
from wharfinger.web.serving_certificate import ServingCertificate

LOOK = 10.0
"""Seconds between two looks at the files of the certificate."""
_LONGEST = 8192  # characters of a refusal: enough for the twenty findings that anybody reads


@asynccontextmanager
async def admission_served(  # noqa: PLR0913, PLR0917 — where it is served, whom it tells, and by what it judges
    settings: AdmissionSettings, host: str, seen: Callable[[str], None], clock: Clock, log: Any, rights: TenantRights
) -> AsyncIterator[Server]:
    """The server of the webhook while the context lasts; UsageError when the port cannot be had."""
    certificate = ServingCertificate(settings.certificate, settings.key)
    admission = Admission(partial(judged, rights=rights), seen)
    with closing(admission):
        async with Server(admission.application(), host, settings.port, certificate.context) as server, Tasks() as tasks:
            log.info("serving admission", url=server.url)
            tasks.start(_followed(certificate, clock, log), "certificate")
            yield server


def judged(obj: Mapping[str, Any], rights: TenantRights) -> Verdict:
    """The verdict about a SchedulingPolicy: a text that could not decide is refused with what is wrong with it."""
    outcome = foreseen(obj, rights)
    if outcome is None:
        return Verdict()
    if outcome.version is None:
        report = outcome.report.strip() or "the text holds no `policy` line"
        return Verdict(refusal=f"the policy would not become active\n{report}"[:_LONGEST])
    return Verdict(warnings=tuple(f"{finding.line}:{finding.column}: {finding.message}" for finding in outcome.findings))


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
