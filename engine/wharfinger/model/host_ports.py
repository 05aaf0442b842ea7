"""Which nodes already use a host port.

Few pods ask for one, so this is an index from (protocol, port) to the rows in use instead of a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

EMPTY: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType({})


class HostPorts:
    """The host IPs in use per (protocol, port) and row; an IP used twice is listed twice."""

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, tuple[str, ...]]] = {}

    def users(self, protocol: str, port: int) -> Mapping[int, tuple[str, ...]]:
        """The IPs on which a port is in use, by row."""
        return self._users.get((protocol, port), EMPTY)

    def take(self, row: int, ports: Iterable[tuple[str, str, int]]) -> None:
        """Add the (ip, protocol, port) triples of one pod to a row."""
        for ip, protocol, port in ports:
            by_row = self._users.setdefault((protocol, port), {})
            by_row[row] = (*by_row.get(row, ()), ip)

    def give_back(self, row: int, ports: Iterable[tuple[str, str, int]]) -> None:
        """Remove the triples of one pod from a row."""
        for ip, protocol, port in ports:
            by_row = self._users[protocol, port]
            left = list(by_row.pop(row))
            left.remove(ip)
            if left:
                by_row[row] = tuple(left)
            elif not by_row:
                del self._users[protocol, port]
