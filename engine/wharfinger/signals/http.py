"""One question to a Prometheus server over HTTP: bounded in time and size as a whole, and every failure told apart.

`requests` bounds the silence between two bytes, not an exchange: a server that sends a byte now and then would never be given up. So
answers are read in pieces here, against one deadline. What `prometheus-api-client` asks of an answer is its status and its JSON.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import requests
import urllib3
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import HTTPError, InsecureRequestWarning, ReadTimeoutError

from wharfinger.signals.answer import vector
from wharfinger.signals.failure import Kind, SignalFailed
from wharfinger.signals.settings import PrometheusServer

_PIECE = 64 * 1024
_SHOWN = 300
_OF_STATUS = {400: Kind.QUERY, 401: Kind.CREDENTIALS, 403: Kind.CREDENTIALS, 422: Kind.QUERY, 429: Kind.OVERLOADED, 503: Kind.OVERLOADED}


class _Refusal(msgspec.Struct):
    error: str = ""


class Answer:
    """What the client library makes of an answer of success."""

    status_code = 200

    def __init__(self, content: bytes) -> None:
        self.content = content

    def json(self) -> dict[str, Any]:
        """The part of it that the library reads, decoded."""
        return {"data": {"result": vector(self.content)}}


class BoundedSession(requests.Session):
    """A session for one server, with its credentials."""

    def __init__(self, server: PrometheusServer) -> None:
        super().__init__()
        self._server = server
        self.trust_env = False  # ~/.netrc would put other credentials in the place of ours
        self.verify = server.ca_file or server.verify
        if not server.verify:
            urllib3.disable_warnings(InsecureRequestWarning)  # whoever wrote that setting knows, and needs no line for every question
        if server.cert_file:
            self.cert = (server.cert_file, server.key_file) if server.key_file else server.cert_file

    def request(self, method: str, url: str, **options: Any) -> Answer:  # type: ignore[override]  # all that its one caller needs of a Response
        """The answer, whole; SignalFailed when there is none, or none of success."""
        server = self._server
        deadline = time.monotonic() + server.timeout
        options |= {"headers": self._headers(), "auth": self._auth(), "timeout": server.timeout, "stream": True, "allow_redirects": False}
        try:
            with super().request(method, url, **options) as response:
                content = self._read(response, deadline)
                if response.status_code != 200:
                    raise _refused(server, response.status_code, content)
        except (requests.RequestException, HTTPError, OSError) as error:
            raise failed(server, error) from error
        return Answer(content)

    def _read(self, response: requests.Response, deadline: float) -> bytes:
        pieces = []
        size = 0
        while piece := response.raw.read1(_PIECE, decode_content=True):  # what is there, without waiting for the piece to be full
            size += len(piece)
            if size > self._server.most_bytes:
                limit = self._server.most_bytes // 2**20
                raise SignalFailed(Kind.ANSWER, f"the answer is longer than {limit} MiB; aggregate in the query, to one series per node")
            if time.monotonic() > deadline:
                raise _late(self._server)
            pieces.append(piece)
        return b"".join(pieces)

    def _headers(self) -> dict[str, str]:
        server = self._server
        headers = {"Accept": "application/json", "User-Agent": "wharfinger", **server.headers}
        headers |= {name: secret(path) for name, path in server.header_files.items()}
        if server.token_file:
            headers["Authorization"] = f"Bearer {secret(server.token_file)}"
        return headers

    def _auth(self) -> HTTPBasicAuth | None:
        server = self._server
        if server.username is None:
            return None
        password = secret(server.password_file) if server.password_file else ""
        return HTTPBasicAuth(server.username.encode(), password.encode())


def secret(path: str) -> str:
    """What is in a file, without the line's end; SignalFailed if it cannot be read, or would end the header that it is for."""
    try:
        content = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise SignalFailed(Kind.CREDENTIALS, f"{path}: {reason}") from error
    if not content or not content.isprintable():
        raise SignalFailed(Kind.CREDENTIALS, f"{path}: {'it is empty' if not content else 'there is more than one line in it'}")
    return content


def failed(server: PrometheusServer, error: Exception) -> SignalFailed:
    """What an exception of the network means."""
    if isinstance(error, (requests.Timeout, ReadTimeoutError)):
        return _late(server)
    if isinstance(error, requests.exceptions.SSLError):
        return SignalFailed(Kind.TLS, f"cannot trust {server.url}: {_cause(error)}")
    if isinstance(error, requests.exceptions.InvalidHeader):
        return SignalFailed(Kind.CREDENTIALS, f"a header for {server.url} has characters that no header may have")
    if isinstance(error, OSError) and not isinstance(error, (requests.RequestException, ConnectionError)):
        return SignalFailed(Kind.SETTINGS, str(error))  # a file of certificates that is not there
    if isinstance(error, requests.exceptions.ConnectionError) and "timed out" in str(error):
        return _late(server)
    return SignalFailed(Kind.UNREACHABLE, f"cannot reach {server.url}: {_cause(error)}")


def _late(server: PrometheusServer) -> SignalFailed:
    return SignalFailed(Kind.TIMEOUT, f"{server.url} has not answered within {server.timeout:g} s")


def _refused(server: PrometheusServer, status: int, content: bytes) -> SignalFailed:
    """What an answer that is none of success means; Prometheus says why in JSON, what stands before it in HTML."""
    try:
        said = msgspec.json.decode(content, type=_Refusal).error
    except msgspec.DecodeError:
        said = ""
    kind = _OF_STATUS.get(status, Kind.SERVER if status >= 500 else Kind.ANSWER)
    text = f"{server.url} answers {status}{': ' if said else ''}{said[:_SHOWN]}"
    if 300 <= status < 400:
        text += "; redirects are not followed, as they would carry credentials elsewhere"
    return SignalFailed(kind, text)


def _cause(error: BaseException) -> str:
    """The innermost reason, which is the one that says something."""
    inner: BaseException = error
    while True:
        parts = (getattr(inner, "reason", None), *inner.args)
        deeper = next((part for part in parts if isinstance(part, BaseException)), None)
        if deeper is None or deeper is inner:
            break
        inner = deeper
    text = str(inner)
    return text.rpartition(": ")[2] if "HTTPConnection" in text or "HTTPSConnection" in text else text
