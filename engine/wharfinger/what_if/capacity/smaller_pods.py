"""Pods that ask for less of a resource."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from wharfinger.model import objects
from wharfinger.model.objects import quantity
from wharfinger.model.objects.pod_view import PodView

_STEPS = (5, 2, 1)


def reductions(resource: str, wanted: int) -> tuple[int, ...]:
    """A quarter and a half of an amount, rounded down to one that people would choose; amounts in the scheduler's units."""
    round_down = _power_of_two if quantity.format_amount(resource, 1024) == "1Ki" else _one_two_five
    found = (round_down(wanted // share) or min(1, wanted - 1) for share in (4, 2))
    return tuple(dict.fromkeys(amount for amount in found if 0 < amount < wanted))


def _one_two_five(most: int) -> int:
    """The largest of 1, 2, 5, 10, 20, 50 … that is at most `most`; 0 if there is none."""
    if most < 1:
        return 0
    power = int(10 ** (len(str(most)) - 1))
    return next(step * power for step in _STEPS if step * power <= most)


def _power_of_two(most: int) -> int:
    return 1 << most.bit_length() - 1 if most > 0 else 0


def with_less(pod: PodView, resource: str, amount: int) -> PodView | None:
    """The pod with `amount` (in the scheduler's units) less of a resource, taken from its largest containers first.

    None where that cannot be said of its containers: sidecars and overhead keep what they ask for.
    """
    wanted = pod.requests.get(resource, 0) - amount
    spec = pod.object.spec
    made = replace(
        spec,
        containers=_lowered(spec.containers, resource, amount),
        init_containers=tuple(_at_most(container, resource, wanted) for container in spec.init_containers),
        resources=_less(spec.resources, resource, amount),
    )
    smaller = PodView(replace(pod.object, spec=made))
    return smaller if smaller.requests.get(resource, 0) == wanted else None


def _less(given: objects.ContainerResources | None, resource: str, amount: int) -> objects.ContainerResources | None:
    """Pod-level requests with less of a resource, if they name it."""
    if given is None or resource not in given.requests:
        return given
    return _asking(given, resource, max(quantity.amount(resource, given.requests[resource]) - amount, 0))


def _lowered(containers: Sequence[objects.Container], resource: str, amount: int) -> tuple[objects.Container, ...]:
    asked = [quantity.amount(resource, container.resources.requests.get(resource, "0")) for container in containers]
    made = list(containers)
    for index in sorted(range(len(asked)), key=lambda index: -asked[index]):
        taken = min(asked[index], amount)
        amount -= taken
        if taken:
            made[index] = replace(made[index], resources=_asking(made[index].resources, resource, asked[index] - taken))
    return tuple(made)


def _at_most(container: objects.Container, resource: str, most: int) -> objects.Container:
    """An init container that asks for no more than `most`; a sidecar stays as it is."""
    asked = container.resources.requests.get(resource, "0")
    if container.restart_policy == "Always" or quantity.amount(resource, asked) <= most:
        return container
    return replace(container, resources=_asking(container.resources, resource, most))


def _asking(given: objects.ContainerResources, resource: str, amount: int) -> objects.ContainerResources:
    text = quantity.format_amount(resource, amount)
    limits = {**given.limits, resource: text} if given.limits.get(resource) == given.requests[resource] else given.limits
    return replace(given, requests={**given.requests, resource: text}, limits=limits)
