"""The Prometheus servers of the settings. Secrets are named by the files that hold them, so that settings may be shown to anybody.

prometheus:
default:
url: https://prometheus.monitoring:9090
bearerTokenFile: /var/run/secrets/prometheus/token
tls: {caFile: /etc/wharfinger/prometheus-ca.crt}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pydantic import Field, field_validator, model_validator

from wharfinger.daemon import settings_fields
from wharfinger.daemon.settings_fields import Duration, Part
from wharfinger.signals.query import PrometheusServer

_SECRET = ("authorization", "cookie", "token", "secret", "password", "api-key", "apikey")
_OF_THE_EXCHANGE = frozenset({"accept-encoding", "connection", "content-length", "transfer-encoding"})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110: token
_API = ("/api/v1", "/api/v1/query")


class BasicAuth(Part):
    """A user, and the file with the password."""

    username: str = Field(min_length=1)
    password_file: str = Field(min_length=1)

    @field_validator("username")
    @classmethod
    def _sendable(cls, value: str) -> str:
        if ":" in value or not value.isprintable():
            raise ValueError("a user's name has no colon and no control characters; what follows a colon would be the password")
        return value


class Tls(Part):
    """Whom to trust: `ca_file`, by default what the machine trusts. `cert_file` and `key_file` say who asks."""

    ca_file: str | None = Field(default=None, min_length=1)
    cert_file: str | None = Field(default=None, min_length=1)
    key_file: str | None = Field(default=None, min_length=1)
    insecure_skip_verify: bool = False

    @model_validator(mode="after")
    def _whole(self) -> Tls:
        if self.key_file and not self.cert_file:
            raise ValueError("keyFile needs a certFile")
        if self.insecure_skip_verify and self.ca_file:
            raise ValueError("caFile is of no use with insecureSkipVerify")
        return self


class Prometheus(Part):
    """One server. `headers` are sent as they are, `header_files` with the content of files; `timeout` is that of a whole answer."""

    url: str
    bearer_token_file: str | None = Field(default=None, min_length=1)
    basic_auth: BasicAuth | None = None
    headers: Mapping[str, str] = Field(default_factory=dict)
    header_files: Mapping[str, str] = Field(default_factory=dict)
    tls: Tls = Tls()
    timeout: Duration = Field(default=10.0, gt=0, le=300)

    @field_validator("url")
    @classmethod
    def _reachable(cls, value: str) -> str:
        parts = settings_fields.split(value)
        if parts is None or not settings_fields.is_http(parts):
            raise ValueError("expected a URL such as https://prometheus.monitoring:9090")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL has a password in it; name the file that holds it as basicAuth.passwordFile")
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
        odd = next((name for name in value if not _HEADER.fullmatch(name)), None)
        if odd is not None:
            raise ValueError(f"{odd!r} is no name of a header; it has letters, digits and hyphens")
        own = next((name for name in value if name.lower() in _OF_THE_EXCHANGE), None)
        if own is not None:
            raise ValueError(f"{own} is a matter of each exchange; leave it out")
        return value

    @field_validator("headers")
    @classmethod
    def _not_secret(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        secret = sorted(name for name in value if any(word in name.lower() for word in _SECRET))
        if secret:
            raise ValueError(f"{secret[0]} is a secret; name the file that holds it under headerFiles")
        odd = next((name for name, text in value.items() if not (text.isascii() and text.isprintable()) or text != text.strip()), None)
        if odd is not None:
            raise ValueError(f"expected one line of plain ASCII for {odd}, without blanks around it")
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
    def _one_way_in(self) -> Prometheus:
        ways = [self.bearer_token_file is not None, self.basic_auth is not None, "authorization" in map(str.lower, self.header_files)]
        if sum(ways) > 1:
            raise ValueError("give one of bearerTokenFile, basicAuth and a header Authorization")
        return self

    def with_paths(self, change: Callable[[str], str]) -> Prometheus:
        """The same with every path of a file changed."""

        def changed(path: str | None) -> str | None:
            return None if path is None else change(path)

        auth = self.basic_auth
        files = {name: changed(getattr(self.tls, name)) for name in ("ca_file", "cert_file", "key_file")}
        return self.model_copy(
            update={
                "bearer_token_file": changed(self.bearer_token_file),
                "basic_auth": auth and auth.model_copy(update={"password_file": change(auth.password_file)}),
                "header_files": {name: change(path) for name, path in self.header_files.items()},
                "tls": self.tls.model_copy(update=files),
            }
        )

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
