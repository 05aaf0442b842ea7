"""Claims for devices in a dry run: the writes of the controller and the scheduler between two decisions.

A pod that names a ResourceClaimTemplate gets a claim made of it, as by the controller of Kubernetes. The allocations of a decision are
written to the claims, which are reserved for the pod. So these devices are taken for the next pod. When a pod leaves, its reservations are
removed, and a claim that is reserved for no pod loses its devices, as by the same controller. A claim that was made of a template stays for
the pod that is created again in its place. Source: pkg/controller/resourceclaim/controller.go, Kubernetes 1.36.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from wharfinger.framework.plugins.devices import extended_resources
from wharfinger.framework.plugins.devices.pod_claims import made_for
from wharfinger.framework.prepared import ClaimAllocation
from wharfinger.model import objects
from wharfinger.model.devices.allocated import consumer_of, with_allocation, with_reservation
from wharfinger.model.objects.devices import EXTENDED_RESOURCE_CLAIM
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

Put = Callable[[objects.AnyObject], None]
"""Adds or replaces an object of a state."""


def with_made_claims(state: ClusterState, pod: PodView, put: Put | None = None) -> PodView:
    """The pod with a claim in `state` for each template that it names; the pod itself if none has to be made.

    `put` adds the claims, by default `state.put`.
    """
    if not pod.object.spec.resource_claims:
        return pod
    made = {status.name for status in pod.object.status.resource_claim_statuses}
    statuses = []
    for use in pod.object.spec.resource_claims:
        if use.resource_claim_template_name is None or use.name in made:
            continue
        template = state.objects.get(objects.ResourceClaimTemplate, use.resource_claim_template_name, pod.namespace)
        if template is not None:
            claim, is_new = _new_claim(state, pod, use.name, template)
            if is_new:
                (put or state.put)(claim)
            statuses.append(objects.PodResourceClaimStatus(name=use.name, resource_claim_name=claim.metadata.name))
    if not statuses:
        return pod
    status = replace(pod.object.status, resource_claim_statuses=(*pod.object.status.resource_claim_statuses, *statuses))
    return PodView(replace(pod.object, status=status), pod.template)


def missing_templates(state: ClusterState, pods: Iterable[PodView]) -> list[str]:
    """A sentence for each claim template that pods name and that does not exist; no controller makes their claims."""
    named = {
        (pod.namespace, use.resource_claim_template_name): pod.key
        for pod in reversed([*pods])
        for use in pod.object.spec.resource_claims
        if use.resource_claim_template_name is not None
    }
    return [
        f"pod {pod}: there is no ResourceClaimTemplate {namespace}/{name} among the objects given; no claim can be made of it"
        for (namespace, name), pod in named.items()
        if state.objects.get(objects.ResourceClaimTemplate, name, namespace) is None
    ]


def _new_claim(state: ClusterState, pod: PodView, name: str, template: objects.ResourceClaimTemplate) -> tuple[objects.ResourceClaim, bool]:
    """(the claim of a pod under a name that no claim of others has, whether it is a new one)."""
    own = f"{pod.name}-{name}"
    for claim_name in itertools.chain([own], (f"{own}-{number}" for number in itertools.count(1))):
        known = state.objects.get(objects.ResourceClaim, claim_name, pod.namespace)
        if known is None:
            break
        if made_for(known, pod) and any(owner.name == pod.name for owner in known.metadata.owner_references):
            return known, False
    meta = template.spec.metadata
    owner = objects.OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.object.metadata.uid, controller=True)
    metadata = objects.ObjectMeta(
        name=claim_name,
        namespace=pod.namespace,
        uid=f"{pod.uid}/{name}",
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=(owner,),
    )
    return objects.ResourceClaim(metadata=metadata, spec=template.spec.spec), True


def write_claims(state: ClusterState, pod: PodView, allocations: Iterable[ClaimAllocation], put: Put | None = None) -> None:
    """Write the allocations of a pod's claims to `state`, and reserve for it those that are allocated already.

    A claim for extended resources gets a new name.
    """
    if not pod.demand.may_claim:
        return
    put = put or state.put
    consumer = consumer_of(pod)
    written = set()
    for each in allocations:
        claim = each.claim
        if claim.metadata.generate_name:
            claim = replace(claim, metadata=replace(claim.metadata, name=_name_of_extended(pod)))
        written.add(claim.metadata.name)
        put(with_reservation(with_allocation(claim, each.allocation), pod))
    for claim in claims_of(state, pod):
        if claim.metadata.name not in written and claim.status.allocation is not None and consumer not in claim.status.reserved_for:
            put(with_reservation(claim, pod))


def give_back_claims(
    state: ClusterState, pod: PodView, put: Put | None = None, drop: Callable[[objects.ResourceClaim], None] | None = None
) -> None:
    """Take a pod that leaves off its claims; those that are reserved for no other pod lose their devices.

    A claim for extended resources is dropped: the pod that is created again gets another. `put` and `drop` change the state, by default
    without a way back.
    """
    if not pod.demand.may_claim:
        return
    consumer = consumer_of(pod)
    for claim in list(claims_of(state, pod)):
        left = tuple(each for each in claim.status.reserved_for if each != consumer)
        if EXTENDED_RESOURCE_CLAIM in claim.metadata.annotations:
            if drop is None:
                state.drop("ResourceClaim", objects.key_of(claim))
            else:
                drop(claim)
        elif claim.status.allocation is not None and len(left) < len(claim.status.reserved_for):
            allocation = claim.status.allocation if left else None
            (put or state.put)(replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=left)))


def _name_of_extended(pod: PodView) -> str:
    return f"{extended_resources.in_memory_claim(pod).metadata.generate_name}{pod.uid}"


def claims_of(state: ClusterState, pod: PodView) -> Iterator[objects.ResourceClaim]:
    """The existing claims of a pod: those that it names, those made from templates, and the one for extended resources."""
    names = dict.fromkeys(map(pod.claim_name, pod.object.spec.resource_claims))
    for name in names:
        claim = None if name is None else state.objects.get(objects.ResourceClaim, name, pod.namespace)
        if claim is not None:
            yield claim
    if len(pod.object.spec.resource_claims) == 0 or extended_resources.backed(pod, state.objects):
        special = extended_resources.written_claim(pod, state.objects) or state.objects.get(
            objects.ResourceClaim, _name_of_extended(pod), pod.namespace
        )
        if special is not None:
            yield special
