"""Host ports: which exclude each other, and which nodes already use one.

Few pods ask for one, so there is an index from (protocol, port) to the rows in use instead of a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from wharfinger.model.pod import PodView

HostPort: TypeAlias = tuple[str, str, int]
"""(ip, protocol, port)."""

WILDCARD = "0.0.0.0"  # noqa: S104 — Kubernetes' name for "every address of the node"; nothing is bound here
EMPTY: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType({})


class HostPorts:
    """The host IPs in use per (protocol, port) and row; an IP used twice is listed twice."""

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, tuple[str, ...]]] = {}

    def users(self, protocol: str, port: int) -> Mapping[int, tuple[str, ...]]:
        """The IPs on which a port is in use, by row."""
        return self._users.get((protocol, port), EMPTY)

    def take(self, row: int, ports: Iterable[HostPort]) -> None:
        """Add the ports of one pod to a row."""
        for ip, protocol, port in ports:
            by_row = self._users.setdefault((protocol, port), {})
            by_row[row] = (*by_row.get(row, ()), ip)

    def give_back(self, row: int, ports: Iterable[HostPort]) -> None:
        """Remove the ports of one pod from a row."""
        for ip, protocol, port in ports:
            by_row = self._users[protocol, port]
            left = list(by_row.pop(row))
            left.remove(ip)
            if left:
                by_row[row] = tuple(left)
            elif not by_row:
                del self._users[protocol, port]


def taken_ports(pod: PodView, others: Iterable[PodView]) -> Iterator[tuple[HostPort, PodView]]:
    """The host ports of a pod that another one has already, with the other one."""
    for other in others:
        for mine in pod.host_ports:
            if any(_collide(mine, theirs) for theirs in other.host_ports):
                yield mine, other


def _collide(mine: HostPort, theirs: HostPort) -> bool:
    return mine[1:] == theirs[1:] and (mine[0] == theirs[0] or WILDCARD in {mine[0], theirs[0]})
