"""URLs in CEL, read and written as Go does it, with its texts of errors.

Source: `net/url` of Go, and `urls.go` of `apiserver/pkg/cel/library`, Kubernetes 1.36. A value is a map with one key that names its type
(see `library`). Its text is canonical, so equal values have equal maps. A function raises ValueError with the text that the user sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from wharfinger.framework.plugins.devices.cel.addresses import NO_OVERLOAD, Value, parsed_address, quoted

URL: Final = "url"

_PLAIN: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_HOST: Final = frozenset(_PLAIN + "!\"$&'()*+,:;<=>[]")
_PATH: Final = frozenset(_PLAIN + "$&+,/:;=@")
_USER: Final = frozenset(_PLAIN + "$&+,;=")
_FRAGMENT: Final = frozenset(_PLAIN + "!$&()*+,/:;=?@")
_USERINFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PORT: Final = re.compile("(?::[0-9]*)?")
_MAX_QUERY_ENTRIES: Final = 10_000


class _Url(Struct, frozen=True):
    """A URL in parts, each byte of its text a letter; `raw_path` and `raw_fragment` are "" where they say no more than the plain ones."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    password: str | None = None
    host: str = ""
    path: str = ""
    raw_path: str = ""
    query: str = ""
    asks: bool = False
    omits_host: bool = False
    fragment: str = ""
    raw_fragment: str = ""

    @property
    def escaped_path(self) -> str:
        return self.raw_path if _is_encoded(self.raw_path, _PATH) else "*" if self.path == "*" else _escaped(self.path, _PATH)

    @property
    def text(self) -> str:
        """The whole of it (`String`)."""
        found = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            found += self.opaque
        else:
            has_host = self.host or self.user is not None
            if (self.scheme or has_host) and not (self.omits_host and not has_host) and (has_host or self.path):
                found += "//"
                if self.user is not None:
                    secret = "" if self.password is None else f":{_escaped(self.password, _USER)}"
                    found += f"{_escaped(self.user, _USER)}{secret}@"
                found += _escaped(self.host, _HOST)
            path = self.escaped_path
            if path and path[0] != "/" and self.host:
                found += "/"
            if not found and ":" in path.partition("/")[0]:
                found += "./"
            found += path
        found += f"?{self.query}" if self.asks or self.query else ""
        if self.fragment:
            raw = _is_encoded(self.raw_fragment, _FRAGMENT)
            found += f"#{self.raw_fragment if raw else _escaped(self.fragment, _FRAGMENT)}"
        return found

    @property
    def host_and_port(self) -> tuple[str, str]:
        host, colon, port = self.host.rpartition(":")
        if not colon or not _PORT.fullmatch(f":{port}"):
            host, port = self.host, ""
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host, port


def _escaped(text: str, plain: frozenset[str]) -> str:
    return "".join(letter if letter in plain else f"%{ord(letter):02X}" for letter in text)


def _is_encoded(text: str, plain: frozenset[str]) -> bool:
    """True for a text that need not be escaped again (`validEncoded`); False for an empty one."""
    return bool(text) and all(letter in plain or letter in "!$&'()*+,;=:@[]%" for letter in text)


def _unescaped(text: str, *, host: bool = False, zone: bool = False, query: bool = False) -> str:
    def decoded(match: re.Match[str]) -> str:
        found = match[0]
        code = int(found[1:], 16) if re.fullmatch("%[0-9a-fA-F]{2}", found) else -1
        if code < 0 or (host and code < 0x80 and found != "%25"):
            raise ValueError(f"invalid URL escape {quoted(found)}")
        if zone and found != "%25" and code != 0x20 and chr(code) not in _HOST:
            raise ValueError(f"invalid URL escape {quoted(found)}")
        return chr(code)

    place = 0
    while place < len(text):
        letter = text[place]
        if letter == "%":
            decoded(re.compile("%.{0,2}", re.DOTALL).match(text, place))  # type: ignore[arg-type]  # it matches
            place += 3
            continue
        if (host or zone) and letter < "\x80" and letter not in _HOST:
            raise ValueError(f"invalid character {quoted(letter)} in host name")
        place += 1
    found = text.replace("+", " ") if query else text
    return re.sub("%..", decoded, found, flags=re.DOTALL)


def _host(scheme: str, host: str) -> str:
    """The host of an authority, with its port (`parseHost`)."""
    opening = host.rfind("[")
    if opening > 0:
        raise ValueError("invalid IP-literal")
    if opening == 0:
        closing = host.rfind("]")
        if closing < 0:
            raise ValueError("missing ']' in host")
        _check_port(host[closing + 1 :])
        name, percent, zone = host[1:closing].partition("%25")
        name = _unescaped(name, host=True) + (_unescaped(percent + zone, zone=True) if percent else "")
        try:
            address, _ = parsed_address(_decoded(name))
        except ValueError as error:
            raise ValueError(f"invalid host: {error}") from None
        if address.version == 4:
            raise ValueError("invalid IP-literal")
        return f"[{name}]{host[closing + 1 :]}"
    if ":" in host:
        _check_port(host[host.index(":") if scheme in {"http", "https"} else host.rindex(":") :])
    return _unescaped(host, host=True)


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {quoted(_decoded(port))} after host")


def _authority(scheme: str, authority: str) -> dict[str, str | None]:
    user, at, host = authority.rpartition("@")
    found: dict[str, str | None] = {"host": _host(scheme, host)}
    if at:
        if not _USERINFO.fullmatch(user):
            raise ValueError("net/url: invalid userinfo")
        name, colon, password = user.partition(":")
        found |= {"user": _unescaped(name), "password": _unescaped(password) if colon else None}
    return found


def _parsed(text: str, *, request: bool) -> _Url:  # noqa: C901 — as Go reads it
    """A URL without a fragment (`parse`); `request`: it must be absolute, as for `ParseRequestURI`."""
    if any(letter < " " or letter == "\x7f" for letter in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and request:
        raise ValueError("empty url")
    if text == "*":
        return _Url(path="*")
    scheme, colon, rest = text.partition(":")
    if colon and not scheme:
        raise ValueError("missing protocol scheme")
    if not colon or not re.fullmatch("[A-Za-z][A-Za-z0-9+.-]*", scheme):
        scheme, rest = "", text
    found: dict[str, Any] = {"scheme": scheme.lower()}
    rest, question, found["query"] = rest.partition("?")
    found["asks"] = bool(question) and not found["query"]
    if not rest.startswith("/"):
        if scheme:
            return _Url(opaque=rest, **found)
        if request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        found |= _authority(found["scheme"], authority)
    elif scheme and rest.startswith("/"):
        found["omits_host"] = True
    path = _unescaped(rest)
    return _Url(path=path, raw_path="" if rest == _escaped(path, _PATH) else rest, **found)


def _encoded(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _decoded(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")


@lru_cache(maxsize=1024)
def _url_of(text: str) -> _Url:
    """The parts of a URL; ValueError for an invalid text (`ParseRequestURI`, then `Parse`)."""
    shown = text
    try:
        _parsed(_encoded(text), request=True)
        whole, _, fragment = _encoded(text).partition("#")
        shown = _decoded(whole)
        found = _parsed(whole, request=False)
        if not fragment:
            return found
        shown = text
        plain = _unescaped(fragment)
    except ValueError as error:
        raise ValueError(f"parse {quoted(shown)}: {error}") from None
    parts = {name: getattr(found, name) for name in _Url.__struct_fields__}
    return _Url(**parts | {"fragment": plain, "raw_fragment": "" if fragment == _escaped(plain, _FRAGMENT) else fragment})


def url(text: str) -> dict[str, str]:
    """The value of a URL."""
    try:
        return {URL: _decoded(_url_of(text).text)}
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None


def is_url(text: str) -> bool:
    """True for an absolute URL, or an absolute path."""
    return not url_error(text)


def url_error(text: str) -> str:
    """The error of `ParseRequestURI` for a text; "" if it is an absolute URL."""
    try:
        _parsed(_encoded(text), request=True)
    except ValueError as error:
        return f"parse {quoted(text)}: {error}"
    return ""


def url_part(read: Callable[[_Url], str]) -> Callable[[Value], str]:
    """The function that reads a part of a URL."""

    def part(value: Value) -> str:
        return _decoded(read(_of_url(value)))

    return part


def _of_url(value: Value) -> _Url:
    if URL not in value:
        raise ValueError(NO_OVERLOAD)
    return _url_of(value[URL])


def url_parts() -> Mapping[str, Callable[[Value], str]]:
    """The functions that read one text of a URL, by name."""
    return {
        "getScheme": url_part(lambda url: url.scheme),
        "getHost": url_part(lambda url: url.host),
        "getHostname": url_part(lambda url: url.host_and_port[0]),
        "getPort": url_part(lambda url: url.host_and_port[1]),
        "getEscapedPath": url_part(lambda url: url.escaped_path),
    }


def url_query(value: Value) -> dict[str, Sequence[str]]:
    """The values of each key of the query; entries that cannot be read are left out (`Query`)."""
    found: dict[str, list[str]] = {}
    entries = _of_url(value).query.split("&")
    for entry in entries if len(entries) <= _MAX_QUERY_ENTRIES else ():
        if not entry or ";" in entry:
            continue
        key, _, text = entry.partition("=")
        try:
            key, text = _unescaped(key, query=True), _unescaped(text, query=True)
        except ValueError:
            continue
        found.setdefault(_decoded(key), []).append(_decoded(text))
    return dict(found)
