"""What the API server would have filled in before the scheduler sees a pod.

Objects taken from a cluster have been through this; manifests have not. Defaulting follows apis/core/v1/defaults.go and the admission
plugins Priority, RuntimeClass and DefaultTolerationSeconds, Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from wharfinger.model import objects, quantity, requests

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_EVICTION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_SECONDS = 300


class Admission:
    """Fills in defaults; `warnings` collects what could not be looked up."""

    def __init__(self, classes: Iterable[objects.PriorityClass] = (), runtimes: Iterable[objects.RuntimeClass] = ()) -> None:
        self._classes = {one.metadata.name: one for one in classes}
        self._runtimes = {one.metadata.name: one for one in runtimes}
        self.warnings: list[str] = []

    def admit(self, pod: objects.Pod) -> objects.Pod:
        """The pod with everything filled in that the API server would fill in."""
        spec = pod.spec
        spec = structs.replace(
            spec,
            containers=tuple(map(_requests_from_limits, spec.containers)),
            init_containers=tuple(map(_requests_from_limits, spec.init_containers)),
            tolerations=(*spec.tolerations, *_eviction_tolerations(spec.tolerations)),
            scheduler_name=spec.scheduler_name or "default-scheduler",
            service_account_name=spec.service_account_name or "default",
        )
        spec = structs.replace(spec, resources=_pod_level_requests(spec))
        where = objects.key_of(pod)
        return structs.replace(pod, spec=self._with_overhead(self._with_priority(spec, where), where))

    def _with_priority(self, spec: objects.PodSpec, where: str) -> objects.PodSpec:
        if spec.priority is not None:
            return spec
        name = spec.priority_class_name
        chosen = self._classes.get(name) if name else self._global_default()
        if chosen is not None:
            policy = spec.preemption_policy or chosen.preemption_policy
            return structs.replace(spec, priority=chosen.value, priority_class_name=chosen.metadata.name, preemption_policy=policy)
        if name and name not in SYSTEM_PRIORITIES:
            self._warn(f"pod {where}: there is no priority class {name!r} among the objects given; its priority is taken to be 0")
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
            self._warn(f"pod {where}: there is no runtime class {name!r} among the objects given; its overhead is taken to be nothing")
            return spec
        return structs.replace(spec, overhead=runtime.overhead.pod_fixed) if runtime.overhead is not None else spec

    def _warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)


def _requests_from_limits(container: objects.Container) -> objects.Container:
    """A limit without a request is also the request."""
    asked = container.resources
    if not asked.limits.keys() - asked.requests.keys():
        return container
    return structs.replace(container, resources=structs.replace(asked, requests={**asked.limits, **asked.requests}))


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
    """A pod stays five minutes on a node that is not ready or unreachable, unless it says otherwise."""
    given = tuple(given)
    return [
        objects.Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=_EVICTION_SECONDS)
        for key in _EVICTION_TAINTS
        if not any(one.key in {key, ""} and one.effect in {"NoExecute", ""} for one in given)
    ]
