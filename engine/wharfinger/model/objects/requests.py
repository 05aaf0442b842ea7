"""The requests, limits and QoS class of a pod, and the kinds of resource names, exactly as in Kubernetes 1.36.

Containers run at the same time. Init containers run in sequence before them; sidecars (init containers with restartPolicy Always) keep
running once started. A pod needs the larger of "all containers and sidecars" and "the largest step of initialisation". Pod-level requests
replace that sum, and overhead is added. For a pod on a node the kubelet's report counts too: during a resize the largest of desired,
allocated and actuated requests is used; only the latter two if the resize is infeasible.

All sums are in nanos (see `quantity`) because Kubernetes rounds after adding. Sources:
component-helpers/resource/helpers.go (PodRequests, PodLimits), scheduler/framework/types.go (CalculateResource),
plugins/noderesources/resource_allocation.go (calculatePodResourceRequest), apis/core/v1/helper and helper/qos, scheduler/util.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.objects import quantity
from wharfinger.model.objects.quantity import nano_at

NATIVE = ("cpu", "memory", "ephemeral-storage")
"""The resources that every node has; they are the first columns of resources, in this order."""
NATIVE_BY_FIELD = {name.replace("-", "_"): name for name in NATIVE}
"""These resources by the names that fields of policies and of their tests have."""

DEFAULT_CPU = 100 * 10**6  # nanos: a container without a cpu request counts as 100m in scores
DEFAULT_MEMORY = 200 * 1024 * 1024 * quantity.NANO  # and as 200 MiB without a memory request
NON_ZERO = {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY}
_COUNTED = ("cpu", "memory")  # for the QoS class

_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
# An extended resource must still be a qualified name with "requests." before it, which a quota calls it by.
_QUALIFIED = re.compile(rf"(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?\Z")

MAX_AMOUNT = 2**53
"""The upper limit of a pod's request, a node's amount and a node's sum of requests, in the scheduler's units (8 PiB of memory).

Kubernetes' sums for a node overflow if pods placed without a scheduler request exabytes; these sums do not, and are exact as floating-point
numbers.
"""

ResourceNanos = dict[str, int]


def pod_requests(
    pod: objects.Pod, *, use_status: bool = False, missing: Mapping[str, int] | None = None, pod_level: bool = True
) -> ResourceNanos:
    """The requests of a pod in nanos by resource name.

    `use_status` includes the kubelet's allocated and actuated resources, as for pods on a node. `missing` are the default requests of a
    container for resources that it does not name. Without `pod_level` the pod-level requests are ignored. InvalidObject with the name of
    the container if a quantity cannot be read.
    """
    infeasible = use_status and resize_infeasible(pod)
    states = _container_states(pod) if use_status else {}
    total = _containers_total(pod.spec, states, infeasible=infeasible, missing=missing or {})
    if pod_level:
        _replace_by_pod_level(total, pod, use_status=use_status, infeasible=infeasible)
    _add(total, _nanos(pod.spec.overhead, "spec", field="overhead"))
    return total


def _containers_total(
    spec: objects.PodSpec, states: Mapping[str, objects.ContainerStatus], *, infeasible: bool, missing: Mapping[str, int]
) -> ResourceNanos:
    def needs(container: objects.Container, state: objects.ContainerStatus | None) -> ResourceNanos:
        return {**missing, **_effective(container, state, infeasible=infeasible)}

    total: ResourceNanos = {}
    for container in spec.containers:
        _add(total, needs(container, states.get(container.name)))
    sidecars: ResourceNanos = {}
    peak: ResourceNanos = {}
    for container in spec.init_containers:
        if is_sidecar(container):
            need = needs(container, states.get(container.name))
            _add(total, need)
            _add(sidecars, need)
            _raise_to(peak, sidecars)
        else:
            moment = needs(container, None)
            _add(moment, sidecars)
            _raise_to(peak, moment)
    _raise_to(total, peak)
    return total


def _effective(container: objects.Container, state: objects.ContainerStatus | None, *, infeasible: bool) -> ResourceNanos:
    wanted = _nanos(container.resources.requests, "container", container.name)
    if state is None or state.resources is None:
        return wanted
    actuated = _nanos(state.resources.requests, "status of container", container.name)
    allocated = _nanos(state.allocated_resources, "status of container", container.name, "allocatedResources")
    return _largest([actuated, allocated] if infeasible else [wanted, actuated, allocated])


def _replace_by_pod_level(total: ResourceNanos, pod: objects.Pod, *, use_status: bool, infeasible: bool) -> None:
    if pod.spec.resources is None:
        return
    wanted = _nanos(pod.spec.resources.requests, "spec")
    effective = wanted
    if use_status and pod.status.resources is not None:
        actuated = _nanos(pod.status.resources.requests, "status")
        allocated = _nanos(pod.status.allocated_resources, "status", field="allocatedResources")
        effective = _largest([actuated, allocated] if infeasible else [wanted, actuated, allocated])
    for name in wanted:
        if is_pod_level(name):
            total[name] = effective.get(name, 0)


def is_pod_level(name: str) -> bool:
    """True for the resources of pod-level requests: cpu, memory, hugepages-*."""
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def is_sidecar(container: objects.Container) -> bool:
    """True for an init container that keeps running together with the containers."""
    return container.restart_policy == "Always"


def resize_infeasible(pod: objects.Pod) -> bool:
    """True if the kubelet reports that the requested resize is impossible on this node."""
    pending = next((condition for condition in pod.status.conditions if condition.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def has_pod_level_requests(pod: objects.Pod) -> bool:
    """True if pod-level requests replace the sum of the containers for at least one resource."""
    return pod.spec.resources is not None and any(is_pod_level(name) for name in pod.spec.resources.requests)


def non_zero_defaults(pod: objects.Pod, requests: Mapping[str, int]) -> Mapping[str, int]:
    """The default requests of containers in the non-zero sums of a node.

    With pod-level requests, only for resources that are not in `requests`.
    """
    if not has_pod_level_requests(pod):
        return NON_ZERO
    return {name: amount for name, amount in NON_ZERO.items() if name not in requests}


def listing_order(name: str) -> tuple[int, str]:
    """A key that sorts resources: cpu, memory, ephemeral-storage, then the others by name."""
    return (NATIVE.index(name) if name in NATIVE else len(NATIVE), name)


def is_counted(name: str) -> bool:
    """True for resources that the scheduler counts: cpu, memory, ephemeral-storage, huge pages, attachable volumes, names with a domain."""
    return name in NATIVE or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_extended(name: str) -> bool:
    """True if it is an extended resource, such as `nvidia.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.") and _QUALIFIED.match(name) is not None


def is_scalar(name: str) -> bool:
    """True for Kubernetes' scalar resources: extended resources, huge pages and attachable volumes."""
    return is_extended(name) or name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name


def in_scheduler_units(nanos: Mapping[str, int]) -> dict[str, int]:
    """Requests in the scheduler's units (cpu in millicores, others in whole units), without resources that it does not count."""
    return {
        name: min(quantity.nanos_to_milli(amount) if name == "cpu" else quantity.nanos_to_value(amount), MAX_AMOUNT)
        for name, amount in nanos.items()
        if is_counted(name)
    }


def cpu_and_memory(nanos: Mapping[str, int]) -> tuple[int, int]:
    """(cpu in millicores, memory in bytes)."""
    return min(quantity.nanos_to_milli(nanos.get("cpu", 0)), MAX_AMOUNT), min(quantity.nanos_to_value(nanos.get("memory", 0)), MAX_AMOUNT)


def _container_states(pod: objects.Pod) -> dict[str, objects.ContainerStatus]:
    return {state.name: state for state in (*pod.status.container_statuses, *pod.status.init_container_statuses)}


def _nanos(quantities: Mapping[str, str], owner: str, name: str = "", field: str = "resources.requests") -> ResourceNanos:
    try:
        return {resource: quantity.nano(text) for resource, text in quantities.items()}
    except InvalidObject as error:
        where = f"{owner} {name!r} {field}" if name else f"{owner}.{field}"
        raise InvalidObject(f"{where}: {error}") from None


def _add(total: ResourceNanos, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(peak: ResourceNanos, moment: Mapping[str, int]) -> None:
    for name, amount in moment.items():
        if amount > peak.get(name, amount - 1):
            peak[name] = amount


def _largest(lists: Iterable[Mapping[str, int]]) -> ResourceNanos:
    largest: ResourceNanos = {}
    for one in lists:
        _raise_to(largest, one)
    return largest


def pod_limits(pod: objects.Pod) -> dict[str, int]:
    """The limits of a pod in the scheduler's units; a resource without a limit in some container is absent.

    Limits add up as requests do: containers run at the same time, init containers in sequence before them, and sidecars together with
    everything after them (component-helpers/resource/helpers.go, PodLimits, Kubernetes 1.36, which however counts an absent limit as zero).
    """
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    bounded = set.intersection(*(set(container.resources.limits) for container in containers)) if containers else set()
    total = {name: _together(pod.spec, name) for name in bounded}
    if pod.spec.resources is not None:
        total |= {name: nano_at(text, "spec.resources.limits", name) for name, text in pod.spec.resources.limits.items()}
    for name, text in pod.spec.overhead.items():
        if name in total:
            total[name] += nano_at(text, "spec.overhead", name)
    return in_scheduler_units(total)


def _together(spec: objects.PodSpec, resource: str) -> int:
    sidecars = peak = 0
    for container in spec.init_containers:
        limit = _limit(container, resource)
        if is_sidecar(container):
            sidecars += limit
            limit = 0
        peak = max(peak, sidecars + limit)
    return max(peak, sidecars + sum(_limit(container, resource) for container in spec.containers))


def _limit(container: objects.Container, resource: str) -> int:
    return nano_at(container.resources.limits[resource], f"container {container.name!r} resources.limits", resource)


def compute_qos(spec: objects.PodSpec) -> str:
    """Guaranteed (limits everywhere, equal to the requests), BestEffort (no requests and limits) or Burstable."""
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
