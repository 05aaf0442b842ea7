"""The readiness of the devices of an allocated claim to be bound, by the conditions that their driver reports.

Source: plugins/dynamicresources/dynamicresources.go, Kubernetes 1.36 (`isClaimReadyForBinding`, `isClaimTimeout`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from wharfinger.model import objects


def deadline_and_broken(allocated: Sequence[tuple[int, objects.ResourceClaim]], now: float, timeout: float) -> tuple[float, frozenset[int]]:
    """When the next claim is no longer waited for, and the indexes of claims whose devices failed or were not ready in time."""
    deadline = math.inf
    broken = set()
    for index, claim in allocated:
        ready = readiness(claim)
        if ready is None:
            broken.add(index)
        elif not ready and (limit := ready_by(claim, timeout)) is not None:
            if now > limit:
                broken.add(index)
            else:
                deadline = min(deadline, limit)
    return deadline, frozenset(broken)


def ready_by(claim: objects.ResourceClaim, timeout: float) -> float | None:
    """The time (seconds since 1970) until which the devices of a claim must be ready; `timeout` in seconds; None for no limit."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return None
    if not any(result.binding_conditions for result in allocation.devices.results):
        return None
    return allocation.allocation_timestamp.timestamp() + timeout


def readiness(claim: objects.ResourceClaim) -> bool | None:
    """True if the devices of a claim are ready to be bound, None if one has failed (`isClaimReadyForBinding`)."""
    allocation = claim.status.allocation
    for result in () if allocation is None else allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = _conditions(claim, result)
        if conditions is None:
            return False
        if any(conditions.get(kind) == "True" for kind in result.binding_failure_conditions):
            return None
        if any(conditions.get(kind) != "True" for kind in result.binding_conditions):
            return False
    return True


def _conditions(claim: objects.ResourceClaim, result: objects.AllocatedDevice) -> Mapping[str, str] | None:
    """The status of each condition that the driver reports of an allocated device; None if it reports nothing."""
    for device in claim.status.devices:
        if (device.driver, device.pool, device.device) == (result.driver, result.pool, result.device):
            return {condition.type: condition.status for condition in device.conditions}
    return None
