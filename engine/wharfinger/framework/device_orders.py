"""Which devices of a node come first, by the policies that govern a pod (`prefer device`).

Whoever chooses devices (shares of GPUs, claims) asks `preferred` for the order in which to try devices that are allowed alike. Policies are
asked sorted by name, their preferences in the order of the text: each orders what those before it leave equal, and at last devices keep
their own order. No policy makes a device allowed that is not.
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
    """The policies of a chain that speak of devices, sorted by name; kept in what an attempt shares."""

    __slots__ = ("_policies",)

    def __init__(self, policies: Sequence[CompiledPolicy]) -> None:
        self._policies = policies

    def order(self, attempt: Attempt, row: int) -> Sequence[Device] | None:
        """The devices of a node, those that come first at the front; None if no governing policy speaks of them."""
        pod, snapshot = attempt.pod, attempt.snapshot
        governing = [BoundPolicy(policy, pod, snapshot) for policy in self._policies if policy.governs(pod, snapshot.now)]
        keys = [key for bound in governing for key in bound.device_order(snapshot, row)]
        if not keys:
            return None
        devices = snapshot.devices.on(row)
        return [devices[place] for place in np.lexsort([-key for key in reversed(keys)]).tolist()]


def shared_by(policies: Sequence[CompiledPolicy]) -> Shared:
    """What extension points share for a template of pods, empty but for the order of devices where one of the policies speaks of it."""
    shared, speaking = Shared(), [policy for policy in policies if policy.device_preferences]
    if speaking:
        shared.once(DeviceOrders, lambda: DeviceOrders(speaking))
    return shared


def preferred(attempt: Attempt, row: int) -> Sequence[Device] | None:
    """The devices of a node in the order of the policies that govern the pod; None if none of them speaks of devices."""
    orders = attempt.shared.made(DeviceOrders)
    return None if orders is None else orders.order(attempt, row)
