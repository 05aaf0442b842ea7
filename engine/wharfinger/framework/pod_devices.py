"""Devices for a pod: the order that policies prefer (`prefer device`), and the chosen devices as decisions name them.

Plugins that choose devices (for shares of GPUs and for claims) call `preferred` for the order in which to try the allowed devices. Policies
apply sorted by name, their preferences in the order of the text: each orders what those before it leave equal, and at last devices keep
their own order. No policy allows a device that is not allowed without it. The plugins say what they chose (`extension.DevicePlugin`);
`Decision.devices` has the devices of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from wharfinger.compiler.bound import BoundPolicy
from wharfinger.framework.prepared import Attempt, Shared
from wharfinger.model.devices.device import MILLI, unique_name

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.model.devices.device import Device
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class DeviceOrders:
    """The policies of a chain that have preferences for devices, sorted by name; kept in what an attempt shares."""

    __slots__ = ("_last", "_policies")

    def __init__(self, policies: Sequence[CompiledPolicy]) -> None:
        self._policies = policies
        self._last: tuple[PodView, Snapshot, int, Sequence[Device] | None] | None = None

    def order(self, attempt: Attempt, row: int) -> Sequence[Device] | None:
        """The devices of a node, those that come first at the front; None if no governing policy has a preference."""
        pod, snapshot, last = attempt.pod, attempt.snapshot, self._last
        if last is not None and last[0] is pod and last[2] == row and snapshot.is_same(last[1]):
            return last[3]  # asked for the pod's annotations and again for the result
        found = self._order(pod, snapshot, row)
        self._last = pod, snapshot, row, found
        return found

    def _order(self, pod: PodView, snapshot: Snapshot, row: int) -> Sequence[Device] | None:
        governing = [BoundPolicy(policy, pod, snapshot) for policy in self._policies if policy.governs(pod, snapshot)]
        keys = [key for bound in governing for key in bound.device_order(snapshot, row)]
        if not keys:
            return None
        devices = snapshot.devices.on(row)
        return [devices[place] for place in np.lexsort([-key for key in reversed(keys)]).tolist()]


def shared_by(policies: Sequence[CompiledPolicy]) -> Shared:
    """A new `Shared` for a template of pods; it holds the order of devices if a policy has preferences."""
    shared, preferring = Shared(), [policy for policy in policies if policy.device_preferences]
    if preferring:
        shared.once(DeviceOrders, lambda: DeviceOrders(preferring))
    return shared


def preferred(attempt: Attempt, row: int) -> Sequence[Device] | None:
    """The devices of a node in the order of the policies that govern the pod; None if none of them has a preference."""
    orders = attempt.shared.made(DeviceOrders)
    return None if orders is None else orders.order(attempt, row)


class PodDevice(Struct, frozen=True, kw_only=True):
    """A device that a pod gets.

    `claim` is `namespace/name`; "" without a claim, or if the scheduler has yet to make it. `request` is the purpose of the device: the
    request as in a claim's status, or the resource of which the pod requests a share. `capacity` is the part that the pod gets of a device
    which others may share, as text by name; empty for the whole device.
    """

    claim: str
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    capacity: Mapping[str, str] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """The `model.devices.device.Device.uid` of the device."""
        return unique_name(self.driver, self.pool, self.device)


def text(devices: Sequence[PodDevice], node: str | None) -> str:
    """The devices of a pod on one line, `request: device, device; request: …`; pools have the name of the node unless they are named."""
    parts = []
    for (_, request), found in groupby(devices, key=lambda each: (each.claim, each.request)):
        parts.append(f"{request}: {', '.join(_named(each, node) for each in found)}")
    return "; ".join(parts)


def _named(device: PodDevice, node: str | None) -> str:
    name = device.device if device.pool == node else f"{device.pool}/{device.device}"
    amounts = [f"{amount} thousandths" if capacity == MILLI else f"{amount} of {capacity}" for capacity, amount in device.capacity.items()]
    details = [*amounts, *(["admin access"] if device.admin_access else [])]
    return f"{name} ({', '.join(details)})" if details else name
