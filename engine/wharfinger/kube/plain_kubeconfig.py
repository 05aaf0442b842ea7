"""The kubeconfigs that need nobody's help: one file, whose user has a token or files with a certificate.

Exec plugins, cloud providers, data that belongs into files and several files at once are the official client's business
(`official_client`), which takes longer to import than such a file takes to be understood. Whatever is odd is left to it, too: it has the
words for what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wharfinger.model import yaml_text

_CLUSTER = frozenset({"server", "certificate-authority", "insecure-skip-tls-verify", "tls-server-name"})
_USERS = (frozenset({"token"}), frozenset({"client-certificate", "client-key"}))
_SECTIONS = ("clusters", "contexts", "users")


@dataclass(slots=True, kw_only=True)
class Access:
    """How to connect, by the names of the official client's `Configuration`."""

    host: str = ""
    ssl_ca_cert: str | None = None
    ca_cert_data: str | None = None
    verify_ssl: bool = True
    cert_file: str | None = None
    key_file: str | None = None
    tls_server_name: str | None = None
    proxy: str | None = None
    api_key: dict[str, str] = field(default_factory=dict)
    refresh_api_key_hook: None = None


def plain_access(path: str, context: str | None) -> Access | None:
    """What a file says of a context, by default of its current one; None where it is not plain. OSError, or ValueError for no YAML."""
    file = Path(path).expanduser()
    if not file.is_file():
        return None
    try:
        documents = list(yaml_text.parse(file.read_bytes()))
    except yaml_text.NotReadable as error:
        raise ValueError(f"{path}: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        return None
    document = documents[0]
    named = {kind: _by_name(document.get(kind)) for kind in _SECTIONS}
    chosen = named["contexts"].get(context or document.get("current-context"), {}).get("context")
    if not isinstance(chosen, dict):
        return None
    cluster = named["clusters"].get(chosen.get("cluster"), {}).get("cluster")
    user = named["users"].get(chosen.get("user"), {}).get("user")
    return _access(cluster, user, file.absolute().parent) if _is_plain(cluster, user) else None


def _by_name(entries: Any) -> Mapping[Any, Any]:
    """The entries of a section by name; none where two have one name, or something is not as it should be."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries):
        return {}
    found = {entry["name"]: entry for entry in entries}
    return found if len(found) == len(entries) else {}


def _is_plain(cluster: Any, user: Any) -> bool:
    if not (isinstance(cluster, dict) and isinstance(user, dict)) or not (cluster.keys() <= _CLUSTER and user.keys() in _USERS):
        return False
    texts = [*user.values(), cluster.get("server"), cluster.get("certificate-authority", "-"), cluster.get("tls-server-name", "-")]
    return all(isinstance(text, str) and text for text in texts) and isinstance(cluster.get("insecure-skip-tls-verify", False), bool)


def _access(cluster: Mapping[str, Any], user: Mapping[str, str], base: Path) -> Access:
    """Files are found from the folder of the kubeconfig on, and only matter with TLS."""
    host = cluster["server"].rstrip("/")
    access = Access(
        host=host,
        verify_ssl=not cluster.get("insecure-skip-tls-verify", False),
        tls_server_name=cluster.get("tls-server-name"),
        api_key={"BearerToken": f"Bearer {user['token']}"} if "token" in user else {},
    )
    if host.startswith("https"):
        files = (cluster.get("certificate-authority"), user.get("client-certificate"), user.get("client-key"))
        access.ssl_ca_cert, access.cert_file, access.key_file = (None if name is None else str(base / name) for name in files)
    return access
