"""The outcome of a search in the words of the API: allocations of claims on a node, and the texts of errors.

Source: the end of `Allocate` and `createNodeSelector` in `structured/internal/incubating/allocator_incubating.go`, Kubernetes 1.36.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from wharfinger.framework.plugins.devices.requests import Alternative, ClaimDemand
from wharfinger.framework.plugins.devices.search import Fault, FaultKind, Outcome, Pick
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.model import objects
from wharfinger.model.devices.pools import NodePools
from wharfinger.model.objects.devices import FROM_CLAIM, FROM_CLASS, IN_MEMORY, MAX_DEVICES
from wharfinger.model.objects.matching import NODE_NAME_FIELD

_SHARES = uuid.UUID("6f0f2a52-7f52-4e0e-9a6b-5c5d1a0f4f0e")
"""The namespace of the names of shares."""


def allocations(  # noqa: PLR0913 — the request, the result, and the node
    claims: Sequence[objects.ResourceClaim], demand: ClaimDemand, outcome: Outcome, *, pools: NodePools, node: str, salt: str
) -> list[objects.Allocation]:
    """The allocation of each claim on a node, in order; the outcome has a solution. `salt` makes the names of shares unique."""
    assert outcome.picks is not None  # noqa: S101 — what the caller has made sure of
    found = []
    for index, (claim, picks) in enumerate(zip(claims, outcome.picks, strict=True)):
        results = tuple(_result(pick, pools, f"{salt}/{index}/{place}") for place, pick in enumerate(picks))
        config = (*_of_classes(demand, index, outcome), *_of_claim(claim, demand, index, outcome))
        devices = objects.AllocatedDevices(results=results, config=config)
        found.append(objects.Allocation(devices=devices, node_selector=_node_selector(picks, pools, node)))
    return found


def pod_devices(claim: objects.ResourceClaim, allocation: objects.Allocation) -> Iterator[PodDevice]:
    """The devices of an allocation, as decisions name them."""
    name = "" if claim.metadata.name == IN_MEMORY else objects.key_of(claim)
    for result in allocation.devices.results:
        yield PodDevice(
            claim=name,
            request=result.request,
            driver=result.driver,
            pool=result.pool,
            device=result.device,
            admin_access=bool(result.admin_access),
            capacity=result.consumed_capacity,
        )


def _result(pick: Pick, pools: NodePools, share: str) -> objects.AllocatedDevice:
    pool = pools.pools[pick.pool]
    device = pool.devices[pick.position]
    consumed_capacities = pick.consumed_capacities or ()
    return objects.AllocatedDevice(
        request=pick.alternative.reference,
        driver=pool.driver,
        pool=pool.name,
        device=device.name,
        admin_access=True if pick.alternative.admin else None,
        tolerations=pick.alternative.wanted.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=None if pick.consumed_capacities is None else str(uuid.uuid5(_SHARES, share)),
        consumed_capacity={portion.name: portion.text for portion in consumed_capacities},
    )


def _chosen(demand: ClaimDemand, index: int, outcome: Outcome) -> Iterator[Alternative]:
    """The alternative that was met for each request of a claim."""
    for place, request in enumerate(demand.claims[index].requests):
        if not request.choice:
            yield request.alternatives[0]
        elif outcome.chosen is not None:
            yield outcome.chosen[index, place][1]


def _of_classes(demand: ClaimDemand, index: int, outcome: Outcome) -> Iterator[objects.AllocatedConfiguration]:
    """The configurations of each class once, for all requests that use the class."""
    by_class: dict[str, list[Alternative]] = {}
    for alternative in _chosen(demand, index, outcome):
        by_class.setdefault(alternative.device_class.metadata.name, []).append(alternative)
    for alternatives in by_class.values():
        requests = tuple(alternative.reference for alternative in alternatives)
        for each in alternatives[0].device_class.spec.config:
            yield objects.AllocatedConfiguration(source=FROM_CLASS, requests=requests, opaque=each.opaque)


def _of_claim(claim: objects.ResourceClaim, demand: ClaimDemand, index: int, outcome: Outcome) -> Iterator[objects.AllocatedConfiguration]:
    """The configurations of the claim: once if they are for all requests, otherwise once for each request they name."""
    for each in claim.spec.devices.config:
        meant = (
            [alternative for alternative in _chosen(demand, index, outcome) if not set(each.requests).isdisjoint(alternative.names)]
            if each.requests
            else [None]
        )
        for _ in meant:
            yield objects.AllocatedConfiguration(source=FROM_CLAIM, requests=each.requests, opaque=each.opaque)


def _node_selector(picks: Sequence[Pick], pools: NodePools, node: str) -> objects.NodeSelector | None:
    """The nodes on which all devices can be used; None for every node."""
    fields: list[objects.NodeSelectorRequirement] = []
    expressions: list[objects.NodeSelectorRequirement] = []
    for pick in picks:
        pool = pools.pools[pick.pool]
        device, spec = pool.devices[pick.position], pool.slices[pick.position].spec
        of = device if spec.per_device_node_selection else spec
        if of.node_name is not None or device.binds_to_node:
            own = objects.NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node,))
            return objects.NodeSelector(node_selector_terms=(objects.NodeSelectorTerm(match_fields=(own,)),))
        if of.node_selector is not None and len(of.node_selector.node_selector_terms) == 1:  # the API server allows no more
            term = of.node_selector.node_selector_terms[0]
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    whole = objects.NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return objects.NodeSelector(node_selector_terms=(whole,))


def _add_new(requirements: Sequence[objects.NodeSelectorRequirement], to: list[objects.NodeSelectorRequirement]) -> None:
    for new in requirements:
        if not any((new.key, new.operator, set(new.values)) == (old.key, old.operator, set(old.values)) for old in to):
            to.append(new)


def text(fault: Fault, names: Sequence[str], pools: NodePools, node: str) -> str:
    """The text of an error as kube-scheduler has it; `names` are `namespace/name` of the claims."""
    claim = f"claim {names[fault.claim]}"
    alternative = fault.alternative
    if fault.kind is FaultKind.GAVE_UP:
        return f"node {node}: timed out trying to allocate devices"
    if fault.kind is FaultKind.TOO_MANY:
        return f"{claim}: number of requested devices {fault.number} exceeds the claim limit of {MAX_DEVICES}"
    if fault.kind is FaultKind.EMPTY_CONSTRAINT:
        return f"{claim}, constraint #{fault.number}: empty constraint (unsupported constraint type?)"
    assert alternative is not None  # noqa: S101 — the others are about a request
    if fault.kind is FaultKind.SELECTOR:
        assert fault.selector is not None  # noqa: S101 — by its kind
        owner = f"class {fault.selector.of_class}" if fault.selector.of_class else claim
        return f"{owner}: selector #{fault.selector.index}: {fault.selector.text}"
    return f"{claim}, request {alternative.name}: {_about_request(fault, alternative, pools)}"


def _about_request(fault: Fault, alternative: Alternative, pools: NodePools) -> str:
    if fault.kind is FaultKind.UNKNOWN_MODE:
        return f"unsupported count mode {alternative.wanted.allocation_mode}"
    pool = pools.pools[fault.place[0]]
    if fault.kind is FaultKind.CONSTRAINT:
        device = f"{pool}/{pool.devices[fault.place[1]].name}"
        return f"cannot add device {device} because a claim constraint would not be satisfied"
    state = "being updated" if fault.kind is FaultKind.UPDATING else "invalid"
    return f"asks for all devices, but resource pool {pool} is currently {state}"
