"""HTTP requests to a running `wharf run`, and the shape of its answers.

Only the fields that are shown are declared. Answers of another shape are reported as such.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from queue import Empty, SimpleQueue
from typing import Annotated, Any, TypedDict, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import msgspec
import typer

from wharfinger.daemon import settings_fields
from wharfinger.daemon.settings import PORT
from wharfinger.errors import UsageError, printable, printable_lines

_TIMEOUT = 30.0
_MAX_ANSWER_BYTES = 256 * 2**20
_MAX_REFUSAL_LENGTH = 10_000
LOCAL_ADDRESS = f"http://127.0.0.1:{PORT}"

_FORWARD = f"kubectl -n wharfinger-system port-forward deploy/wharfinger {PORT}"

Url = Annotated[str, typer.Option("--url", metavar="URL", envvar="WHARF_URL", help="The address of `wharf run`.")]


class NoAnswer(UsageError):
    """No scheduler answers at an address."""

    def __init__(self, url: str, reason: object) -> None:
        fix = f"`{_FORWARD}` makes the scheduler of a cluster answer at {LOCAL_ADDRESS}; --url names another address"
        super().__init__(f"{url}: no scheduler answers there: {reason}\nhelp: {fix}")


class Refused(UsageError):
    """The process answers that it cannot; `status` is its HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def text(url: str, path: str, seconds: float = _TIMEOUT) -> str:
    """The answer of the process for a path; UsageError without an answer, Refused with the sentence of an error answer."""
    check(url)
    return _with_timeout(seconds, url, lambda: _text(url, path, seconds))


def _with_timeout(seconds: float, url: str, ask: Callable[[], str]) -> str:
    """The result of `ask`, or its exception; UsageError if that takes longer.

    A timeout of a socket bounds the silence between two bytes, so a server that sends one now and then would be read forever. The request
    runs in a thread that may outlive this call: the name server may be slow as well.
    """
    answers: SimpleQueue[tuple[str, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            answers.put((ask(), None))
        except BaseException as error:  # noqa: BLE001 — it is raised where the answer is waited for
            answers.put(("", error))

    threading.Thread(target=work, name="asking", daemon=True).start()
    try:
        found, error = answers.get(timeout=seconds)
    except Empty:
        raise NoAnswer(url, f"no complete answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return found


def _text(url: str, path: str, seconds: float) -> str:
    try:
        with urlopen(url.rstrip("/") + path, timeout=seconds) as answer:  # noqa: S310 — http only, as just checked
            content: bytes = answer.read(_MAX_ANSWER_BYTES + 1)
            if len(content) > _MAX_ANSWER_BYTES:
                raise UsageError(f"{url}{path}: the answer is longer than {_MAX_ANSWER_BYTES >> 20} MiB, so it is not that of a scheduler")
            return content.decode()
    except HTTPError as error:
        raise Refused(_refusal(error, f"{url}{path}"), error.code) from None
    except (URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise NoAnswer(url, getattr(error, "reason", error)) from error


def failing(url: str, seconds: float = _TIMEOUT) -> list[str]:
    """The checks of `/readyz` that fail, each with its reason; none for a process that is ready or has no such page."""
    try:
        text(url, "/readyz", seconds)
    except Refused as refused:
        lines = str(refused).splitlines()
        return [line.removeprefix("[-]").replace(" failed: ", ": ", 1) for line in lines if line.startswith("[-]")]
    return []


def check(url: str) -> None:
    """Raise UsageError for a URL that cannot be that of a scheduler."""
    parts = settings_fields.split(url)
    if (
        parts is None
        or not settings_fields.is_http(parts)
        or not settings_fields.has_port(parts)
        or parts.query
        or parts.fragment
        or parts.username
    ):
        raise UsageError(f"{printable(url)}: expected a URL such as {LOCAL_ADDRESS}")


def _refusal(error: HTTPError, place: str) -> str:
    """The sentence of a scheduler that refuses; for any other server the URL and the status."""
    with error:
        try:
            message = error.read(_MAX_REFUSAL_LENGTH).decode(errors="replace").strip()
        except (http.client.HTTPException, OSError):
            message = ""
    ours = (error.headers.get("Content-Type") or "").startswith("text/plain")
    if ours and message and not message.startswith(str(error.code)):
        return printable_lines(message)
    fix = (
        ""
        if ours and error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        else f"; expected the address of a `wharf run`, such as {LOCAL_ADDRESS}"
    )
    return printable(f"{place}: {error.code} {error.reason.partition(chr(10))[0]}{fix}")


def plain(url: str, path: str, seconds: float = _TIMEOUT) -> Any:
    """The JSON answer of the process for a path, as plain values; UsageError if it is not JSON, other errors as of `text`."""
    content = text(url, path, seconds)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{url}{path}: this is not an answer of a scheduler: {error}") from error


T = TypeVar("T")

POLICIES = "/policies?format=json"


class Source(TypedDict):
    """A source of policies; `lost` is the reason why it cannot be read."""

    name: str
    lost: str | None
    notes: list[str]


class MetricState(TypedDict):
    """The present state of a metric; `message` is a sentence, and `failure` is why the last refresh failed."""

    name: str
    message: str
    suspendedSince: str | None
    failure: str | None


class PolicyState(TypedDict):
    """The state of a policy: which version is in force, and its metrics."""

    name: str | None
    state: str
    revision: str | None
    metrics: list[MetricState]


class Finding(TypedDict, total=False):
    """A diagnostic; without a line it is about the whole file."""

    file: str
    line: int
    column: int
    severity: str
    code: str
    message: str


class Policy(PolicyState):
    """A policy in full."""

    authority: str
    source: str
    key: str
    activeSince: str | None
    diagnostics: list[Finding]
    omittedDiagnostics: int
    now: list[Finding]


class PolicyStates(TypedDict):
    """`/policies`, in short."""

    sources: list[Source]
    policies: list[PolicyState]


class Policies(TypedDict):
    """`/policies`."""

    sources: list[Source]
    policies: list[Policy]


class Decision(TypedDict):
    """One attempt at a pod."""

    at: str
    pod: str
    node: str | None
    message: str
    result: str


class Decisions(TypedDict):
    """`/decisions`."""

    decisions: list[Decision]


def needs_attention(policy: PolicyState) -> bool:
    """True if the last text of a policy was refused, or the policy is suspended because it takes too long to decide."""
    return policy["state"] in {"kept", "refused", "suspended"}


def shaped(answer: Any, shape: type[T], place: str) -> T:
    """The answer as this type, its texts without line breaks and control characters; UsageError for another shape.

    Names and messages in it come from anyone who may write to the cluster.
    """
    try:
        return msgspec.convert(_printable(answer), shape)
    except msgspec.ValidationError as error:
        raise UsageError(f"{place}: this is not an answer of a scheduler: {error}") from error


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return {key: _printable(each) for key, each in value.items()} if isinstance(value, dict) else value
