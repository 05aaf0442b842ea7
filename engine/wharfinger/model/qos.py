"""Quality-of-service class of a pod, from its cpu and memory requests and limits (apis/core/v1/helper/qos, Kubernetes 1.36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wharfinger.model import objects, quantity

_COUNTED = ("cpu", "memory")


def compute_qos(spec: objects.PodSpec) -> str:
    """Guaranteed (limits everywhere, equal to the requests), BestEffort (nothing asked for) or Burstable."""
    parts: list[objects.ContainerResources]
    if spec.resources is not None:
        parts = [spec.resources]
    else:
        parts = [container.resources for container in (*spec.containers, *spec.init_containers)]
    requests = _sum(part.requests for part in parts)
    limits = _sum(part.limits for part in parts)
    if not requests and not limits:
        return "BestEffort"
    limited = all(_positive(part.limits).keys() == set(_COUNTED) for part in parts if spec.resources is None or part.limits)
    matched = all(limits.get(name) == amount for name, amount in requests.items()) and len(requests) == len(limits)
    return "Guaranteed" if limited and matched else "Burstable"


def _positive(quantities: Mapping[str, str]) -> dict[str, int]:
    amounts = {name: quantity.nano(quantities[name]) for name in _COUNTED if name in quantities}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def _sum(lists: Iterable[Mapping[str, str]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in lists:
        for name, amount in _positive(one).items():
            total[name] = total.get(name, 0) + amount
    return total
