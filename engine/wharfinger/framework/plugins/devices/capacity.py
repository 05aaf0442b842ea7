"""What a request consumes of the capacity of a device that may be shared.

A device may say, for each of its capacities, which amounts can be consumed: multiples of a step between two limits, or some values. What a
request wants is rounded up to such an amount; a request that names no amount gets the default, or all of it. Amounts are in nanos. Source:
`structured/internal/incubating/consumable_capacity.go`, Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wharfinger.model import objects
from wharfinger.model.objects import quantity


@dataclass(frozen=True, slots=True)
class Portion:
    """What is consumed of one capacity: nanos, the text for the claim's status, and how much there is."""

    name: str
    nanos: int
    text: str
    there: int


def portions(wanted: Mapping[str, str], capacity: Mapping[str, objects.DeviceCapacity]) -> tuple[Portion, ...] | None:
    """What a request that wants these amounts consumes of each capacity of a device; None if the device cannot be had that way."""
    if not wanted.keys() <= capacity.keys():
        return None
    found = []
    for name, of in sorted(capacity.items()):
        text = _consumed(wanted.get(name), of)
        if of.request_policy is not None and _forbidden(text, of.request_policy):
            return None
        found.append(Portion(name, quantity.nano(text), text, quantity.nano(of.value)))
    return tuple(found)


def _consumed(wanted: str | None, of: objects.DeviceCapacity) -> str:
    policy = of.request_policy
    if wanted is None:
        return of.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _in_steps(wanted, policy.valid_range.min, policy.valid_range.step)
    return next((value for value in policy.valid_values if quantity.nano(wanted) <= quantity.nano(value)), wanted)


def _in_steps(wanted: str, least: str, step: str | None) -> str:
    """The lowest amount at or above what is wanted that is a number of steps above the least."""
    if quantity.nano(wanted) < quantity.nano(least):
        return least
    if step is None or not quantity.value(step):
        return wanted
    start, width = quantity.value(least), quantity.value(step)
    return canonical(start + -(-(quantity.value(wanted) - start) // width) * width)


def _forbidden(text: str, policy: objects.CapacityRequestPolicy) -> bool:
    amount = quantity.nano(text)
    if policy.default is not None and amount == quantity.nano(policy.default):
        return False
    if policy.valid_range is not None:
        most, step, least = policy.valid_range.max, policy.valid_range.step, policy.valid_range.min
        if most is not None and amount > quantity.nano(most):
            return True
        width = 0 if step is None else quantity.value(step)
        return width != 0 and (quantity.value(text) - quantity.value(least or "0")) % width != 0
    return bool(policy.valid_values) and all(amount != quantity.nano(value) for value in policy.valid_values)


def canonical(units: int) -> str:
    """A number of units as Kubernetes writes a computed quantity: with the largest suffix that loses nothing, binary from 1024 on."""
    if units >= 1024:
        return quantity.format_bytes(units)
    return f"{units // 1000}k" if units and units % 1000 == 0 else str(units)
