"""Prometheus as a source: instant queries by `prometheus-api-client`, bounded in time and size as a whole, with a `Kind` for every failure.

Everything here blocks and is called in threads. A socket's timeout bounds the silence between two bytes, so a server that sends a byte now
and then could hold a request forever. Here a connection's timeout is that of the whole answer. Secrets are read for every request, and no
message contains them, not even a server's message about the headers that it received.

The answer to an instant query is `{"status": "success", "data": {"resultType": "vector", "result": […]}}`. It is split at once into series,
which are decoded one by one as they are read: that can be interrupted.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import DecodeError, HTTPError, InsecureRequestWarning, ReadTimeoutError

from wharfinger.errors import on_one_line
from wharfinger.signals.mapping import MAX_CLOCK_SKEW, Mapped, NodeNames, Series, in_portions, in_turn, mapped
from wharfinger.signals.query import PrometheusServer, Query
from wharfinger.signals.refreshing import UNREADABLE, Kind, SignalFailed

MAX_SERIES = 200_000
_SHOWN = 300
_KIND_OF_STATUS = {
    400: Kind.QUERY,
    401: Kind.CREDENTIALS,
    403: Kind.CREDENTIALS,
    422: Kind.QUERY,
    429: Kind.OVERLOADED,
    503: Kind.OVERLOADED,
}
_OTHER_NAME = (62, 64)  # OpenSSL: X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_WHERE = "is that the URL of a Prometheus, with the path before /api/v1?"
_FIXES = {
    401: "set its credentials with bearerTokenFile, basicAuth or headerFiles",
    403: "access denied; check its bearerTokenFile, basicAuth or headerFiles",
    404: _WHERE,
}
_INSTEAD = {
    "matrix": "the query has a range at its end; take avg_over_time(…) or the like of it",
    "scalar": "the query gives one number for all nodes; a metric has one per node",
    "string": "the query gives a text; a metric is a number per node",
}
_MAX_SECRET_BYTES = 64 * 1024


class Prometheus:
    """The servers of the settings. Each thread keeps its own connections."""

    def __init__(self, servers: Iterable[PrometheusServer]) -> None:
        self.servers: Mapping[str, PrometheusServer] = {server.name: server for server in servers}
        self._clients = threading.local()

    def measured(self, query: Query, nodes: NodeNames) -> Mapped:
        """The samples of a query by node; SignalFailed when there are none."""
        client = self._client(query.server)
        try:
            return _query_result(client, query, nodes)
        except SignalFailed as error:
            url = self.servers[query.server].url
            if error.kind is Kind.ANSWER and url not in str(error):  # the decoder does not know the server
                raise SignalFailed(error.kind, f"{url}: {error}") from error
            raise

    def _client(self, name: str) -> Any:
        server = self.servers.get(name)
        if server is None:
            known = ", ".join(sorted(self.servers)) or "none"
            raise SignalFailed(Kind.SETTINGS, f"the settings name no Prometheus server `{name}` (they name {known})")
        clients: dict[str, Any] | None = getattr(self._clients, "known", None)
        if clients is None:
            clients = self._clients.known = {}
        if name not in clients:
            clients[name] = _connected(server)
        return clients[name]


def _connected(server: PrometheusServer) -> Any:
    from prometheus_api_client import PrometheusConnect  # noqa: PLC0415 — takes a second to import, and most runs do not need it

    url = server.url.rstrip("/")
    session = PrometheusSession(server)
    try:
        client = PrometheusConnect(url=url, session=session, timeout=urllib3.Timeout(total=server.timeout))
    except (OSError, ValueError) as error:
        raise failed(server, error) from error
    session.mount(url, PrometheusAdapter(server.max_bytes))  # in place of the one that the library has mounted
    return client


def _query_result(client: Any, query: Query, nodes: NodeNames) -> Mapped:
    found = client.custom_query(query.text)
    times = None if query.times is None else client.custom_query(query.times)
    came = time.time()
    with in_turn():
        series = found if times is None else _timed(found, times, query.node)
        return mapped(series, query, nodes, came=came, warnings=found.warnings)


def _timed(values: Iterable[Series], times: Iterable[Series], label: str) -> Iterable[Series]:
    """The values with the times that a second query gives for the same text of the node label; NaN if there is no possible time."""
    measured = {each.labels.get(label): each.value for each in in_portions(times) if each.value <= each.time + MAX_CLOCK_SKEW}
    for series in values:
        yield series._replace(time=measured.get(series.labels.get(label), math.nan))


class _UntilDeadline(io.RawIOBase):
    """Reads from a socket until the timeout that it has now is over."""

    def __init__(self, arriving: io.RawIOBase, connection: socket.socket) -> None:
        self._arriving = arriving
        self._connection = connection
        timeout = connection.gettimeout()
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._connection.settimeout(left)
        return self._arriving.readinto(buffer)

    def close(self) -> None:
        self._arriving.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp: io.BufferedReader = io.BufferedReader(_UntilDeadline(self.fp.detach(), sock))


class _HTTPConnection(HTTPConnection):
    response_class = _Response


class _HTTPSConnection(HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


class PrometheusResponse(requests.Response):
    """An answer of at most `max_bytes`, whose JSON is decoded series by series."""

    max_bytes = 0

    def iter_content(self, chunk_size: int | None = 1, decode_unicode: bool = False) -> Iterator[Any]:
        """The pieces of the body; SignalFailed when they are too many."""
        size = 0
        for piece in super().iter_content(chunk_size, decode_unicode):
            size += len(piece)
            if size > self.max_bytes:
                self.close()
                limit = self.max_bytes // 2**20
                raise SignalFailed(Kind.ANSWER, f"the answer is longer than {limit} MiB; aggregate in the query, to one series per node")
            yield piece

    def json(self, **options: Any) -> dict[str, Any]:  # noqa: ARG002 — of decoders that are not used
        """The part of it that the client library reads; SignalFailed if it is no vector."""
        return {"data": {"result": vector(self.content)}}


class PrometheusAdapter(HTTPAdapter):
    """Sends each request once, on connections whose answers have a deadline and a largest size."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        super().__init__(max_retries=0)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Make the pools with connections that keep the deadline."""
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> PrometheusResponse:
        """The answer as the library builds it, with its largest size."""
        response = PrometheusResponse()
        vars(response).update(vars(super().build_response(req, resp)), max_bytes=self._max_bytes)
        return response


class _Refusal(msgspec.Struct):
    error: str = ""


def refused(server: PrometheusServer, status: int, content: bytes, secrets: Iterable[str] = ()) -> SignalFailed:
    """The failure of an answer with an error status; Prometheus gives the reason in JSON, proxies in HTML."""
    try:
        message = msgspec.json.decode(content, type=_Refusal).error
    except UNREADABLE:
        message = ""
    for secret in secrets:
        message = message.replace(secret, "…")
    kind = _KIND_OF_STATUS.get(status, Kind.SERVER if status >= 500 else Kind.ANSWER)
    text = f"{server.url} answers {status}{': ' if message else ''}{on_one_line(message, _SHOWN)}"
    if 300 <= status < 400:
        text += "; redirects are not followed, because they would send credentials to another server"
    elif status in _FIXES and not message:
        text += f"; {_FIXES[status]}"
    return SignalFailed(kind, text)


def no_json(server: PrometheusServer, type_: str | None) -> SignalFailed:
    """The failure of a successful answer that is not JSON; `type_` is its content type, None for an empty answer."""
    what = "nothing" if type_ is None else f"no JSON ({on_one_line(type_, _SHOWN)})"
    return SignalFailed(Kind.ANSWER, f"{server.url} answers with {what}; {_WHERE}")


def failed(server: PrometheusServer, error: Exception) -> SignalFailed:
    """The failure for an exception of the network."""
    if _is_late(error):
        return _timeout(server)
    if isinstance(error, requests.exceptions.SSLError):
        return _untrusted(server, error)
    if isinstance(error, (requests.exceptions.InvalidHeader, UnicodeError)):
        return SignalFailed(Kind.CREDENTIALS, f"a header for {server.url} has characters that no header may have")
    if isinstance(error, OSError) and not isinstance(error, (requests.RequestException, ConnectionError)):
        return SignalFailed(Kind.SETTINGS, str(error))  # a missing file of certificates
    if isinstance(error, (DecodeError, requests.exceptions.ContentDecodingError)):
        return SignalFailed(Kind.ANSWER, f"the answer of {server.url} cannot be decompressed: {_cause(error)}")
    return SignalFailed(Kind.UNREACHABLE, f"cannot reach {server.url}: {_cause(error)}")


def _is_late(error: Exception) -> bool:
    if isinstance(error, requests.exceptions.ConnectionError):
        return isinstance(error, requests.Timeout) or "timed out" in str(error)
    return isinstance(error, (requests.Timeout, ReadTimeoutError, TimeoutError))


def _timeout(server: PrometheusServer) -> SignalFailed:
    return SignalFailed(Kind.TIMEOUT, f"{server.url} has not answered within {server.timeout:g} s")


def _untrusted(server: PrometheusServer, error: Exception) -> SignalFailed:
    inner = _innermost(error)
    if isinstance(inner, ssl.SSLCertVerificationError):
        fix = "the URL has to use a name of the certificate" if inner.verify_code in _OTHER_NAME else "set tls.caFile to the CA to trust"
        return SignalFailed(Kind.TLS, f"cannot trust {server.url}: {inner}; {fix}")
    message = str(inner)
    if "WRONG_VERSION_NUMBER" in message:
        return SignalFailed(Kind.TLS, f"{server.url} does not speak TLS ({message}); is it http://?")
    if "X509" in message or "PEM" in message:
        files = ", ".join(name for name in (server.ca_file, server.cert_file, server.key_file) if name)
        return SignalFailed(Kind.TLS, f"the certificates for {server.url} cannot be used ({files}): {message}")
    return SignalFailed(Kind.TLS, f"{server.url} ends TLS: {message}; it may require a client certificate (tls.certFile, tls.keyFile)")


def _cause(error: BaseException) -> str:
    """The innermost reason, which is the specific one."""
    text = str(_innermost(error))
    return text.rpartition(": ")[2] if "HTTPConnection" in text or "HTTPSConnection" in text else text


def _innermost(error: BaseException) -> BaseException:
    inner = error
    while True:
        parts = (getattr(inner, "reason", None), *inner.args)
        deeper = next((part for part in parts if isinstance(part, BaseException)), None)
        if deeper is None or deeper is inner:
            return inner
        inner = deeper


class Secrets(AuthBase):
    """Adds the secrets of a server's settings to each request, read from their files again."""

    def __init__(self, server: PrometheusServer) -> None:
        self._server = server

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """The request with its secrets; SignalFailed if one cannot be read."""
        server = self._server
        request.headers.update({name: secret(path, of_header=True) for name, path in server.header_files.items()})
        if server.token_file:
            request.headers["Authorization"] = f"Bearer {secret(server.token_file, of_header=True)}"
        if server.username is not None:
            password = secret(server.password_file) if server.password_file else ""
            HTTPBasicAuth(server.username.encode(), password.encode())(request)
        return request

    def sent_in(self, headers: Mapping[str, str | bytes]) -> list[str]:
        """The secrets in the headers of a request, and the words in them: no message may contain these."""
        found = [str(headers.get(name, "")) for name in ("Authorization", *self._server.header_files)]
        return [text for value in found for text in (value, value.rpartition(" ")[2]) if text]


class PrometheusSession(requests.Session):
    """A session for one server: its credentials, no redirects, and SignalFailed in place of every failure."""

    def __init__(self, server: PrometheusServer) -> None:
        super().__init__()
        self._server = server
        self._secrets = Secrets(server)
        self.auth = self._secrets
        self.headers.update({"Accept": "application/json", "User-Agent": "wharfinger", **server.headers})
        self.trust_env = False  # ~/.netrc would replace the credentials
        self.verify = server.ca_file or server.verify
        if not server.verify:
            urllib3.disable_warnings(InsecureRequestWarning)  # the settings ask for it: no warning for every request
        if server.cert_file:
            self.cert = (server.cert_file, server.key_file) if server.key_file else server.cert_file

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Always None: redirects are not followed, because they would send credentials to another server."""

    def request(self, method: str | bytes, url: str | bytes, *arguments: Any, **options: Any) -> requests.Response:
        """The answer, read whole; SignalFailed when there is none, or it is not a success with JSON."""
        server = self._server
        try:
            response = super().request(method, url, *arguments, **options)
        except (requests.RequestException, HTTPError, OSError, UnicodeError) as error:
            raise failed(server, error) from error
        if response.status_code != 200:
            raise refused(server, response.status_code, response.content, self._secrets.sent_in(response.request.headers))
        if not response.content.lstrip().startswith(b"{"):
            raise no_json(server, response.headers.get("Content-Type", "no type") if response.content else None)
        return response


def secret(path: str, *, of_header: bool = False) -> str:
    """The content of a file without its end of line; Raises SignalFailed if it cannot be read or is not allowed in a header."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_SECRET_BYTES + 1)
        content = raw.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise SignalFailed(Kind.CREDENTIALS, f"{path}: {reason}") from error
    fault = _fault(content, raw, of_header=of_header)
    if fault is not None:
        raise SignalFailed(Kind.CREDENTIALS, f"{path}: {fault}")
    return content


def _fault(content: str, raw: bytes, *, of_header: bool) -> str | None:
    if len(raw) > _MAX_SECRET_BYTES:
        return "it is too long for a secret"
    if not content:
        return "it is empty"
    if len(content.splitlines()) > 1:
        return "there is more than one line in it"
    if not content.isprintable() or (of_header and not content.isascii()):
        return "it has characters that no header may have"
    return None


class _Found(msgspec.Struct):
    resultType: str = ""  # noqa: N815 — as Prometheus writes it
    result: msgspec.Raw = msgspec.Raw(b"[]")  # some servers write null for an empty result


class _Body(msgspec.Struct):
    status: str = ""
    error: Any = None
    data: _Found | None = None
    warnings: Sequence[str] | None = None


class _Series(msgspec.Struct):
    value: tuple[float, str] = (math.nan, "")  # a native histogram has none
    metric: dict[str, str] = {}


_body = msgspec.json.Decoder(_Body)
_parts = msgspec.json.Decoder(list[msgspec.Raw] | None)
_series = msgspec.json.Decoder(_Series)


class Vector(Sequence[Series]):
    """The series of an answer, decoded as they are read, and the warnings of Prometheus."""

    def __init__(self, parts: list[msgspec.Raw], warnings: Sequence[str] = ()) -> None:
        self._parts = parts
        self.warnings = warnings

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: Any) -> Any:
        return series_of(self._parts[index])

    def __iter__(self) -> Iterator[Series]:
        return map(series_of, self._parts)


def vector(content: bytes) -> Vector:
    """The series of an answer; SignalFailed if it is not a vector."""
    try:
        body = _body.decode(content)
        data = body.data or _Found()
        if body.status != "success":
            message = f": {body.error[:_SHOWN]}" if isinstance(body.error, str) else ""
            raise SignalFailed(Kind.ANSWER, f"the answer's status is {body.status!r}{message}")
        if data.resultType != "vector":
            raise SignalFailed(Kind.ANSWER, _INSTEAD.get(data.resultType, f"the answer is no vector but {data.resultType[:_SHOWN]!r}"))
        parts = _parts.decode(data.result) or []
    except UNREADABLE as error:
        raise SignalFailed(Kind.ANSWER, f"the answer cannot be read: {error}") from error
    if len(parts) > MAX_SERIES:
        raise SignalFailed(Kind.ANSWER, f"the answer has {len(parts):,} series, more than {MAX_SERIES:,}; aggregate in the query")
    return Vector(parts, body.warnings or ())


def series_of(raw: msgspec.Raw) -> Series:
    """One series; a value that is not a number is NaN."""
    try:
        found = _series.decode(raw)
    except UNREADABLE as error:
        raise SignalFailed(Kind.ANSWER, f"a series cannot be read: {error}") from error
    time, text = found.value
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return Series(found.metric, value, time)
