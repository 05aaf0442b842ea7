"""The first words with the API server: which it is, and whether it knows us.

A server that does not answer may do so in a minute, so it is asked again for as long as it takes. What waiting does not cure ends the
process with a sentence: credentials that are refused, a certificate that is not trusted.
"""

from __future__ import annotations

from collections.abc import Callable

import aiohttp

from wharfinger.errors import UsageError
from wharfinger.framework.ports import Clock
from wharfinger.kube import refusals
from wharfinger.kube.connection import Connection
from wharfinger.kube.discovery import ServerVersion, server_version
from wharfinger.kube.waits import Backoff

Complain = Callable[[str], None]

_PASSING = (refusals.Unreachable, refusals.ServerError, refusals.TooManyRequests)


async def first_contact(connection: Connection, clock: Clock, complain: Complain) -> ServerVersion:
    """The version of the API server, as soon as it answers; UsageError when it never will answer us."""
    waits = Backoff(first=0.5)
    while True:
        try:
            return await server_version(connection)
        except _PASSING as error:
            if _is_about_trust(error):
                raise UsageError(f"cannot trust the API server {connection.credentials.server}: {error}") from error
            complain(f"the API server {connection.credentials.server} does not answer yet, asking again: {error}")
            await clock.sleep(waits.after(error))
        except refusals.Unauthorized as error:
            raise UsageError(f"the API server {connection.credentials.server} refuses the credentials: {error}") from error
        except refusals.Forbidden:
            return ServerVersion(release=(0, 0), text="unknown")  # nobody needs it; lists are then asked for in pages
        except refusals.ApiError as error:
            raise UsageError(f"{connection.credentials.server} does not answer as an API server does: {error}") from error


def _is_about_trust(error: refusals.ApiError) -> bool:
    return isinstance(error.__cause__, aiohttp.ClientConnectorCertificateError)
