"""The devices of nodes are looked at in steps, and again only on nodes where something has changed."""

from types import SimpleNamespace

import pytest
from msgspec import structs

from tests.bench import devices
from tests.in_memory import ManualClock
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation import filtering
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.plugins.devices import device_rule, requests, search
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model import objects
from wharfinger.model.devices.pools import Pools
from wharfinger.model.state.device_states import DeviceStates
from wharfinger.model.state.node_reader import READ_AT_ONCE
from wharfinger.operator.policy_checks import PolicyChecks
from wharfinger.operator.preview_answer import WhatIf, answer_preview
from wharfinger.simulate import placing
from wharfinger.what_if.drain.plan import precompute_drain
from wharfinger.what_if.supposed_changes import SupposedChanges, evaluated

NODES = 2 * READ_AT_ONCE
CHAIN = assemble()
POD = devices.pending("p", claims=True)


@pytest.fixture
def state():
    found = devices.cluster(NODES)
    found.put(devices.claim("p", 2))
    return found


@pytest.fixture
def looked_at(monkeypatch):
    """The nodes whose devices were looked at."""
    rows, number = [], DeviceStates._number

    def counted(self, snapshot, row):
        rows.append(snapshot.names[row])
        return number(self, snapshot, row)

    monkeypatch.setattr(DeviceStates, "_number", counted)
    return rows


def other_devices(state):
    """Each node has another number of devices now."""
    for number, each in enumerate(state.objects.all(objects.ResourceSlice)):
        (first, *_) = each.spec.devices
        more = tuple(structs.replace(first, name=f"d{place}") for place in range(number + 1))
        state.put(structs.replace(each, spec=structs.replace(each.spec, devices=more)))


def test_each_node_is_a_step_and_the_decision_looks_at_none(state, looked_at):
    decider = Decider(CHAIN)
    for _ in decider.precompute(state.snapshot, POD):
        assert len(looked_at) <= NODES
    assert len(looked_at) == NODES
    assert decider.decide(state.snapshot(), POD).node is not None
    assert len(looked_at) == NODES


def test_steps_look_at_one_node_each(state, looked_at):
    steps, before = Decider(CHAIN).precompute(state.snapshot, POD), 0
    for _ in steps:
        assert len(looked_at) - before <= 1
        before = len(looked_at)


@pytest.mark.parametrize("change", ["comes", "goes"])
def test_a_node_that_comes_or_goes_is_no_look_at_all_others(state, looked_at, change):
    decider = Decider(CHAIN)
    decider.decide(state.snapshot(), POD)
    looked_at.clear()
    first = state.snapshot().node_object(0)
    if change == "goes":
        state.remove_node(first.metadata.name)
    else:
        state.add_node(structs.replace(first, metadata=structs.replace(first.metadata, name="new")))
    found = decider.decide(state.snapshot(), POD)
    assert looked_at == (["new"] if change == "comes" else [])
    fresh = decide(CHAIN, state.snapshot().detach(), POD)
    assert (found.node, found.message, found.feasible) == (fresh.node, fresh.message, fresh.feasible)


def test_slices_of_all_nodes_that_change_at_once_are_looked_at_in_steps_also_for_pods_that_are_known(state, looked_at, monkeypatch):
    searches, search = [], device_rule.search_in_steps
    monkeypatch.setattr(device_rule, "search_in_steps", lambda *of: searches.append(1) or search(*of))
    decider = Decider(CHAIN)
    decider.decide(state.snapshot(), POD)
    looked_at.clear()
    searches.clear()
    other_devices(state)
    work = []
    for _ in decider.precompute(state.snapshot, POD):
        work.append(len(looked_at) + len(searches))
        looked_at.clear()
        searches.clear()
    assert sum(work) == 2 * NODES
    assert max(work) == 1
    decider.decide(state.snapshot(), POD)
    assert (looked_at, searches) == ([], [])


@pytest.fixture
def spent(monkeypatch):
    """The work of a step: devices read, times kinds of alternatives, and the steps of searches as a part of those between two pauses."""
    work, read, spend = [0.0], requests.ClaimDemand._device, search.Search._spend

    def reading(self, content):
        if content.number not in self._by_content:
            work[0] += len(self.kinds) / requests.MAX_READ_AT_ONCE
        return read(self, content)

    def spending(self, steps):
        work[0] += steps / search.STEPS_AT_ONCE
        return spend(self, steps)

    monkeypatch.setattr(requests.ClaimDemand, "_device", reading)
    monkeypatch.setattr(search.Search, "_spend", spending)
    return work


@pytest.mark.parametrize("n_devices", [8, 128])
@pytest.mark.parametrize("wanted", sorted(devices.LARGEST))
def test_each_step_reads_few_devices_and_is_a_part_of_a_search(monkeypatch, spent, wanted, n_devices):
    monkeypatch.setattr(devices, "DEVICES", n_devices)
    state = devices.cluster(4)
    state.put(devices.claim_of("p", devices.LARGEST[wanted]))
    decider, work = Decider(CHAIN), []
    for _ in decider.precompute(state.snapshot, POD):
        work.append(spent[0])
        spent[0] = 0.0
    assert max(work) < 2.5
    assert sum(work) > 1
    spent[0] = 0.0
    decider.decide(state.snapshot(), POD)
    assert spent[0] == 0.0


def test_a_decision_puts_errors_of_few_nodes_into_words_and_reads_the_outcome_of_each_node_as_it_is_known(monkeypatch):
    texts, read, text = [], [], device_rule.DeviceRule.fault_at
    monkeypatch.setattr(device_rule.DeviceRule, "fault_at", lambda *of: texts.append(1) or text(*of))
    monkeypatch.setattr(filtering, "MAX_FAULTS", 3)
    state = devices.cluster(NODES)
    state.put(devices.claim_of("p", devices.LARGEST["orders"]))
    decider = Decider(CHAIN)
    list(decider.precompute(state.snapshot, POD))
    monkeypatch.setattr(requests.ClaimDemand, "pool", lambda *_: read.append(1))
    found = decider.decide(state.snapshot(), POD)
    assert list(found.aborted) == ["n00000", "n00001", "n00002"]
    assert found.message == found.aborted["n00000"]
    assert (len(texts), read) == (3, [])


def test_long_searches_for_a_few_nodes_that_have_changed_take_steps_also_for_pods_that_are_known(state, spent):
    state.put(devices.claim_of("p", devices.LARGEST["orders"]))
    decider = Decider(CHAIN)
    list(decider.precompute(state.snapshot, POD))
    decider.decide(state.snapshot(), POD)
    slices = state.objects.all(objects.ResourceSlice)[:3]
    for number, each in enumerate(slices, start=1):
        state.put(structs.replace(each, spec=structs.replace(each.spec, devices=each.spec.devices[number:])))
    spent[0], work = 0.0, []
    for _ in decider.precompute(state.snapshot, POD):
        work.append(spent[0])
        spent[0] = 0.0
    assert sum(work) > 3
    assert max(work) < 2.5
    spent[0] = 0.0
    decider.decide(state.snapshot(), POD)
    assert spent[0] < 1


def test_a_cluster_that_is_followed_from_the_start_reads_no_slices_at_the_first_claim(monkeypatch):
    found = devices.cluster(4)
    for plugin in CHAIN.precomputing:
        plugin.follow(found.objects)
    told, changed = [], Pools.changed
    monkeypatch.setattr(Pools, "changed", lambda self, old, new: told.append(1) or changed(self, old, new))
    found.put(devices.claim("p", 1))
    assert Decider(CHAIN).decide(found.snapshot(), POD).node is not None
    assert told == []


def checked(state):
    """The steps in which the operator looks ahead of a check of a placed pod."""
    name = POD.object.spec.scheduler_name
    scheduler = SimpleNamespace(profiles=[SimpleNamespace(name=name, chain=CHAIN)], state=state, snapshot=state.snapshot)
    ran = structs.replace(POD.object, spec=structs.replace(POD.object.spec, node_name="n00000"))
    return PolicyChecks(scheduler, ManualClock(), TenantRights()).precompute(ran)


@pytest.mark.parametrize(
    "asked",
    [
        lambda state: placing.place_pods(Decider(CHAIN), state, [POD], watch=lambda *_: None),
        lambda state: evaluated(Decider(CHAIN), SupposedChanges(state), [POD]),
        lambda state: answer_preview(CHAIN, state.snapshot(), [POD]),
        lambda state: answer_preview(CHAIN, state.snapshot(), [POD], what_if=WhatIf(drain=("n00000",))),
        lambda state: precompute_drain(Decider(CHAIN), SupposedChanges(state), ["n00000"], [POD]),
        checked,
    ],
    ids=["dry run", "evaluation", "preview", "preview of a drain", "drain", "check of a placed pod"],
)
def test_questions_that_are_answered_on_the_event_loop_look_at_one_node_in_a_step(state, looked_at, asked):
    before = 0
    for _ in asked(state):
        assert len(looked_at) - before <= 2  # one more may have changed by a decision
        before = len(looked_at)
    assert NODES <= len(looked_at) <= NODES + 2
