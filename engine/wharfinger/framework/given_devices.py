"""The devices that a pod gets on its node, as decisions tell them, and their text.

Plugins that choose devices say so (`extension.DevicePlugin`); `Decision.devices` has the devices of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from wharfinger.model.devices.device import MILLI, unique_name


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenDevice:
    """A device that a pod gets.

    `claim` is `namespace/name`; "" without a claim, or if the scheduler has yet to make it. `request` is what the device is for: the
    request as a claim's status names it, or the resource of which the pod wants a share. `capacity` is the part that the pod gets of a
    device which others may share, as text by name; empty for the whole device.
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


def text(devices: Sequence[GivenDevice], node: str | None) -> str:
    """The devices of a pod on one line, `request: device, device; request: …`; pools have the name of the node unless they are named."""
    parts = []
    for (_, request), found in groupby(devices, key=lambda each: (each.claim, each.request)):
        parts.append(f"{request}: {', '.join(_named(each, node) for each in found)}")
    return "; ".join(parts)


def _named(device: GivenDevice, node: str | None) -> str:
    name = device.device if device.pool == node else f"{device.pool}/{device.device}"
    amounts = [f"{amount} thousandths" if capacity == MILLI else f"{amount} of {capacity}" for capacity, amount in device.capacity.items()]
    said = [*amounts, *(["admin access"] if device.admin_access else [])]
    return f"{name} ({', '.join(said)})" if said else name
