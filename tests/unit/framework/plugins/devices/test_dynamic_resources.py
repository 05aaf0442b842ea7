"""Cases that the vectors do not have: sequences of decisions, allocations in flight, searches that are too long, and hints."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from tests.bench import devices
from tests.unit.language.policies import policy
from tests.work import calls
from wharfinger.compiler.program import compile_policy
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.chain_settings import arguments
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.plugins.devices import device_rule, requests, search
from wharfinger.framework.plugins.devices.cel import selector
from wharfinger.framework.plugins.devices.cel.selector import Read, reads
from wharfinger.framework.plugins.devices.dynamic_resources import DynamicResources, DynamicResourcesArguments
from wharfinger.framework.plugins.devices.requests import consumed_capacities
from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations, with_allocation
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

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
            state.reserve_devices(each.claim, each.allocation)
            given += [result.device for result in each.allocation.devices.results]
            assert each.claim.metadata.name == f"{pod.name}-gpu"
        if decision.node is not None:
            state.assume(pod, decision.node)
    assert given == [f"gpu-{place}" for place in range(8)]
    assert decision.message.startswith("0/1 nodes are available: 1 cannot allocate all claims. still not schedulable")
    assert len(decider._kept) == 1


def test_a_claim_in_flight_is_waited_for_and_counts_once_when_it_is_written():
    state = with_claims(["a"])
    (pod,) = pods(["a"])
    (each,) = decide(CHAIN, state.snapshot(), pod).claims
    state.reserve_devices(each.claim, each.allocation)
    waiting = decide(CHAIN, state.snapshot(), pod)
    assert "resource claim default/a-gpu is in the process of being allocated" in waiting.message
    written = with_allocation(each.claim, each.allocation)
    state.put(written)
    usage = state.objects.following(Allocations).of_device(devices.DRIVER, "n00000", "gpu-0")
    assert (usage.exclusive, usage.shares) == (1, 0)
    assert state.release_devices(each.claim, written=True)
    assert decide(CHAIN, state.snapshot(), pod).node == "n00000"
    state.put(with_allocation(written, None))
    assert not state.objects.following(Allocations).of_pool((devices.DRIVER, "n00000"))


def test_two_pods_may_share_an_allocation_in_flight():
    state = with_claims(["a"])
    (each,) = decide(CHAIN, state.snapshot(), pods(["a"])[0]).claims
    for _ in range(2):
        state.reserve_devices(each.claim, each.allocation)
    assert not state.release_devices(each.claim)
    assert state.objects.following(Allocations).in_flight(each.claim).sharers == 1
    assert state.release_devices(each.claim)
    assert not state.release_devices(each.claim)


def test_a_copy_of_the_cluster_has_what_is_in_flight():
    state = with_claims(["a"])
    (each,) = decide(CHAIN, state.snapshot(), pods(["a"])[0]).claims
    state.reserve_devices(each.claim, each.allocation)
    twin = state.snapshot().detach().objects
    assert twin.following(Allocations).of_device(devices.DRIVER, "n00000", "gpu-0").exclusive == 1


@pytest.mark.parametrize("limit", [20, search.MAX_STEPS])
def test_a_search_that_is_too_long_is_given_up_as_an_error(monkeypatch, limit):
    monkeypatch.setattr(search, "MAX_STEPS", limit)
    state = devices.cluster(1)
    claim = devices.claim("a", 5)  # four devices of a NUMA node at most
    state.put(claim)
    names = [objects.Device(name=f"gpu-{place}", attributes=_numa(place % 10)) for place in range(40)]
    (one,) = state.objects.all(objects.ResourceSlice)
    spec = structs.replace(one.spec, devices=tuple(names))
    state.put(structs.replace(one, spec=spec))
    decision = decide(CHAIN, state.snapshot(), pods(["a"])[0])
    if limit > 20:  # equal devices are tried only once, so 658,008 combinations are soon looked at
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


def choices(pod, first, n_requests):
    """A claim of requests with two alternatives each, which nothing can meet at last; `first` is the slot of the first alternative."""
    of = {"deviceClassName": "gpu", "allocationMode": "All"}

    def request(number, slots):
        alternatives = [{"name": f"a{slot}", "selectors": [_in_slot(slot)], **of} for slot in slots]
        return {"name": f"r{number}", "firstAvailable": alternatives}

    requests = [request(number, (first + 2 * number, first + 2 * number + 1)) for number in range(n_requests)]
    requests.append({"name": "never", "exactly": {"selectors": [_in_slot(-1)], **of}})
    metadata = {"name": f"{pod}-gpu", "namespace": "default", "uid": f"{pod}-gpu", "ownerReferences": [_owner(pod)]}
    return decode.convert({"metadata": metadata, "spec": {"devices": {"requests": requests}}}, objects.ResourceClaim)


def _owner(pod):
    return {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True}


def _in_slot(slot):
    return {"cel": {"expression": f'device.attributes["{devices.DRIVER}"].slot == {slot}'}}


def slots(state, number, places):
    """Gives the node of a number one device in each slot."""
    model = objects.DeviceAttribute(string_value="a100")
    every = [
        objects.Device(name=f"gpu-{place:04}", attributes={"slot": objects.DeviceAttribute(int_value=place), "model": model})
        for place in places
    ]
    one = next(each for each in state.objects.all(objects.ResourceSlice) if each.spec.node_name == f"n{number:05}")
    state.put(structs.replace(one, spec=structs.replace(one.spec, devices=tuple(every))))


def test_alternatives_that_fail_for_the_same_reason_are_tried_once():
    state = devices.cluster(1)
    slots(state, 0, range(40))
    state.put(choices("a", 0, 20))  # a million choices
    found = []
    assert calls(lambda: found.append(decide(CHAIN, state.snapshot(), pods(["a"])[0])), limit=2_000_000) > 10_000
    assert "1 cannot allocate all claims" in found[0].message


def test_devices_of_many_kinds_of_nodes_are_given_up_together_whatever_was_decided_before(monkeypatch):
    monkeypatch.setattr(device_rule, "MAX_TOTAL_STEPS", 2000)
    state = devices.cluster(6)
    for number in range(6):
        slots(state, number, range(14 + number))
    state.put(choices("a", 0, 7))
    (pod,) = pods(["a"])
    kept = Decider(CHAIN)

    def both():
        found = kept.decide(state.snapshot(), pod), decide(CHAIN, state.snapshot(), pod)
        assert [(each.node, each.message, each.aborted) for each in found[:1]] == [
            (each.node, each.message, each.aborted) for each in found[1:]
        ]
        return found[0]

    assert both().aborted.keys() == {f"n{number:05}" for number in range(6)}
    for number in range(6):  # one after the other has nothing to choose from any more
        slots(state, number, range(100, 101 + number))
        aborted = bool(both().aborted)
        assert not aborted or number < 5
    assert not aborted
    for number in range(6):
        slots(state, number, range(15 + number))
        aborted = bool(both().aborted)
    assert aborted


@pytest.mark.parametrize(("n_selectors", "too_dear"), [(2, False), (20, True)])
def test_selectors_of_a_claim_have_a_budget_together(monkeypatch, n_selectors, too_dear):
    monkeypatch.setattr(selector, "MAX_TOTAL_COST", 200_000)
    state = devices.cluster(2)
    wanted = devices.claim("a", 1)
    whole = "device.attributes.all(d, device.attributes[d].uuid != '{}')"  # reads every attribute, which differ in each device
    expressions = [whole.format(number) for number in range(n_selectors)]
    selectors = tuple(objects.DeviceSelector(cel=objects.CELSelector(expression=each)) for each in expressions)
    (request,) = wanted.spec.devices.requests
    exactly = structs.replace(request.exactly, selectors=selectors)
    of = structs.replace(wanted.spec.devices, requests=(structs.replace(request, exactly=exactly),))
    state.put(structs.replace(wanted, spec=structs.replace(wanted.spec, devices=of)))
    decisions = [decide(CHAIN, state.snapshot(), pods(["a"])[0]) for _ in range(2)]
    assert ["actual cost limit exceeded" in decision.message for decision in decisions] == [too_dear, too_dear]


@pytest.mark.parametrize("name", sorted(devices.LARGEST))
def test_the_search_for_the_largest_claims_ends_before_it_delays_other_pods(name, monkeypatch):
    """The limits are counts, not times: a device looked at for one kind of requests, and an expression compiled."""
    looks, compilations = [], []
    matching, compiling = requests._match, selector.compiling
    monkeypatch.setattr(requests, "_match", lambda *of: looks.append(1) or matching(*of))
    monkeypatch.setattr(selector, "compiling", lambda text: compilations.append(text) or compiling(text))
    state = devices.cluster(400)
    state.put(devices.claim_of("a", devices.LARGEST[name]))
    decision = decide(CHAIN, state.snapshot(), pods(["a"])[0])
    assert (decision.node, "timed out trying to allocate devices" in decision.message) == (None, True)
    allowed = selector.MAX_TOTAL_COST + 400 * devices.DEVICES * selector.COST_OF_DEVICE
    assert len(looks) <= allowed / requests.COST_SELECTED
    assert len(set(compilations)) <= selector.MAX_TOTAL_COST / selector.COST_COMPILED + 1


def test_requests_that_want_the_same_take_one_look_at_each_device(monkeypatch):
    looks, matching = [], requests._match
    monkeypatch.setattr(requests, "_match", lambda *of: looks.append(1) or matching(*of))
    state = devices.cluster(3)
    state.put(devices.claim_of("a", {"requests": [devices.one_of(number, [{}] * 8) for number in range(4)]}))
    assert decide(CHAIN, state.snapshot(), pods(["a"])[0]).node is not None
    assert len(looks) == 3 * devices.DEVICES


def test_nodes_that_look_the_same_share_the_steps_of_one_search(monkeypatch):
    monkeypatch.setattr(device_rule, "MAX_TOTAL_STEPS", 100)
    monkeypatch.setattr(device_rule, "STEPS_PER_NODE", 0)
    state = with_claims(["a"], n_nodes=30, count=4)
    assert decide(CHAIN, state.snapshot(), pods(["a"])[0]).node is not None


CHANGES = {
    "nothing": lambda state: None,
    "a node goes": lambda state: state.remove_node("n00001"),
    "a node comes": lambda state: state.put(objects.Node(metadata=objects.ObjectMeta(name="n99999"))),
    "devices change": lambda state: slots(state, 2, range(3)),
    "the class changes": lambda state: state.put(_class_of_slots(state)),
    "the claim goes": lambda state: state.drop("ResourceClaim", "default/a-gpu"),
}


def _class_of_slots(state):
    (one,) = state.objects.all(objects.DeviceClass)
    return structs.replace(one, spec=structs.replace(one.spec, selectors=()))


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("n_steps", [1, 4, 99])
def test_a_decision_is_the_same_whatever_was_done_ahead_of_it_and_happened_meanwhile(change, n_steps):
    def state():
        found = devices.cluster(6)
        for number in range(6):
            slots(found, number, range(14 + number))
        found.put(choices("a", 0, 5))
        return found

    stepwise, plain, (pod,) = state(), state(), pods(["a"])
    decider = Decider(CHAIN)
    steps = decider.precompute(stepwise.snapshot, pod)
    for _ in range(n_steps):
        next(steps, None)
    for each in (stepwise, plain):
        CHANGES[change](each)
    list(steps)
    one, other = decider.decide(stepwise.snapshot(), pod), decide(CHAIN, plain.snapshot(), pod)
    assert (one.node, one.message, one.aborted, one.claims) == (other.node, other.message, other.aborted, other.claims)
    assert not list(decider.precompute(stepwise.snapshot, pod))


def test_the_order_of_a_policy_never_takes_devices_away_from_a_claim(monkeypatch):
    state = with_claims(["a"], count=4)
    (pod,) = pods(["a"])
    rule = 'policy "order"\nprefer device last = it.name == "gpu-7"\n'
    chain = assemble([compile_policy(policy(rule))])
    assert next(each.device for each in decide(chain, state.snapshot(), pod).claims[0].allocation.devices.results) == "gpu-7"
    in_order = search.search
    monkeypatch.setattr(
        device_rule,
        "search",
        lambda *of: in_order(*of) if len(of) == 4 else search.Outcome(fault=search.Fault(search.FaultKind.GAVE_UP)),
    )
    assert next(each.device for each in decide(chain, state.snapshot(), pod).claims[0].allocation.devices.results) == "gpu-0"


def with_unprepared_devices(at):
    """(a state with a claim whose devices are not ready, allocated at a time in seconds since 1970; its pod)."""
    state = with_claims(["a"])
    (pod,) = pods(["a"])
    (each,) = decide(CHAIN, state.snapshot(), pod).claims
    results = tuple(structs.replace(result, binding_conditions=("Ready",)) for result in each.allocation.devices.results)
    allocated = structs.replace(each.allocation.devices, results=results)
    allocation = structs.replace(each.allocation, devices=allocated, allocation_timestamp=datetime.fromtimestamp(at, UTC))
    state.put(with_allocation(each.claim, allocation))
    return state, pod


@pytest.mark.parametrize("set_by", [0.0, 86_400.0, -86_400.0], ids=["not set", "set forward", "set back"])
@pytest.mark.parametrize(("waited", "node"), [(590.0, "n00000"), (611.0, None)])
def test_devices_have_their_time_to_become_ready_although_the_clock_is_set(set_by, waited, node):
    at = 1_700_000_000.0
    state, pod = with_unprepared_devices(at)
    decider = Decider(CHAIN)
    assert decider.decide(state.snapshot(at + 10.0, 10.0), pod).node == "n00000"
    for each in (decider, Decider(CHAIN)):
        assert each.decide(state.snapshot(at + set_by + waited, waited), pod).node == node


@pytest.mark.parametrize(("age", "node"), [(700.0, None), (-700.0, "n00000")], ids=["long ago", "in the future"])
def test_the_time_that_devices_had_before_they_were_seen_counts(age, node):
    at = 1_700_000_000.0
    state, pod = with_unprepared_devices(at)
    assert decide(CHAIN, state.snapshot(at + age, 5.0), pod).node == node


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


@pytest.mark.parametrize("template", ["shared", "other"])
def test_a_claim_that_all_pods_of_a_podgroup_share_is_refused_and_no_other(template):
    uses = [{"name": "gpu", "resourceClaimTemplateName": template}]
    shared = [{"name": "gpu", "resourceClaimTemplateName": "shared"}]
    state = devices.cluster(1)
    state.put(devices.claim("p", 1))
    state.put(decode.convert({"metadata": {"name": "g", "namespace": "default"}, "spec": {"resourceClaims": shared}}, objects.PodGroup))
    (pod,) = pods(["p"])
    spec = decode.convert({"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": uses}, objects.PodSpec)
    spec = structs.replace(pod.object.spec, scheduling_group=spec.scheduling_group, resource_claims=spec.resource_claims)
    decision = decide(CHAIN, state.snapshot(), PodView(structs.replace(pod.object, spec=spec)))
    assert ("shared by all pods of PodGroup" in decision.message) == (template == "shared"), decision.message


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600.0), ("1h1m1s", 3661.0), ("1.5s", 1.5), ("250ms", 0.25), ("1µs", 1e-6)])
def test_timeouts_are_written_as_in_go(text, seconds):
    assert DynamicResourcesArguments(binding_timeout=text).binding_seconds == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "-1s", "1s "])
def test_other_texts_are_refused(text):
    with pytest.raises(UsageError, match="DynamicResources: bindingTimeout: String should match pattern"):
        arguments(DynamicResources, {"bindingTimeout": text})


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
def test_the_reads_of_a_selector_are_known_only_for_plain_accesses(expression, expected):
    assert reads(expression) == expected


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *[
            ("0Gi", "0"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("1500Mi", "1500Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1023", "1023"),
        ],
        *[
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("2000", "2k"),
            ("1.5G", "1500M"),
            ("0.0005", "500u"),
            ("0", "0"),
            ("1e3", "1e3"),
            ("1E", "1E"),
        ],
        *[("1000000000000000000", "1E"), ("2048", "2048"), ("1.0001Ki", "1024102400u")],
    ],
)
def test_consumed_capacity_is_written_as_kubernetes_writes_it(text, written):
    (portion,) = consumed_capacities({}, {"memory": objects.DeviceCapacity(value=text)})
    assert portion.text == written
