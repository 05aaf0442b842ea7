"""Writes that may be repeated until they are carried out or refused: patches and deletions."""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.framework.ports import Clock, WriteFailed
from wharfinger.kube import refusals
from wharfinger.kube.connection import JSON, Connection
from wharfinger.kube.waits import Backoff

_ATTEMPTS = 5
_PASSING = (refusals.TooManyRequests, refusals.ServerError, refusals.Unreachable)


class PatientWrites:
    """Writes to an API server while `may_write` says so, which is asked right before sending."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool]) -> None:
        self._connection = connection
        self._clock = clock
        self._may_write = may_write

    async def write(self, method: str, path: str, body: bytes, content_type: str = JSON) -> None:
        """None, once it is written; WriteFailed, from the ApiError that says why, otherwise."""
        waits = Backoff()
        for left in reversed(range(_ATTEMPTS)):
            try:
                await self._connection.request(method, path, body=body, content_type=content_type, before=self._still_leading)
            except _PASSING as error:
                if not left:
                    raise WriteFailed(str(error)) from error
                await self._clock.sleep(waits.after(error))
            except refusals.ApiError as error:
                raise _failure(error) from error
            else:
                return

    def _still_leading(self) -> None:
        if not self._may_write():
            raise WriteFailed("this process is not the leader any more")


def _failure(error: refusals.ApiError) -> WriteFailed:
    """What a refusal means: that the pod is another one by now is said by a conflict (of a deletion) or about its uid (of a patch)."""
    invalid = isinstance(error, refusals.Invalid)
    gone = isinstance(error, refusals.NotFound | refusals.Conflict) or (invalid and "metadata.uid" in str(error))
    return WriteFailed(str(error), retriable=not (gone or invalid or isinstance(error, refusals.BadRequest)), gone=gone)
