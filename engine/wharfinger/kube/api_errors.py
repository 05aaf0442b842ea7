"""Failed answers of an API server as exceptions, with the time to wait before the next attempt.

The HTTP status alone is not enough: 409 is a conflict of versions, of uids or of bindings, and a watch that fails after it has begun sends
the status as an event in a stream that started with 200. Both ways lead to the same exceptions here.

    ApiError
    ├── BadRequest       400: the server does not understand the request
    ├── Unauthorized     401: the credentials are not (or no longer) valid
    ├── Forbidden        403
    ├── NotFound         404
    ├── Conflict         409: the object has changed, or is another one now
    ├── Gone             410: the version asked for is too old; list again
    ├── Invalid          422: the object or the options are not acceptable
    ├── TooManyRequests  429: not carried out; has `retry_after` in seconds
    ├── ServerError      5xx: may have been carried out or not
    └── Unreachable      no answer: refused, broken off, too slow; may have been carried out or not
        └── SilentWatch  a watch that was answered and has sent nothing for long
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import msgspec
from msgspec import Struct

from wharfinger.errors import WharfingerError

_MAX_TEXT_LENGTH = 500
_NOT_SERVED = "404 page not found"  # the text of Go's HTTP server for an unknown path, such as a kind without a definition
_MAX_RETRY_AFTER = 60.0  # seconds; a longer Retry-After is cut


class ApiError(WharfingerError):
    """A request that the API server did not carry out; `status` is the HTTP status, 0 without an answer."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409."""


class Gone(ApiError):
    """410, or an expired continue token."""


class Invalid(ApiError):
    """422."""


class TooManyRequests(ApiError):
    """429."""


class ServerError(ApiError):
    """5xx."""


class Unreachable(ApiError):
    """No answer, or an incomplete one."""


class SilentWatch(Unreachable):
    """A watch without any line for long: nothing has happened, or the connection is dead."""


TRANSIENT = (TooManyRequests, ServerError, Unreachable)
"""Errors after which the same request may succeed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(name="retryAfterSeconds", default=None)


class Status(msgspec.Struct):
    """The fields of `kind: Status` that are needed."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


def is_success(status: int) -> bool:
    """True for an HTTP status that is neither an error nor a redirect."""
    return status < 300


def of_answer(method: str, path: str, status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The exception for an answer whose HTTP status is no success (`is_success`).

    A redirect is not followed: it leads to a server that the kubeconfig does not name.
    """
    if status < 400:
        message = f"{method} {path}: a redirect (HTTP status {status}); the kubeconfig has to name the API server itself"
        return ApiError(message, status=status)
    try:
        status_object = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = body[:_MAX_TEXT_LENGTH].decode(errors="replace").strip()
        status_object = Status(message="the API server does not serve this kind" if message == _NOT_SERVED else message or None)
    return _exception(status, status_object, _seconds(retry_after))


def of_event(raw: bytes | msgspec.Raw) -> ApiError:
    """The exception for the object of an ERROR event."""
    try:
        status_object = msgspec.json.decode(raw, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status_object = Status(message="an ERROR event that cannot be read")
    return _exception(status_object.code or 500, status_object, None)


def _exception(status: int, status_object: Status, retry_after: float | None) -> ApiError:
    found = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if status_object.reason == "Expired":
        found = Gone
    if retry_after is None and status_object.details is not None:
        retry_after = status_object.details.retry_after
    wait = None if retry_after is None else min(max(retry_after, 0.0), _MAX_RETRY_AFTER)
    message = (status_object.message or f"HTTP status {status}")[:_MAX_TEXT_LENGTH]
    return found(message, status=status, reason=status_object.reason or "", retry_after=wait)


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; Kubernetes does not use its other form, a date."""
    try:
        seconds = float(header) if header else None
    except ValueError:
        return None
    return None if seconds is None or math.isnan(seconds) else seconds


class RequestBackoff(Struct, kw_only=True):
    """The waits in seconds between the attempts of a request: `initial` after the first failure, doubled after each further one.

    A wait is `maximum` at most, and `maximum_unanswered` where the server gave no answer: such requests cost nothing, and the return of the
    server is noticed soon. Each wait is extended at random by up to `jitter` times its length, so that clients spread out.
    """

    initial: float = 0.2
    maximum: float = 10.0
    maximum_unanswered: float = 2.0
    jitter: float = 0.5
    draw: Callable[[], float] = random.random
    _failures: int = 0

    def reset(self) -> None:
        """Make the next failure count as the first one."""
        self._failures = 0

    def after(self, error: BaseException | None = None) -> float:
        """Seconds to wait after one more failure; never less than the `Retry-After` of the server."""
        maximum = min(self.maximum, self.maximum_unanswered) if isinstance(error, Unreachable) else self.maximum
        wait = min(self.initial * 2.0 ** min(self._failures, 30), maximum)
        self._failures += 1
        return max(wait, asked_wait(error)) * (1.0 + self.jitter * self.draw())


def asked_wait(error: BaseException | None) -> float:
    """The seconds for which an answer of the server asks not to try again (`Retry-After`); 0 if it asks for none."""
    return (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
