"""Which node a text of a monitoring system means: its name, its address, either of them with a port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from wharfinger.model.objects import Node

AMBIGUOUS = ""
"""Stands for an address that several nodes have."""

_MEANT = frozenset({"InternalIP", "Hostname", "InternalDNS", "ExternalIP"})


class NodeNames:
    """The nodes of a cluster in row order, as they were in one `layout` of its rows."""

    def __init__(self, layout: int, names: Sequence[str], nodes: Sequence[Node]) -> None:
        self.layout = layout
        self.names = names
        self._nodes = nodes
        self._known = frozenset(names)

    def __len__(self) -> int:
        return len(self.names)

    def of(self, text: str) -> str | None:
        """The name of the node that a text means; None if it means none, or more than one."""
        if text in self._known:
            return text
        host = _host(text)
        if host in self._known:
            return host
        return self._by_address.get(text) or self._by_address.get(host) or None

    @cached_property
    def _by_address(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name, node in zip(self.names, self._nodes, strict=True):
            for address in {each.address for each in node.status.addresses if each.type in _MEANT}:
                found[address] = AMBIGUOUS if address in found else name
        return found


def _host(text: str) -> str:
    """The text without a port, and without the brackets of an IPv6 address."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, separator, port = text.rpartition(":")
    return host if separator and port.isdigit() and ":" not in host else text
