"""URLs of servers, as settings and flags have them: only what can be asked is one."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def split(url: str) -> SplitResult | None:
    """The parts of a URL; None if it has none, or characters that no URL has."""
    if not url.isprintable() or " " in url:
        return None
    try:
        return urlsplit(url)
    except ValueError:  # brackets that are not around an IPv6 address
        return None


def is_http(parts: SplitResult) -> bool:
    """Whether a host is to be asked over HTTP."""
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def has_port(parts: SplitResult) -> bool:
    """Whether the port can be one, if there is one."""
    try:
        return parts.port != 0
    except ValueError:
        return False
