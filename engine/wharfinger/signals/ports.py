"""Ports of the signals: where answers come from, and where samples go; and why a signal could not be refreshed."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from wharfinger.errors import WharfingerError, on_one_line

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.signals.mapping import Mapped, NodeNames
    from wharfinger.signals.query import Query

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of decoding an answer: no JSON or another shape, no UTF-8, too deep nesting."""


class Kind(Enum):
    """The kinds of failure of a refresh."""

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


class Source(Protocol):
    """Answers the queries of one source of metrics."""

    async def measured(self, query: Query, nodes: NodeNames) -> Mapped:
        """The samples by node; SignalFailed when there are none. Slow work happens in threads."""


class Sink(Protocol):
    """The state that decisions read. All calls happen on its event loop."""

    def nodes(self) -> NodeNames:
        """The nodes as they are now."""

    def publish(self, key: str, found: Mapped) -> None:
        """Gives decisions these samples of a signal."""

    def drop(self, key: str) -> None:
        """Removes a signal that no policy reads any more."""

    def retry_rejected(self) -> None:
        """Announces that decisions may change without new samples: some have become too old."""

    def snapshot(self) -> Snapshot:
        """The cluster as decisions see it now."""
