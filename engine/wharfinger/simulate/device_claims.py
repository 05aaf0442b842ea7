"""Claims for devices in a dry run: what the controller and the scheduler would write between two decisions.

A pod that names a ResourceClaimTemplate gets a claim made of it, as the controller of Kubernetes makes it; a decision's allocations are
written to the claims, reserved for the pod. So the next pod finds the devices taken.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from wharfinger.framework.prepared import ClaimAllocation
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState


def with_made_claims(state: ClusterState, pod: PodView) -> PodView:
    """The pod with a claim in `state` for each template that it names; the pod itself if none has to be made."""
    made = {status.name for status in pod.object.status.resource_claim_statuses}
    statuses = []
    for use in pod.object.spec.resource_claims:
        if use.resource_claim_template_name is None or use.name in made:
            continue
        template = state.objects.get(objects.ResourceClaimTemplate, use.resource_claim_template_name, pod.namespace)
        if template is not None:
            claim = _made(pod, use.name, template)
            state.put(claim)
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


def _made(pod: PodView, name: str, template: objects.ResourceClaimTemplate) -> objects.ResourceClaim:
    meta = template.spec.metadata
    owner = objects.OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.object.metadata.uid, controller=True)
    metadata = objects.ObjectMeta(
        name=f"{pod.name}-{name}",
        namespace=pod.namespace,
        uid=f"{pod.uid}/{name}",
        labels=meta.labels,
        annotations=meta.annotations,
        owner_references=(owner,),
    )
    return objects.ResourceClaim(metadata=metadata, spec=template.spec.spec)


def write_claims(state: ClusterState, pod: PodView, allocations: Iterable[ClaimAllocation]) -> None:
    """Writes the allocations of a pod's claims to `state`; a claim for extended resources gets a name of its own."""
    consumer = objects.ClaimConsumer(resource="pods", name=pod.name, uid=pod.object.metadata.uid)
    for each in allocations:
        claim = each.claim
        if claim.metadata.generate_name:
            claim = replace(claim, metadata=replace(claim.metadata, name=f"{claim.metadata.generate_name}{pod.uid}"))
        status = replace(claim.status, allocation=each.allocation, reserved_for=(*claim.status.reserved_for, consumer))
        state.put(replace(claim, status=status))
