"""The GPUs of nodes that say how many they have, with what is left of each where pods share them.

Where a node advertises shares, each of its GPUs is a device with a capacity of 1000 thousandths, and what the pods of the node have of it
is known. All other extended resources are whole counts.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from wharfinger.model import objects
from wharfinger.model.devices.device import MILLI, Device, DeviceDemand, Store
from wharfinger.model.devices.gpu_names import WHOLE, GpuNames, free_gpus
from wharfinger.model.devices.whole_counts import WholeCounts
from wharfinger.model.objects.pod_view import PodView


class SharedGpus:
    """The devices of all extended resources; GPUs under these names with what is left of each."""

    __slots__ = ("_all", "_others", "names")

    def __init__(self, names: GpuNames) -> None:
        self.names = names
        self._all = WholeCounts()
        self._others = WholeCounts(besides={names.count, names.share})

    def devices_on(self, node: objects.Node, pods: Sequence[PodView], store: Store) -> Sequence[Device]:
        """The GPUs of a node by index, then its other devices."""
        names = self.names
        count = names.offered(node)
        if count < 0:
            return self._all.devices_on(node, pods, store)
        start = f"{names.count}."
        attributes = {key.removeprefix(start): value for key, value in node.metadata.labels.items() if key.startswith(start)}
        whole = {MILLI: float(WHOLE)}
        gpus = [
            Device(names.count, node.metadata.name, str(gpu), attributes, whole, {MILLI: float(max(free, 0))}, free < WHOLE)
            for gpu, free in enumerate(free_gpus(count, pods, names))
        ]
        return [*gpus, *self._others.devices_on(node, pods, store)]

    def asked(self, pod: PodView, store: Store) -> DeviceDemand | None:
        """The GPUs or shares that a pod wants, else the other devices."""
        wanted = self.names.wanted(pod)
        return self._others.asked(pod, store) if wanted is None else DeviceDemand(wanted.count, float(wanted.milli))

    def token(self, store: Store) -> Hashable:
        """A constant: these devices depend on nodes and their pods alone."""
        return self._all.token(store)

    def changed_nodes(self, store: Store, token: Hashable) -> Collection[str] | None:
        """Empty: these devices change only with the node or its pods."""
        return self._all.changed_nodes(store, token)
