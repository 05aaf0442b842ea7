"""The address of the API server and the credentials for it, from a kubeconfig or from inside a pod.

The official client's loaders read both, run exec plugins and support cloud providers. A kubeconfig with a token or with certificate files
is read without them (docs/decisions/0017). Tokens, certificates and authorities rotate: files are read again every minute, an exec
plugin runs again when its credentials have expired, and after a 401 everything is read afresh. New connections use what was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import yaml
from msgspec import Struct, field
from yarl import URL

from wharfinger.errors import UsageError
from wharfinger.model.reading import decode, yaml_text

if TYPE_CHECKING:
    from wharfinger.kube.official_client import Kubeconfig

_CLUSTER = frozenset({"server", "certificate-authority", "insecure-skip-tls-verify", "tls-server-name"})
_USERS = (frozenset({"token"}), frozenset({"client-certificate", "client-key"}))
_SECTIONS = ("clusters", "contexts", "users")


class Access(Struct, kw_only=True):
    """The address and the credentials, with the field names of the official client's `Configuration`."""

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
    """The access of a context (default: the current one) of a plain kubeconfig; None if not plain; OSError, or ValueError for no YAML."""
    file = Path(path).expanduser()
    if not file.is_file():
        return None
    try:
        documents = list(yaml_text.parse_yaml(file.read_bytes()))
    except decode.NotReadable as error:
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
    """The entries of a section by name; empty if names repeat or the shape is wrong."""
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
    """The access; paths are relative to the folder of the kubeconfig, and only used with TLS."""
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


_UNREADABLE = (yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError)  # the loaders do not check the file
_IN_HOME = "~/.kube/config"
_EXEC_TIMEOUT = 30.0  # seconds that an exec plugin may take; all requests wait for it
_REREAD_SECONDS = 60.0  # seconds between reads of files that may rotate, as in the official loaders


class MonotonicClock(Protocol):
    """A clock that never goes back."""

    def __call__(self) -> float:
        """Seconds since any fixed moment."""


class Credentials:
    """A server's address, its TLS context and the current Authorization header."""

    def __init__(self, kubeconfig: str | None, context: str | None, now: MonotonicClock) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._path: str | None = None  # of the kubeconfig that was read
        self._now = now
        self._loader: Kubeconfig | None = None
        self._read_at = 0.0
        self._lock = asyncio.Lock()
        self.configuration: Any = Access()
        self.tls: ssl.SSLContext | None = None
        self._tls_made_of = b""

    @property
    def server(self) -> str:
        """The address of the API server, without a slash at its end."""
        return str(self.configuration.host).rstrip("/")

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate must have, where it is not that of the address."""
        return self.configuration.tls_server_name or None

    @property
    def proxy(self) -> str | None:
        """The proxy that the kubeconfig names."""
        return self.configuration.proxy or None

    async def load(self) -> None:
        """Read everything again; UsageError if there is nothing to connect to, or it cannot be read."""
        try:
            async with asyncio.timeout(_EXEC_TIMEOUT):
                await self._load()
        except TimeoutError as error:
            raise UsageError(
                f"cannot connect to the API server: the exec plugin of the kubeconfig took over {_EXEC_TIMEOUT:g} s"
            ) from error
        except (TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"cannot read how to connect to the API server: this is not a kubeconfig: {error}") from error
        except _UNREADABLE as error:
            why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
            raise UsageError(f"cannot read how to connect to the API server: {why}") from error
        self._read_at = self._now()

    async def authorization(self) -> str | None:
        """The value of the Authorization header, renewed when it is due."""
        if self._now() - self._read_at >= _REREAD_SECONDS:
            async with self._lock:
                if self._now() - self._read_at >= _REREAD_SECONDS:
                    await self._rotate()
        return self._header

    def reload_soon(self) -> None:
        """Read the files again before the next request. They may have changed if the server's certificate was not trusted."""
        self._read_at = self._now() - _REREAD_SECONDS

    async def renew(self, refused: str | None) -> bool:
        """True if the header differs from the refused one after everything was read again."""
        async with self._lock:
            if self._header == refused:
                await self._load_again()
        return self._header != refused

    @property
    def _header(self) -> str | None:
        return _header_of(self.configuration)

    async def _load(self) -> None:
        self._path = path = self._kubeconfig or _default_kubeconfig()
        if path is None:
            self.configuration = (await _official()).in_cluster()
        elif (access := plain_access(path, self._context)) is not None:
            self.configuration, self._loader = access, None
        else:
            loader: Kubeconfig = (await _official()).Kubeconfig(path, self._context)
            self.configuration, self._loader = loader.configuration, loader
            await loader.load()
            loader.refuse_failed_plugin()
        _refuse_unusable_values(self.server, self._header)
        self._load_tls()

    async def _load_again(self) -> None:
        """Read everything again; keep the former values if a file is just being written; the server then refuses the request."""
        known = self.configuration, self._loader
        try:
            await self.load()
        except UsageError:
            self.configuration, self._loader = known

    async def _rotate(self) -> None:
        """Read files and plugins again. What cannot be read now is read again in a minute, or at once if the token is refused."""
        self._read_at = self._now()
        with contextlib.suppress(*_UNREADABLE):  # TimeoutError among them
            if self._loader is not None:
                async with asyncio.timeout(_EXEC_TIMEOUT):
                    await self._loader.load()
            elif self.configuration.refresh_api_key_hook is not None:
                self.configuration.refresh_api_key_hook(self.configuration)
            else:
                self._read_plain_file()
            self._load_tls()

    def _read_plain_file(self) -> None:
        """Read the kubeconfig again and use it if it names the same server: connections are kept by server."""
        found = plain_access(self._path or "", self._context)
        if found is not None and found.host == self.configuration.host:
            _refuse_unusable_values(self.server, _header_of(found))
            self.configuration = found

    def _load_tls(self) -> None:
        """Make a new TLS context if the content of a file has changed."""
        settings = self.configuration
        if not self.server.startswith("https"):
            return
        files = [name for name in (settings.ssl_ca_cert, settings.cert_file, settings.key_file) if name]
        parts = [repr((files, settings.verify_ssl, settings.ca_cert_data)).encode(), *(Path(name).read_bytes() for name in files)]
        made_of = hashlib.sha256(b"\0".join(parts)).digest()
        if made_of == self._tls_made_of:
            return
        tls = _trusting(settings.ssl_ca_cert, settings.ca_cert_data)
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # certificates made by Kubernetes itself do not meet this
        if not settings.verify_ssl:  # only if the kubeconfig has insecure-skip-tls-verify
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        if settings.cert_file:
            try:
                tls.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
            except ssl.SSLError as error:
                raise ValueError(f"{settings.cert_file} with {settings.key_file}: {error}") from error
        self.tls, self._tls_made_of = tls, made_of


def _header_of(configuration: Any) -> str | None:
    """`Bearer …` without the end of line that token files may have, which the loaders keep."""
    return str(configuration.api_key.get("BearerToken") or "").strip() or None


def _trusting(file: str | None, content: str | None) -> ssl.SSLContext:
    """A TLS context that trusts the authorities of a file or a text (default: the system's); ValueError names where there are none."""
    try:
        return ssl.create_default_context(cafile=file, cadata=content)
    except ssl.SSLError as error:
        raise ValueError(f"{file or 'certificate-authority-data'}: {error}") from error


def _refuse_unusable_values(server: str, header: str | None) -> None:
    """Raise ValueError for values with which every request would fail."""
    url = URL(server)
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"the cluster's server is {server!r}, expected a URL such as https://10.0.0.1:6443")
    if header is not None and not (header.isascii() and header.isprintable()):
        raise ValueError("the user's token contains a line break or another character that tokens do not have")


def _default_kubeconfig() -> str | None:
    """$KUBECONFIG, or ~/.kube/config if it exists, or None inside a pod; UsageError otherwise."""
    named = os.environ.get("KUBECONFIG", "")
    path = named or os.path.expanduser(_IN_HOME)  # noqa: PTH111 — may be several paths joined by colons
    if named or Path(path).exists():
        return path
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    raise UsageError(f"no kubeconfig: {path} does not exist, $KUBECONFIG is not set and this is not a pod; use --kubeconfig")


async def _official() -> Any:
    """`official_client`, imported only now. That takes a tenth of a second, so it is done in a thread."""
    return await asyncio.to_thread(importlib.import_module, "wharfinger.kube.official_client")
