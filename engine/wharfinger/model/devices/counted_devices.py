"""Devices of nodes that only publish a count, such as `nvidia.com/gpu: 8`.

The kubelet chooses which of them a pod gets and does not report it. So each is a device without a capacity, of which is not known if it is
taken; how many are taken is known. Labels of the node under the name of the resource, as feature discovery writes them
(`nvidia.com/gpu.product`), are attributes of its devices.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Final

from wharfinger.model import objects
from wharfinger.model.devices.device import WHOLE, Device, DeviceDemand, Store
from wharfinger.model.objects.node_view import amounts
from wharfinger.model.objects.pod_view import PodView

MAX_UNITS: Final = 64
"""A resource with more units on a node is an amount and not devices: no computer has as many slots."""


class CountedDevices:
    """The devices of extended resources, without those in `excluded`, for which another source has details."""

    __slots__ = ("_excluded",)

    def __init__(self, excluded: Collection[str] = ()) -> None:
        self._excluded = frozenset(excluded)

    def devices_on(self, node: objects.Node, pods: Sequence[PodView], store: Store) -> Sequence[Device]:  # noqa: ARG002 — a port
        """A device for each unit of each extended resource, resources by name."""
        found: list[Device] = []
        for resource, count in sorted(amounts(_extended(node.status.allocatable, self._excluded)).items()):
            if not 0 < count <= MAX_UNITS:
                continue
            taken = sum(pod.requests.get(resource, 0) for pod in pods)
            start = f"{resource}."
            attributes = {key.removeprefix(start): value for key, value in node.metadata.labels.items() if key.startswith(start)}
            found += [
                Device(resource, node.metadata.name, str(unit), attributes, taken=None, share=0.0 if unit < taken else WHOLE)
                for unit in range(count)
            ]
        return found

    def demand(self, pod: PodView, store: Store) -> DeviceDemand | None:  # noqa: ARG002 — a port
        """All units of extended resources that a pod requests."""
        count = sum(amount for name, amount in pod.requests.items() if "/" in name and name not in self._excluded)
        return DeviceDemand(count) if 0 < count <= MAX_UNITS else None

    def token(self, store: Store) -> Hashable:  # noqa: ARG002 — a port
        """A constant: these devices depend on nodes and their pods alone."""
        return None

    def changed_nodes(self, store: Store, token: Hashable) -> Collection[str] | None:  # noqa: ARG002 — a port
        """Empty: these devices change only with the node or its pods."""
        return ()


def _extended(allocatable: dict[str, str], excluded: frozenset[str]) -> dict[str, str]:
    """The quantities of extended resources."""
    return {name: text for name, text in allocatable.items() if "/" in name and name not in excluded}
