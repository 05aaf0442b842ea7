"""The Prometheus servers of the settings. Secrets are named by the files that hold them, so that settings may be shown to anyone.

prometheus:
default:
url: https://prometheus.monitoring:9090
bearerTokenFile: /var/run/secrets/prometheus/token
tls: {caFile: /etc/wharfinger/prometheus-ca.crt}
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import Field, field_validator, model_validator

from wharfinger.daemon import settings_fields
from wharfinger.daemon.settings_fields import AnyPath, Duration, FilePath, Part
from wharfinger.signals.query import PrometheusServer

_SECRET = ("authorization", "cookie", "token", "secret", "password", "api-key", "apikey")
_RESERVED_HEADERS = frozenset({"accept-encoding", "connection", "content-length", "transfer-encoding"})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110: token
_API = ("/api/v1", "/api/v1/query")


class BasicAuth(Part):
    """A user, and the file with the password."""

    username: str = Field(min_length=1, description="The user")
    password_file: FilePath = Field(description="The file with the password")

    @field_validator("username")
    @classmethod
    def _sendable(cls, value: str) -> str:
        if ":" in value or not value.isprintable():
            raise ValueError("a user's name has no colon and no control characters; what follows a colon would be the password")
        return value


class Tls(Part):
    """TLS for the connection to a server."""

    ca_file: FilePath | None = Field(default=None, description="The certificates that are trusted; default: those of the machine")
    cert_file: FilePath | None = Field(default=None, description="The client certificate")
    key_file: FilePath | None = Field(default=None, description="The key of the client certificate")
    insecure_skip_verify: bool = Field(default=False, description="Accept any certificate")

    @model_validator(mode="after")
    def _fields_that_fit(self) -> Tls:
        if self.key_file and not self.cert_file:
            raise ValueError("keyFile needs a certFile")
        if self.insecure_skip_verify and self.ca_file:
            raise ValueError("caFile has no effect with insecureSkipVerify; remove one of the two")
        return self


class Prometheus(Part):
    """One server."""

    url: str = Field(description="The URL of the server ([signals](../writing/signals.md#servers))")
    bearer_token_file: FilePath | None = Field(default=None, description="The file with the bearer token")
    basic_auth: BasicAuth | None = None
    headers: Mapping[str, str] = Field(default_factory=dict, description="Headers that are sent as they are")
    header_files: Mapping[str, AnyPath] = Field(default_factory=dict, description="Headers whose values are the contents of files")
    tls: Tls = Tls()
    timeout: Duration = Field(default=10.0, gt=0, le=300, description="Timeout for the whole answer, in seconds")

    @field_validator("url")
    @classmethod
    def _reachable(cls, value: str) -> str:
        parts = settings_fields.split(value)
        if parts is None or not settings_fields.is_http(parts):
            raise ValueError("expected a URL such as https://prometheus.monitoring:9090")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL has a password in it; name the file that contains it as basicAuth.passwordFile")
        if parts.query or parts.fragment:
            raise ValueError("expected the server's URL, without a query")
        if not settings_fields.has_port(parts):
            raise ValueError("expected a port from 1 to 65535, as in https://prometheus.monitoring:9090")
        if parts.path.rstrip("/").endswith(_API):
            raise ValueError("expected the path before /api/v1 only, which is added")
        return value

    @field_validator("headers", "header_files")
    @classmethod
    def _are_headers(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        wrong = next((name for name in value if not _HEADER.fullmatch(name)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is not the name of a header; names have letters, digits and hyphens")
        own = next((name for name in value if name.lower() in _RESERVED_HEADERS), None)
        if own is not None:
            raise ValueError(f"{own} is set for each request; leave it out")
        return value

    @field_validator("headers")
    @classmethod
    def _not_secret(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        secret = sorted(name for name in value if any(word in name.lower() for word in _SECRET))
        if secret:
            raise ValueError(f"{secret[0]} is a secret; name the file that contains it under headerFiles")
        wrong = next((name for name, text in value.items() if not (text.isascii() and text.isprintable()) or text != text.strip()), None)
        if wrong is not None:
            raise ValueError(f"expected one line of plain ASCII for {wrong}, without blanks around it")
        return value

    @field_validator("header_files")
    @classmethod
    def _are_files(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        missing = next((name for name, path in value.items() if not path), None)
        if missing is not None:
            raise ValueError(f"which file has the content of {missing}?")
        return value

    @model_validator(mode="after")
    def _each_header_once(self) -> Prometheus:
        names = [name.lower() for name in (*self.headers, *self.header_files)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"the header {twice} is given twice")
        return self

    @model_validator(mode="after")
    def _one_kind_of_credentials(self) -> Prometheus:
        given = [
            self.bearer_token_file is not None,
            self.basic_auth is not None,
            "authorization" in map(str.lower, self.header_files),
        ]
        if sum(given) > 1:
            raise ValueError("give one of bearerTokenFile, basicAuth and a header Authorization")
        return self

    def server(self, name: str) -> PrometheusServer:
        """The server under its name."""
        return PrometheusServer(
            name=name,
            url=self.url,
            token_file=self.bearer_token_file,
            username=None if self.basic_auth is None else self.basic_auth.username,
            password_file=None if self.basic_auth is None else self.basic_auth.password_file,
            headers=self.headers,
            header_files=self.header_files,
            ca_file=self.tls.ca_file,
            cert_file=self.tls.cert_file,
            key_file=self.tls.key_file,
            verify=not self.tls.insecure_skip_verify,
            timeout=self.timeout,
        )
