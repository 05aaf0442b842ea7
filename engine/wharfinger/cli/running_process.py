"""Asking a `wharf run` over HTTP."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Annotated, Any

import typer

from wharfinger.daemon.settings import PORT
from wharfinger.errors import UsageError

_SECONDS = 30.0
HERE = f"http://127.0.0.1:{PORT}"

Url = Annotated[str, typer.Option("--url", metavar="URL", envvar="WHARF_URL", help="Where `wharf run` serves.")]


class Refused(UsageError):
    """The process answers that it cannot; `status` is its HTTP status."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


def text(url: str, path: str, seconds: float = _SECONDS) -> str:
    """What the process answers under a path; UsageError when nobody answers, Refused with the sentence of who does not want to."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url}: expected a URL such as {HERE}")
    try:
        with urllib.request.urlopen(url.rstrip("/") + path, timeout=seconds) as answer:  # noqa: S310 — http only, as just checked
            found: str = answer.read().decode()
            return found
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(10_000).decode(errors="replace").strip()
        raise Refused(said or f"{url}{path}: {error.code} {error.reason}", error.code) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise UsageError(f"{url}: no scheduler answers there: {getattr(error, 'reason', error)}") from error


def plain(url: str, path: str, seconds: float = _SECONDS) -> Any:
    """The same for JSON, as plain values."""
    content = text(url, path, seconds)
    try:
        return json.loads(content)
    except ValueError as error:
        raise UsageError(f"{url}{path}: this is not what a scheduler answers: {error}") from error
