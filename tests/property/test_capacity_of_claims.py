"""Pods with claims are counted in rounds as a dry run places them one by one: each takes its devices, and frees none of others."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.property import test_capacity as plain
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.simulate.dry_run import dry_run
from wharfinger.simulate.placing import queue_order
from wharfinger.what_if.capacity import DEFAULT_LIMIT, capacity
from wharfinger.what_if.further_pods import grouped
from wharfinger.what_if.room_count import Count
from wharfinger.what_if.supposed_changes import SupposedChanges

DRIVER = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"


def exactly(count=1, **others):
    return {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **others}}


def alternative(name, model, count):
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}
    return {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "selectors": [selector]}


CLAIMS = {
    "one": {"requests": [exactly()]},
    "two": {"requests": [exactly(2)]},
    "all": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]},
    "a large or two small": {"requests": [{"name": "gpu", "firstAvailable": [alternative("large", "l", 1), alternative("small", "s", 2)]}]},
    "two of one root": {"requests": [exactly(2)], "constraints": [{"matchAttribute": ROOT}]},
    "a part": {"requests": [exactly(capacity={"requests": {"memory": "3Gi"}})]},
    "tolerant": {"requests": [exactly(tolerations=[{"operator": "Exists"}])]},
    "administrator": {"requests": [exactly(adminAccess=True)]},
}


def gpu(number, model, root, shared, tainted):
    return {
        "name": f"gpu-{number}",
        "attributes": {"model": {"string": model}, ROOT: {"string": root}},
        "capacity": {"memory": {"value": "8Gi"}},
        "allowMultipleAllocations": shared,
        "taints": [{"key": "broken", "effect": "NoSchedule"}] if tainted else [],
    }


gpus = st.lists(
    st.tuples(st.sampled_from("ls"), st.sampled_from("ab"), st.booleans(), st.sampled_from([False, False, True])), max_size=4
).map(lambda rows: [gpu(number, *row) for number, row in enumerate(rows)])
node_shapes = st.lists(st.tuples(st.sampled_from([900, 2300]), gpus), min_size=1, max_size=4)


def resource_slice(name, devices, **reach):
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    plain_slice = {"metadata": {"name": f"{name}-gpus"}, "spec": {"driver": DRIVER, "pool": pool, "devices": devices, **reach}}
    return msgspec.convert(plain_slice, objects.ResourceSlice)


def state_of(nodes, attached, claim):
    """A cluster of these nodes with their devices, and devices that are attached to all of them."""
    found = [plain.node(number, cpu, "a", "ssd", tainted=False) for number, (cpu, _) in enumerate(nodes)]
    state = plain.state_of(found)
    for each, (_, devices) in zip(found, nodes, strict=True):
        state.put(resource_slice(each.metadata.name, devices, nodeName=each.metadata.name))
    state.put(resource_slice("attached", attached, allNodes=True))
    state.put(objects.DeviceClass(metadata=objects.ObjectMeta(name="gpu")))
    template = {"metadata": {"name": "gpu", "namespace": "default"}, "spec": {"spec": {"devices": CLAIMS[claim]}}}
    state.put(msgspec.convert(template, objects.ResourceClaimTemplate))
    return state


def claiming(replicas):
    """A Deployment whose pods each have a claim of the template."""
    found = plain.workload("web", (replicas, 300, "none", False, 0))
    uses = (objects.PodResourceClaim(name="gpu", resource_claim_template_name="gpu"),)
    template = found.spec.template
    template = replace(template, spec=replace(template.spec, resource_claims=uses))
    return replace(found, spec=replace(found.spec, template=template))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(node_shapes, gpus, st.sampled_from(sorted(CLAIMS)), st.integers(1, 3))
def test_pods_with_claims_are_counted_as_a_dry_run_places_them(nodes, attached, claim, replicas):
    state, chain = state_of(nodes, attached, claim), assemble()
    room = capacity(chain, state, plain.pods_of(state, claiming(replicas)), changes=False).rooms[0]

    fresh = state_of(nodes, attached, claim)
    run = dry_run(chain, fresh, plain.pods_of(fresh, claiming(room.total + plain.MARGIN)))
    counts = {}
    for result in run.results:
        if result.node is not None:
            counts[result.node] = counts.get(result.node, 0) + 1
    assert room.total == run.placed
    assert {share.place: share.placed + share.more for share in room.nodes} == counts
    with SupposedChanges(state) as supposed:  # as it is counted for each change that is supposed
        waiting = grouped(queue_order(chain, plain.pods_of(state, claiming(replicas))))
        assert Count(chain, supposed, DEFAULT_LIMIT).total(waiting, 0) == (run.placed, False)
