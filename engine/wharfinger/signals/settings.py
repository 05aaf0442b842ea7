"""How to reach a Prometheus server, and how much is asked. Nothing here is secret: secrets are in files read anew for every question."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalLimits:
    """How often a query is asked at most, in seconds, and how many distinct ones: for one asker, and for all.

    An asker is a policy of the cluster, or all policies of a namespace.
    Prometheus itself looks at its targets every 15 s to a minute, so who asks more often than every 5 s sees the same samples again.
    """

    shortest_refresh: float = 5.0
    of_asker: int = 64
    of_all: int = 512
