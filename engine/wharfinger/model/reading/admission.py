"""The defaults that the API server gives to pods of manifests: those of its types, and those of its admission plugins.

Defaulting follows apis/core/v1/defaults.go and the admission plugins LimitRanger, Priority, RuntimeClass and DefaultTolerationSeconds,
Kubernetes 1.36. What these plugins refuse is not looked for: a pod above the maximum of a LimitRange gets an answer here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from wharfinger.model import objects
from wharfinger.model.objects import quantity, requests

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_EVICTION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_SECONDS = 300


class Admission:
    """Fills in defaults; `warnings` collects references to objects that were not found."""

    def __init__(
        self,
        classes: Iterable[objects.PriorityClass] = (),
        runtimes: Iterable[objects.RuntimeClass] = (),
        limit_ranges: Iterable[objects.LimitRange] = (),
    ) -> None:
        self._classes = {one.metadata.name: one for one in classes}
        self._runtimes = {one.metadata.name: one for one in runtimes}
        self._container_defaults = _container_defaults(limit_ranges)
        self.warnings: list[str] = []
        self._missing: set[tuple[str, str]] = set()
        self._latest: tuple[objects.PodSpec, str, objects.PodSpec] | None = None

    def admit(self, pod: objects.Pod) -> objects.Pod:
        """The pod with everything filled in that the API server would fill in."""
        spec, namespace = pod.spec, pod.metadata.namespace or "default"
        if self._latest is None or self._latest[0] is not spec or self._latest[1] != namespace:  # pods of one template share their spec
            self._latest = (spec, namespace, self._filled_in(spec, namespace, objects.key_of(pod)))
        return structs.replace(pod, spec=self._latest[2])

    def _filled_in(self, spec: objects.PodSpec, namespace: str, where: str) -> objects.PodSpec:
        spec = structs.replace(
            spec,
            containers=tuple(map(_requests_from_limits, spec.containers)),
            init_containers=tuple(map(_requests_from_limits, spec.init_containers)),
            tolerations=(*spec.tolerations, *_eviction_tolerations(spec.tolerations)),
            scheduler_name=spec.scheduler_name or objects.DEFAULT_SCHEDULER,
            service_account_name=spec.service_account_name or "default",
        )
        spec = structs.replace(spec, resources=_pod_level_requests(spec))  # of the containers as they are before LimitRanger
        for defaults in self._container_defaults.get(namespace, ()):
            spec = defaults.given_to(spec)
        return self._with_overhead(self._with_priority(spec, where), where)

    def _with_priority(self, spec: objects.PodSpec, where: str) -> objects.PodSpec:
        if spec.priority is not None:
            return spec
        name = spec.priority_class_name
        chosen = self._classes.get(name) if name else self._global_default()
        if chosen is not None:
            policy = spec.preemption_policy or chosen.preemption_policy
            return structs.replace(spec, priority=chosen.value, priority_class_name=chosen.metadata.name, preemption_policy=policy)
        if name and name not in SYSTEM_PRIORITIES:
            self._warn("priority class", name, f"the priority of its pods, {where} among them, is taken to be 0")
        return structs.replace(spec, priority=SYSTEM_PRIORITIES.get(name, 0))

    def _global_default(self) -> objects.PriorityClass | None:
        defaults = [one for one in self._classes.values() if one.global_default]
        return min(defaults, key=lambda one: one.value, default=None)

    def _with_overhead(self, spec: objects.PodSpec, where: str) -> objects.PodSpec:
        name = spec.runtime_class_name
        if not name or spec.overhead:
            return spec
        runtime = self._runtimes.get(name)
        if runtime is None:
            self._warn("runtime class", name, f"the overhead of its pods, {where} among them, is taken to be nothing")
            return spec
        return structs.replace(spec, overhead=runtime.overhead.pod_fixed) if runtime.overhead is not None else spec

    def _warn(self, kind: str, name: str, consequence: str) -> None:
        """Warn about a missing class once, for any number of its pods."""
        if (kind, name) not in self._missing:
            self._missing.add((kind, name))
            self.warnings.append(f"there is no {kind} {name!r} among the objects given; {consequence}")


class _ContainerDefaults(Struct, frozen=True):
    """The requests and limits that one LimitRange gives to containers that have none."""

    requests: Mapping[str, str]
    limits: Mapping[str, str]

    def given_to(self, spec: objects.PodSpec) -> objects.PodSpec:
        """The spec with these requests and limits wherever a container has none of its own (mergePodResourceRequirements)."""
        return structs.replace(
            spec,
            containers=tuple(map(self._in_container, spec.containers)),
            init_containers=tuple(map(self._in_container, spec.init_containers)),
        )

    def _in_container(self, container: objects.Container) -> objects.Container:
        own = container.resources
        resources = structs.replace(own, requests={**self.requests, **own.requests}, limits={**self.limits, **own.limits})
        return structs.replace(container, resources=resources)


def _container_defaults(limit_ranges: Iterable[objects.LimitRange]) -> Mapping[str, list[_ContainerDefaults]]:
    """The defaults for containers by namespace. The first LimitRange by name counts most; Kubernetes has no order among several."""
    by_key = {objects.key_of(one): one for one in limit_ranges}
    found: dict[str, list[_ContainerDefaults]] = {}
    for key in sorted(by_key):
        asked: dict[str, str] = {}
        limits: dict[str, str] = {}
        for item in by_key[key].spec.limits:
            if item.type == "Container":
                limits |= item.max | item.default
                asked |= item.min | item.max | item.default | item.default_request
        if asked:
            found.setdefault(by_key[key].metadata.namespace or "default", []).append(_ContainerDefaults(requests=asked, limits=limits))
    return found


def _requests_from_limits(container: objects.Container) -> objects.Container:
    """A limit without a request is also the request."""
    resources = container.resources
    if not resources.limits.keys() - resources.requests.keys():
        return container
    return structs.replace(container, resources=structs.replace(resources, requests={**resources.limits, **resources.requests}))


def _pod_level_requests(spec: objects.PodSpec) -> objects.ContainerResources | None:
    """With pod-level limits, what has no pod-level request gets the containers' total, or failing that the limit."""
    given = spec.resources
    if given is None or not given.limits:
        return given
    total = requests.pod_requests(objects.Pod(spec=structs.replace(spec, resources=None, overhead={})))
    made = {
        name: _as_text(name, amount) for name, amount in total.items() if requests.is_pod_level(name) and not name.startswith("hugepages-")
    }
    limits = {name: text for name, text in given.limits.items() if requests.is_pod_level(name)}
    return structs.replace(given, requests={**limits, **made, **given.requests})


def _as_text(name: str, nanos: int) -> str:
    return quantity.format_milli(quantity.nanos_to_milli(nanos)) if name == "cpu" else str(quantity.nanos_to_value(nanos))


def _eviction_tolerations(given: Iterable[objects.Toleration]) -> list[objects.Toleration]:
    """The default tolerations: a pod stays five minutes on a node that is not ready or unreachable, unless it has its own."""
    given = tuple(given)
    return [
        objects.Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=_EVICTION_SECONDS)
        for key in _EVICTION_TAINTS
        if not any(one.key in {key, ""} and one.effect in {"NoExecute", ""} for one in given)
    ]
