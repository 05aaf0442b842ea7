"""What the vectors do not ask: decisions one after the other, allocations in flight, searches that are too long, and hints."""

import pytest
from msgspec import structs

from tests.bench import devices
from wharfinger.framework.chain import assemble
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.plugins.devices import search
from wharfinger.framework.plugins.devices.dynamic_resources import DynamicResources, DynamicResourcesArguments
from wharfinger.framework.plugins.devices.selector_reads import Read, reads
from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations, with_allocation

CHAIN = assemble()


def with_claims(names, count=1, n_nodes=1):
    state = devices.cluster(n_nodes)
    for name in names:
        state.put(devices.claim(name, count))
    return state


def pods(names):
    return [devices.pending(name, claims=True) for name in names]


def test_pods_of_one_template_share_results_and_never_a_device():
    names = [f"p{number}" for number in range(9)]
    state, decider = with_claims(names), Decider(CHAIN)
    given = []
    for pod in pods(names):
        decision = decider.decide(state.snapshot(), pod)
        for each in decision.claims:
            state.take_devices(each.claim, each.allocation)
            given += [result.device for result in each.allocation.devices.results]
            assert each.claim.metadata.name == f"{pod.name}-gpu"
        if decision.node is not None:
            state.assume(pod, decision.node)
    assert given == [f"gpu-{place}" for place in range(8)]
    assert decision.message.startswith("0/1 nodes are available: 1 cannot allocate all claims. still not schedulable")
    assert decider.n_remembered == 1


def test_a_claim_in_flight_is_waited_for_and_counts_once_when_it_is_written():
    state = with_claims(["a"])
    (pod,) = pods(["a"])
    (each,) = decide(CHAIN, state.snapshot(), pod).claims
    state.take_devices(each.claim, each.allocation)
    waiting = decide(CHAIN, state.snapshot(), pod)
    assert "resource claim default/a-gpu is in the process of being allocated" in waiting.message
    written = with_allocation(each.claim, each.allocation)
    state.put(written)
    usage = state.objects.following(Allocations).of_device(devices.DRIVER, "n00000", "gpu-0")
    assert (usage.exclusive, usage.shares) == (1, 0)
    assert state.give_back_devices(each.claim, written=True)
    assert decide(CHAIN, state.snapshot(), pod).node == "n00000"
    state.put(with_allocation(written, None))
    assert not state.objects.following(Allocations).of_pool((devices.DRIVER, "n00000"))


def test_two_pods_may_share_an_allocation_in_flight():
    state = with_claims(["a"])
    (each,) = decide(CHAIN, state.snapshot(), pods(["a"])[0]).claims
    for _ in range(2):
        state.take_devices(each.claim, each.allocation)
    assert not state.give_back_devices(each.claim)
    assert state.objects.following(Allocations).in_flight(each.claim).sharers == 1
    assert state.give_back_devices(each.claim)
    assert not state.give_back_devices(each.claim)


def test_a_copy_of_the_cluster_has_what_is_in_flight():
    state = with_claims(["a"])
    (each,) = decide(CHAIN, state.snapshot(), pods(["a"])[0]).claims
    state.take_devices(each.claim, each.allocation)
    twin = state.snapshot().detach().objects
    assert twin.following(Allocations).of_device(devices.DRIVER, "n00000", "gpu-0").exclusive == 1


@pytest.mark.parametrize("most", [20, search.MOST_STEPS])
def test_a_search_that_is_too_long_is_given_up_as_an_error(monkeypatch, most):
    monkeypatch.setattr(search, "MOST_STEPS", most)
    state = devices.cluster(1)
    claim = devices.claim("a", 5)  # four devices of a NUMA node at most
    state.put(claim)
    names = [objects.Device(name=f"gpu-{place}", attributes=_numa(place % 10)) for place in range(40)]
    (one,) = state.objects.all(objects.ResourceSlice)
    spec = structs.replace(one.spec, devices=tuple(names))
    state.put(structs.replace(one, spec=spec))
    decision = decide(CHAIN, state.snapshot(), pods(["a"])[0])
    if most > 20:  # equal devices are not tried one after the other, so 658,008 combinations are soon looked at
        assert decision.message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")
        return
    text = 'running "DynamicResources" filter plugin: node n00000: timed out trying to allocate devices'
    assert (decision.aborted, decision.message, decision.node) == ({"n00000": text}, text, None)


def _numa(number):
    model = objects.DeviceAttribute(string_value="a100")
    return {"numa": objects.DeviceAttribute(int_value=number), "model": model}


def test_hundreds_of_devices_for_one_pod_are_an_error_and_no_crash():
    state = devices.cluster(1)
    (one,) = state.objects.all(objects.ResourceSlice)
    names = [objects.Device(name=f"gpu-{place:04}", attributes=_numa(0)) for place in range(2000)]
    state.put(structs.replace(one, spec=structs.replace(one.spec, devices=tuple(names))))
    base = devices.pending("a", claims=True).object
    uses = tuple(objects.PodResourceClaim(name=f"u{number}", resource_claim_name=f"c{number}-gpu") for number in range(40))
    for number in range(40):
        state.put(devices.claim(f"c{number}", 32))
    pod = devices.PodView(structs.replace(base, spec=structs.replace(base.spec, resource_claims=uses)))
    decision = decide(CHAIN, state.snapshot(), pod)
    assert "timed out trying to allocate devices" in decision.message


def test_only_changes_of_claims_that_matter_wake_a_pod():
    state = with_claims(["a", "b"])
    plugin = DynamicResources()
    (pod,) = pods(["a"])
    own, other = state.objects.all(objects.ResourceClaim)
    allocation = objects.Allocation()

    def helps(now, was, *, removed=False):
        change = Change(events=ClusterEvent.RESOURCE_CLAIM, label="x", claim=now, claim_was=was, removed=removed)
        return plugin.may_help(pod, change, state.snapshot())

    assert helps(own, None)
    assert not helps(other, None)
    assert not helps(with_allocation(other, allocation), other)
    assert helps(other, with_allocation(other, allocation))
    assert helps(with_allocation(other, allocation), None, removed=True)
    assert not helps(other, None, removed=True)
    assert plugin.may_help(pod, Change(events=ClusterEvent.RESOURCE_SLICE, label="x"), state.snapshot())


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600.0), ("1h1m1s", 3661.0), ("1.5s", 1.5), ("250ms", 0.25), ("1µs", 1e-6)])
def test_timeouts_are_written_as_in_go(text, seconds):
    assert DynamicResourcesArguments(binding_timeout=text).binding_seconds == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "-1s", "1s "])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="bindingTimeout"):
        DynamicResourcesArguments(bindingTimeout=text)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "d"', ()),
        ('device.attributes["d"].model == "x" && !device.allowMultipleAllocations', (Read("attributes", "d", "model"),)),
        ("device.capacity['d']['memory'].isGreaterThan(quantity('1'))", (Read("capacity", "d", "memory"),)),
        ('has(device.attributes["d"].numa) && device.attributes["d"].?numa.orValue(1) == 1', (Read("attributes", "d", "numa"),)),
        ('cel.bind(gpu, device.attributes["d"], gpu.model == "x")', None),
        ('device.attributes["d"].size() == 2', None),
        ('device.attributes["d"].exists(name, name == "x")', None),
        ('"x" in device.attributes["d"]', None),
        ('device.attributes[device.driver].model == "x"', None),
        ('device["driver"] == "d"', None),
        ("[device].all(it, it.driver == 'd')", None),
    ],
)
def test_what_a_selector_reads_is_known_only_if_it_says_so_plainly(expression, expected):
    assert reads(expression) == expected
