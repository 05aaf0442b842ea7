"""One question to a Prometheus server over HTTP: bounded in time and size as a whole, and every failure told apart.

What `prometheus-api-client` asks of an answer is its status and its JSON. Secrets are read for every question, and no message has them: not
even what a server says of the headers that it got.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests
import urllib3
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from wharfinger.signals.answer import vector
from wharfinger.signals.deadline import PunctualAdapter
from wharfinger.signals.failure import Kind, SignalFailed
from wharfinger.signals.http_failures import failed, no_json, refused
from wharfinger.signals.settings import PrometheusServer

_PIECE = 64 * 1024
_LONGEST_SECRET = 64 * 1024


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
        self._adapter = PunctualAdapter()
        self.trust_env = False  # ~/.netrc would put other credentials in the place of ours
        self.verify = server.ca_file or server.verify
        if not server.verify:
            urllib3.disable_warnings(InsecureRequestWarning)  # whoever wrote that setting knows, and needs no line for every question
        if server.cert_file:
            self.cert = (server.cert_file, server.key_file) if server.key_file else server.cert_file

    def get_adapter(self, url: str | bytes) -> PunctualAdapter:  # noqa: ARG002 — whatever the library mounts
        """The one that keeps time."""
        return self._adapter

    def request(self, method: str, url: str, **options: Any) -> Answer:  # type: ignore[override]  # all that its one caller needs of a Response
        """The answer, whole; SignalFailed when there is none, or none of success."""
        server = self._server
        timeout = urllib3.Timeout(total=server.timeout)
        options |= {"headers": self._headers(), "auth": self._auth(), "timeout": timeout, "stream": True, "allow_redirects": False}
        try:
            with super().request(method, url, **options) as response:
                content = self._read(response)
                if response.status_code != 200:
                    raise refused(server, response.status_code, content, self._secrets(response.request.headers))
                if not content.lstrip().startswith(b"{"):
                    raise no_json(server, response.headers.get("Content-Type", "no type") if content else None)
        except (requests.RequestException, HTTPError, OSError, UnicodeError) as error:
            raise failed(server, error) from error
        return Answer(content)

    def _read(self, response: requests.Response) -> bytes:
        pieces = []
        size = 0
        while piece := response.raw.read1(_PIECE, decode_content=True):  # what is there, without waiting for the piece to be full
            size += len(piece)
            if size > self._server.most_bytes:
                limit = self._server.most_bytes // 2**20
                raise SignalFailed(Kind.ANSWER, f"the answer is longer than {limit} MiB; aggregate in the query, to one series per node")
            pieces.append(piece)
        return b"".join(pieces)

    def _headers(self) -> dict[str, str]:
        server = self._server
        headers = {"Accept": "application/json", "User-Agent": "wharfinger", **server.headers}
        headers |= {name: secret(path, of_header=True) for name, path in server.header_files.items()}
        if server.token_file:
            headers["Authorization"] = f"Bearer {secret(server.token_file, of_header=True)}"
        return headers

    def _auth(self) -> HTTPBasicAuth | None:
        server = self._server
        if server.username is None:
            return None
        password = secret(server.password_file) if server.password_file else ""
        return HTTPBasicAuth(server.username.encode(), password.encode())

    def _secrets(self, sent: Any) -> list[str]:
        """The headers of a question that no message may have, and the words in them."""
        found = [str(sent.get(name, "")) for name in ("Authorization", *self._server.header_files)]
        return [text for value in found for text in (value, value.rpartition(" ")[2]) if text]


def secret(path: str, *, of_header: bool = False) -> str:
    """What is in a file, without the line's end; SignalFailed if it cannot be read, or would end the header that it is for."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LONGEST_SECRET + 1)
        content = raw.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise SignalFailed(Kind.CREDENTIALS, f"{path}: {reason}") from error
    fault = _fault(content, raw, of_header=of_header)
    if fault is not None:
        raise SignalFailed(Kind.CREDENTIALS, f"{path}: {fault}")
    return content


def _fault(content: str, raw: bytes, *, of_header: bool) -> str | None:
    if len(raw) > _LONGEST_SECRET:
        return "it is too long for a secret"
    if not content:
        return "it is empty"
    if len(content.splitlines()) > 1:
        return "there is more than one line in it"
    if not content.isprintable() or (of_header and not content.isascii()):
        return "it has characters that no header may have"
    return None
