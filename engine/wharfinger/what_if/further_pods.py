"""Pods like those that a question is about: those that workloads would have with more replicas, further groups, and smaller pods."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wharfinger.errors import UsageError
from wharfinger.groups.membership import GroupIndex
from wharfinger.model import objects
from wharfinger.model.objects import quantity
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode, workloads
from wharfinger.model.state.cluster_state import ClusterState

_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]+)")
_POD_NAME = "statefulset.kubernetes.io/pod-name"
_STEPS = (5, 2, 1)
_INDEXES = ("apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index")


class FurtherPod(NamedTuple):
    """A pod that a workload would have with more replicas, and the claims that a StatefulSet would make with it."""

    pod: PodView
    claims: tuple[objects.PersistentVolumeClaim, ...] = ()


class WorkloadPods(Struct, frozen=True, kw_only=True):
    """The pods of one workload, or bare pods of one template; `pods` is never empty. `name` is `namespace/name`."""

    name: str
    pods: tuple[PodView, ...]

    def further(self, state: ClusterState) -> Iterator[FurtherPod]:
        """Further pods without end, equal to the last one apart from numbers in texts; names that exist are left out."""
        last = self.pods[-1]
        found = _NUMBERED.fullmatch(last.name)
        stem, first = (last.name, 0) if found is None else (found["stem"], int(found["number"]))
        taken = {pod.key for pod in self.pods}
        return _numbered(last, stem, first + 1, taken, state)

    @property
    def are_equal(self) -> bool:
        """True if all pods, and all further ones, are of one template."""
        last = self.pods[-1]
        return not _has_numbers(last) and all(pod.template == last.template for pod in self.pods)


def grouped(pods: Sequence[PodView]) -> list[WorkloadPods]:
    """The pods by workload, in the order of each one's first pod. UsageError for pods of a DaemonSet, which has no further ones."""
    groups: dict[object, list[PodView]] = {}
    for pod in pods:
        owner = pod.controller
        if owner is not None and owner.kind == "DaemonSet":
            raise UsageError(
                f"DaemonSet {pod.namespace}/{owner.name} has one pod for each node, so there is no room to count; "
                "`wharf dry-run -f` says where its pods fit"
            )
        key = (pod.template, pod.node_name) if owner is None else (pod.namespace, owner.kind, owner.name)
        groups.setdefault(key, []).append(pod)
    return [WorkloadPods(name=_name(found[0]), pods=tuple(found)) for found in groups.values()]


def _name(pod: PodView) -> str:
    """The workload of a pod, as far as names show it."""
    owner = pod.controller
    if owner is None:
        return pod.key
    found = _NUMBERED.fullmatch(pod.name)
    return f"{pod.namespace}/{owner.name if found is None else found['stem']}"


def _numbered(pod: PodView, stem: str, first: int, taken: Container[str], state: ClusterState) -> Iterator[FurtherPod]:
    template = None if _has_numbers(pod) else pod.template
    for number in itertools.count(first):
        made = _renamed(pod, f"{stem}-{number}", number, template)
        if made.key not in taken and not state.is_placed(made.uid):
            yield FurtherPod(made, tuple(_claims(pod, made, state)))


def _has_numbers(pod: PodView) -> bool:
    """True if pods of the workload differ in more than their names."""
    volumes = pod.object.spec.volumes
    numbered = {_POD_NAME, *_INDEXES}
    return bool(numbered & (pod.labels.keys() | pod.annotations.keys())) or any(
        volume.ephemeral is not None or _claim_of(volume, pod).endswith(f"-{pod.name}") for volume in volumes
    )


def _renamed(pod: PodView, name: str, number: int, template: bytes | None) -> PodView:
    own = pod.object
    given = own.metadata.uid
    uid = given.removesuffix(pod.name) + name if given.endswith(pod.name) else f"{given}/{name}" if given else ""
    status = _without_claims(own.status)
    if template is not None:
        return PodView(replace(own, metadata=replace(own.metadata, name=name, uid=uid), status=status), template)
    changed = {_POD_NAME: name, **dict.fromkeys(_INDEXES, str(number))}
    labels, annotations = ({key: changed.get(key, value) for key, value in texts.items()} for texts in (pod.labels, pod.annotations))
    volumes = tuple(_of(volume, pod.name, name) for volume in own.spec.volumes)
    metadata = replace(own.metadata, name=name, uid=uid, labels=labels, annotations=annotations)
    return PodView(replace(own, metadata=metadata, spec=replace(own.spec, volumes=volumes), status=status))


def _without_claims(status: objects.PodStatus) -> objects.PodStatus:
    """The status of a pod for which no claims for devices were made yet."""
    return replace(status, resource_claim_statuses=()) if status.resource_claim_statuses else status


def _claim_of(volume: objects.Volume, pod: PodView) -> str:
    """The claim of a volume of a pod, "" for none."""
    if volume.ephemeral is not None:
        return f"{pod.name}-{volume.name}"
    return "" if volume.persistent_volume_claim is None else volume.persistent_volume_claim.claim_name


def _of(volume: objects.Volume, before: str, name: str) -> objects.Volume:
    """The volume with the claim of another pod of the workload."""
    claim = volume.persistent_volume_claim
    if claim is None or not claim.claim_name.endswith(f"-{before}"):
        return volume
    return replace(volume, persistent_volume_claim=replace(claim, claim_name=claim.claim_name.removesuffix(before) + name))


def _claims(pod: PodView, made: PodView, state: ClusterState) -> Iterator[objects.PersistentVolumeClaim]:
    """The claims of a pod's volumes that do not exist yet, like those of the pod that it was made from."""
    for old, new in zip(pod.object.spec.volumes, made.object.spec.volumes, strict=True):
        before, name = _claim_of(old, pod), _claim_of(new, made)
        if name == before or state.objects.get(objects.PersistentVolumeClaim, name, made.namespace) is not None:
            continue
        model = state.objects.get(objects.PersistentVolumeClaim, before, pod.namespace)
        if model is not None:
            owners = (workloads.owner_of_claims(made.object),) if new.ephemeral is not None else ()
            metadata = objects.ObjectMeta(name=name, namespace=made.namespace, labels=model.metadata.labels, owner_references=owners)
            yield objects.PersistentVolumeClaim(metadata=metadata, spec=replace(model.spec, volume_name=""))


# ── groups that are placed together ──


class FurtherGroup(Struct, frozen=True, kw_only=True):
    """A group like another one: its key, its members, and the PodGroup that it needs (None where labels or a policy make the group)."""

    key: str
    pods: tuple[PodView, ...]
    pod_group: objects.PodGroup | objects.CoschedulingPodGroup | None


def further_groups(index: GroupIndex, key: str, pods: Sequence[PodView], state: ClusterState) -> Iterator[FurtherGroup]:
    """Groups without end like the one of that key, which has these members; names that exist already are left out.

    Labels, annotations, affinity and spread constraints of a member that have the name of the group get the new name.
    """
    namespace, _, name = key.partition("/")
    found = _NUMBERED.fullmatch(name)
    stem, number = (name, 0) if found is None else (found["stem"], int(found["number"]))
    model = state.objects.get(objects.PodGroup, name, namespace) or state.objects.get(objects.CoschedulingPodGroup, name, namespace)
    while True:
        number += 1
        other = f"{stem}-{number}"
        own = f"{namespace}/{other}"
        if index.members(own):
            continue
        made = tuple(_member_of(pod, place, name, other) for place, pod in enumerate(pods))
        yield FurtherGroup(
            key=own, pods=made, pod_group=None if model is None else replace(model, metadata=replace(model.metadata, name=other))
        )


def _member_of(pod: PodView, place: int, name: str, other: str) -> PodView:
    """A member of another group; its uid is its own."""
    own = pod.object
    spec, metadata = own.spec, own.metadata
    changed = replace(
        spec,
        scheduling_group=None if spec.scheduling_group is None else replace(spec.scheduling_group, pod_group_name=other),
        affinity=_with_name(spec.affinity, name, other),
        topology_spread_constraints=tuple(_with_name(each, name, other) for each in spec.topology_spread_constraints),
    )
    texts = {
        field: {key: other if value == name else value for key, value in getattr(metadata, field).items()}
        for field in ("labels", "annotations")
    }
    identity = f"{other}-{place}"
    made = replace(metadata, name=identity, uid=f"{metadata.uid}/{identity}", **texts)
    return PodView(replace(own, metadata=made, spec=changed, status=_without_claims(own.status)))


def _with_name(value: Any, name: str, other: str) -> Any:
    """A part of a pod in which each text that is the one name is the other."""
    if value is None:
        return None
    plain = msgspec.to_builtins(value)
    changed = _replaced(plain, name, other)
    return value if changed == plain else decode.convert(changed, type(value))


def _replaced(value: Any, name: str, other: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(member, name, other) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(member, name, other) for member in value]
    return other if value == name else value


# ── pods that request less of a resource ──


def reductions(resource: str, wanted: int) -> tuple[int, ...]:
    """A quarter and a half of an amount, rounded down to one that people would choose; amounts in the scheduler's units."""
    round_down = _power_of_two if quantity.format_amount(resource, 1024) == "1Ki" else _round_amount
    found = (round_down(wanted // share) or min(1, wanted - 1) for share in (4, 2))
    return tuple(dict.fromkeys(amount for amount in found if 0 < amount < wanted))


def _round_amount(limit: int) -> int:
    """The largest of 1, 2, 5, 10, 20, 50 … that is at most `limit`; 0 if there is none."""
    if limit < 1:
        return 0
    power = int(10 ** (len(str(limit)) - 1))
    return next(step * power for step in _STEPS if step * power <= limit)


def _power_of_two(limit: int) -> int:
    return 1 << limit.bit_length() - 1 if limit > 0 else 0


def with_less(pod: PodView, resource: str, amount: int) -> PodView | None:
    """The pod with `amount` (in the scheduler's units) less of a resource, taken from its largest containers first.

    None if its containers cannot have less: sidecars and overhead keep their requests.
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


def _at_most(container: objects.Container, resource: str, limit: int) -> objects.Container:
    """An init container that requests at most `limit`; a sidecar is unchanged."""
    asked = container.resources.requests.get(resource, "0")
    if container.restart_policy == "Always" or quantity.amount(resource, asked) <= limit:
        return container
    return replace(container, resources=_asking(container.resources, resource, limit))


def _asking(given: objects.ContainerResources, resource: str, amount: int) -> objects.ContainerResources:
    text = quantity.format_amount(resource, amount)
    limits = {**given.limits, resource: text} if given.limits.get(resource) == given.requests[resource] else given.limits
    return replace(given, requests={**given.requests, resource: text}, limits=limits)
