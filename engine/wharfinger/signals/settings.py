"""How to reach a Prometheus server. Nothing here is secret: secrets are in files that are read anew for every question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusServer:
    """A server by name.

    Of `token_file` and (`username`, `password_file`) one at most is used. `headers` are sent as they are, `header_files` with the content
    of files. `ca_file` says whom to trust, `cert_file` and `key_file` who asks; `verify` False trusts anybody. `timeout` is that of a
    whole answer in seconds, and `most_bytes` how long one may be.
    """

    name: str
    url: str
    token_file: str | None = None
    username: str | None = None
    password_file: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    header_files: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    timeout: float = 10.0
    most_bytes: int = 64 * 2**20
