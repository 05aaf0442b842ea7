"""Which node a text of a monitoring system means: its name, its address, either of them with a port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from wharfinger.model.objects import Node
from wharfinger.model.objects_node import NodeAddress
from wharfinger.signals.portions import in_portions

AMBIGUOUS = ""
"""Stands for an address that several nodes have."""

_MEANT = frozenset({"InternalIP", "Hostname", "InternalDNS", "ExternalIP"})

Addresses = Sequence[tuple[str, tuple[NodeAddress, ...]]]


class NodeNames:
    """The nodes of a cluster in row order, as they were in one `layout` of its rows.

    Everything is worked out when it is first asked for, by whoever asks; what `former` ones worked out is used again where it still holds.
    """

    def __init__(self, layout: int, names: Sequence[str], nodes: Sequence[Node], former: NodeNames | None = None) -> None:
        self.layout = layout
        self.names = names
        self._nodes = nodes
        self._former = former

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each node."""
        return {name: row for row, name in enumerate(self.names)}

    def of(self, text: str) -> str | None:
        """The name of the node that a text means; None if it means none, or more than one."""
        if text in self.rows:
            return text
        host = _host(text)
        if host in self.rows:
            return host
        known = self._by_address[1]
        return known.get(text) or known.get(host) or None

    @cached_property
    def _by_address(self) -> tuple[Addresses, Mapping[str, str]]:
        """The addresses of nodes, and the node that each of them means."""
        addresses = [(name, node.status.addresses) for name, node in in_portions(zip(self.names, self._nodes, strict=True))]
        former, self._former = self._former, None
        known = None if former is None else vars(former).get("_by_address")
        if known is not None and known[0] == addresses:
            return known  # type: ignore[no-any-return]  # the cached property of the same name
        found: dict[str, str] = {}
        for name, own in in_portions(addresses):
            for address in {each.address for each in own if each.type in _MEANT}:
                found[address] = AMBIGUOUS if address in found else name
        return addresses, found


def _host(text: str) -> str:
    """The text without a port, and without the brackets of an IPv6 address."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, separator, port = text.rpartition(":")
    return host if separator and port.isdigit() and ":" not in host else text
