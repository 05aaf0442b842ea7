"""What it means when a Prometheus server does not answer, or not with success: its kind, and a sentence with the place and the fix."""

from __future__ import annotations

import ssl
from collections.abc import Iterable

import msgspec
import requests
from urllib3.exceptions import DecodeError, ReadTimeoutError

from wharfinger.signals.answer import UNREADABLE
from wharfinger.signals.failure import Kind, SignalFailed, on_one_line
from wharfinger.signals.settings import PrometheusServer

_SHOWN = 300
_OF_STATUS = {400: Kind.QUERY, 401: Kind.CREDENTIALS, 403: Kind.CREDENTIALS, 422: Kind.QUERY, 429: Kind.OVERLOADED, 503: Kind.OVERLOADED}
_OTHER_NAME = (62, 64)  # OpenSSL: X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_WHERE = "is that the URL of a Prometheus, with the path before /api/v1?"
_FIXES = {
    401: "its bearerTokenFile, basicAuth or headerFiles say who asks",
    403: "who asks may not; its bearerTokenFile, basicAuth or headerFiles say who that is",
    404: _WHERE,
}


class _Refusal(msgspec.Struct):
    error: str = ""


def refused(server: PrometheusServer, status: int, content: bytes, secrets: Iterable[str] = ()) -> SignalFailed:
    """What an answer that is none of success means; Prometheus says why in JSON, what stands before it in HTML."""
    try:
        said = msgspec.json.decode(content, type=_Refusal).error
    except UNREADABLE:
        said = ""
    for secret in secrets:
        said = said.replace(secret, "…")
    kind = _OF_STATUS.get(status, Kind.SERVER if status >= 500 else Kind.ANSWER)
    text = f"{server.url} answers {status}{': ' if said else ''}{on_one_line(said, _SHOWN)}"
    if 300 <= status < 400:
        text += "; redirects are not followed, as they would carry credentials elsewhere"
    elif status in _FIXES and not said:
        text += f"; {_FIXES[status]}"
    return SignalFailed(kind, text)


def no_json(server: PrometheusServer, type_: str | None) -> SignalFailed:
    """What an answer of success means that is another document, of a type, or nothing at all (None)."""
    what = "nothing" if type_ is None else f"no JSON ({on_one_line(type_, _SHOWN)})"
    return SignalFailed(Kind.ANSWER, f"{server.url} answers with {what}; {_WHERE}")


def failed(server: PrometheusServer, error: Exception) -> SignalFailed:
    """What an exception of the network means."""
    if _is_late(error):
        return _late(server)
    if isinstance(error, requests.exceptions.SSLError):
        return _untrusted(server, error)
    if isinstance(error, (requests.exceptions.InvalidHeader, UnicodeError)):
        return SignalFailed(Kind.CREDENTIALS, f"a header for {server.url} has characters that no header may have")
    if isinstance(error, OSError) and not isinstance(error, (requests.RequestException, ConnectionError)):
        return SignalFailed(Kind.SETTINGS, str(error))  # a file of certificates that is not there
    if isinstance(error, DecodeError):
        return SignalFailed(Kind.ANSWER, f"what {server.url} answers cannot be unpacked: {_cause(error)}")
    return SignalFailed(Kind.UNREACHABLE, f"cannot reach {server.url}: {_cause(error)}")


def _is_late(error: Exception) -> bool:
    if isinstance(error, requests.exceptions.ConnectionError):
        return isinstance(error, requests.Timeout) or "timed out" in str(error)
    return isinstance(error, (requests.Timeout, ReadTimeoutError, TimeoutError))


def _late(server: PrometheusServer) -> SignalFailed:
    return SignalFailed(Kind.TIMEOUT, f"{server.url} has not answered within {server.timeout:g} s")


def _untrusted(server: PrometheusServer, error: Exception) -> SignalFailed:
    inner = _innermost(error)
    if isinstance(inner, ssl.SSLCertVerificationError):
        fix = "the URL has to use a name of the certificate" if inner.verify_code in _OTHER_NAME else "tls.caFile says whom to trust"
        return SignalFailed(Kind.TLS, f"cannot trust {server.url}: {inner}; {fix}")
    said = str(inner)
    if "WRONG_VERSION_NUMBER" in said:
        return SignalFailed(Kind.TLS, f"{server.url} does not speak TLS ({said}); is it http://?")
    if "X509" in said or "PEM" in said:
        files = ", ".join(name for name in (server.ca_file, server.cert_file, server.key_file) if name)
        return SignalFailed(Kind.TLS, f"the certificates for {server.url} cannot be used ({files}): {said}")
    return SignalFailed(Kind.TLS, f"{server.url} ends TLS: {said}; it may want a certificate (tls.certFile, tls.keyFile)")


def _cause(error: BaseException) -> str:
    """The innermost reason, which is the one that says something."""
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
