"""Which devices of a node come first, by the policies that govern a pod (`prefer device`).

Plugins that choose devices (for shares of GPUs and for claims) call `preferred` for the order in which to try the allowed devices. Policies
apply sorted by name, their preferences in the order of the text: each orders what those before it leave equal, and at last devices keep
their own order. No policy allows a device that is not allowed without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.compiler.bound import BoundPolicy
from wharfinger.framework.prepared import Attempt, Shared

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.model.devices.device import Device


class DeviceOrders:
    """The policies of a chain that have preferences for devices, sorted by name; kept in what an attempt shares."""

    __slots__ = ("_policies",)

    def __init__(self, policies: Sequence[CompiledPolicy]) -> None:
        self._policies = policies

    def order(self, attempt: Attempt, row: int) -> Sequence[Device] | None:
        """The devices of a node, those that come first at the front; None if no governing policy has a preference."""
        pod, snapshot = attempt.pod, attempt.snapshot
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
