"""Why a signal could not be refreshed: a kind for metrics and a sentence for people."""

from __future__ import annotations

from enum import Enum

from wharfinger.errors import WharfingerError, printable


class Kind(Enum):
    """What kind of failure it was."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    CREDENTIALS = "credentials"  # refused, or not to be read from their file
    QUERY = "query"  # the server does not understand it, or it asks for too much
    OVERLOADED = "overloaded"
    SERVER = "server"
    ANSWER = "answer"  # not what was asked for: not JSON, a text, a range, too long
    SETTINGS = "settings"  # the settings do not name that server
    LIMIT = "limit"  # it is not asked, because there are too many queries


class SignalFailed(WharfingerError):
    """A failed refresh. Servers write a part of its text, so it is kept to one line."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(on_one_line(message))
        self.kind = kind


def on_one_line(text: str, most: int | None = None) -> str:
    """The text without what would end a line or change a terminal, and no longer than that."""
    short = text if most is None or len(text) <= most else text[:most] + "…"
    return short if short.isprintable() else printable(short).strip()
