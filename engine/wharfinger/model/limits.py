"""What a pod may use at most."""

from __future__ import annotations

from wharfinger.model import objects, requests
from wharfinger.model.quantity import nano_at


def pod_limits(pod: objects.Pod) -> dict[str, int]:
    """The limits of a pod in the scheduler's units; a resource that one container may use without limit is absent.

    Containers run side by side and init containers one after another before them, sidecars beside everything that follows, so
    limits add up as requests do (component-helpers/resource/helpers.go, PodLimits, Kubernetes 1.36, which however counts an absent
    limit as zero).
    """
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    bounded = set.intersection(*(set(container.resources.limits) for container in containers)) if containers else set()
    total = {name: _together(pod.spec, name) for name in bounded}
    if pod.spec.resources is not None:
        total |= {name: nano_at(text, "spec.resources.limits", name) for name, text in pod.spec.resources.limits.items()}
    for name, text in pod.spec.overhead.items():
        if name in total:
            total[name] += nano_at(text, "spec.overhead", name)
    return requests.in_scheduler_units(total)


def _together(spec: objects.PodSpec, resource: str) -> int:
    sidecars = peak = 0
    for container in spec.init_containers:
        limit = _limit(container, resource)
        if requests.is_sidecar(container):
            sidecars += limit
            limit = 0
        peak = max(peak, sidecars + limit)
    return max(peak, sidecars + sum(_limit(container, resource) for container in spec.containers))


def _limit(container: objects.Container, resource: str) -> int:
    return nano_at(container.resources.limits[resource], f"container {container.name!r} resources.limits", resource)
