"""The devices of a node as its page shows them: a cell for each, with its state, who holds it, and what is left."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Final

from wharfinger.model.devices.device import WHOLE, Device
from wharfinger.model.devices.held_devices import HeldDevice, Holding

MAX_DEVICES_OF_NODE: Final = 256
"""Most devices of a node that are listed."""
MAX_HOLDERS_OF_DEVICE: Final = 16
"""Most holders of a device that are listed."""

FREE, PARTLY, TAKEN, BLOCKED = "free", "partly taken", "taken", "blocked"
"""States of a device; a blocked one is held by no pod, but others have used up its counters."""


def plain_devices(held: Sequence[HeldDevice]) -> Mapping[str, Any]:
    """The devices of a node as plain values: how many are in which state, and the first of them by driver and pool."""
    shown = held[:MAX_DEVICES_OF_NODE]
    return {
        "count": len(held),
        "states": Counter(map(_state, held)),
        "omitted": len(held) - len(shown),
        "pools": [
            {
                "driver": driver,
                "pool": pool,
                "counted": all(each.device.taken is None for each in found),
                "devices": list(map(_cell, found)),
            }
            for (driver, pool), each in groupby(shown, lambda held: (held.device.driver, held.device.pool))
            for found in [list(each)]
        ],
    }


def _state(held: HeldDevice) -> str:
    if held.blocked:
        return BLOCKED
    part = _part(held)
    return FREE if part <= 0 and not _counted(held) else TAKEN if part >= 1 else PARTLY


def _counted(held: HeldDevice) -> bool:
    return any(not holding.admin for holding in held.holdings)


def _part(held: HeldDevice) -> float:
    """How much of a device is taken, from 0 to 1: of its capacities the one of which least is left."""
    device = held.device
    if not _divided(device):
        return 1.0 - device.thousandths / WHOLE
    return max(
        (1.0 - device.free[name] / amount for name, amount in device.capacity.items() if amount and name in device.free), default=0.0
    )


def _divided(device: Device) -> bool:
    """True if several may have a part of the device."""
    return bool(device.free) or (device.share is not None and device.taken is not None)


def _cell(held: HeldDevice) -> Mapping[str, Any]:
    device = held.device
    return {
        "name": device.name,
        "model": device.model or "",
        "state": _state(held),
        "part": round(min(1.0, max(0.0, _part(held))), 3),
        "taints": list(device.taints),
        "left": [
            {"name": name, "free": device.free_of(name), "capacity": amount}
            for name, amount in sorted(device.capacity.items())
            if math.isfinite(amount)
        ],
        "holders": [_holder(holding) for holding in islice(held.holdings, MAX_HOLDERS_OF_DEVICE)],
        "moreHolders": max(0, len(held.holdings) - MAX_HOLDERS_OF_DEVICE),
    }


def _holder(holding: Holding) -> Mapping[str, Any]:
    return {
        "claim": holding.claim,
        "pods": list(holding.pods[:MAX_HOLDERS_OF_DEVICE]),
        "amounts": dict(holding.amounts),
        "admin": holding.admin,
        "inFlight": holding.in_flight,
        "supposed": holding.supposed,
    }
