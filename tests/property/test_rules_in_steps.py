"""A decision after steps of computing costly rules equals one without them to the last bit, also if the cluster changes meanwhile."""

import random
from contextlib import nullcontext

import pytest

from tests.property import decision_digest
from tests.property.decision_digest import CONFIG, POLICY, bits_of
from tests.unit.framework import fleet
from wharfinger.compiler import bound
from wharfinger.framework import chain
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.cycle import Decider, Pause, decide

RANKED = """
policy "ranked"
score points weight 0.7 = topology_spread_points() + node.pod_count * 0.1 normalize minmax
let near = count(pods where it.labels["app"] == pod.labels["app"], within: "topology.kubernetes.io/zone") ?? 0
score apart weight 0.2 = near normalize minmax
tie_break max(node.pod_count, 3) asc, node.free.memory desc
"""
CHECK = """
policy "aged"
filter young { require age(node.created) < 2d or node.pod_count < 4 else "old" on missing pass }
score age weight 0.4 = node.pod_count * 0.3 + age(node.created) / 1s normalize minmax on missing neutral
"""
MEASURING = fleet.policy(POLICY)


@pytest.fixture
def precomputed(monkeypatch):
    """The rules whose outputs have been computed before a decision; each step is one operation."""
    monkeypatch.setattr(cycle, "OPERATIONS_AT_ONCE", -1)
    monkeypatch.setattr("wharfinger.framework.evaluation.kept_result.OPERATIONS_AT_ONCE", 10)
    monkeypatch.setattr(bound, "OPERATIONS_PER_STEP", 1)
    monkeypatch.setattr(cycle, "suppress", lambda _: nullcontext())  # an error in a step would lose all work, unseen
    taken, usual = [], bound.BoundPolicy._from_precomputed

    def from_precomputed(self, rule, *of):
        found = usual(self, rule, *of)
        if found is not None:
            taken.append(rule.name)
        return found

    monkeypatch.setattr(bound.BoundPolicy, "_from_precomputed", from_precomputed)
    return taken


class World:
    """A cluster that changes at random."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.state = decision_digest.cluster(self.chance, 12)
        self.now = 1.0
        self._samples()
        self.number = 0

    def snapshot(self):
        return self.state.snapshot(self.now)

    def _samples(self):
        (metric,) = MEASURING.policy.metrics
        self.state.set_metric(metric.key.names[0], {each: (self.chance.random(), self.now) for each in self.snapshot().names})

    def change(self):
        """One change of any kind."""
        self.number += 1
        name = self.chance.choice(self.snapshot().names)
        kind = self.chance.choice(["pod", "pod", "pod", "second", "samples", "label", "node", "gone"])
        if kind == "pod":
            self.state.assume(fleet.pod(f"other{self.number}", labels={"app": self.chance.choice("uvw")}), name)
        elif kind == "second":
            self.now += 1
        elif kind == "samples":
            self._samples()
        elif kind == "gone" and len(self.snapshot().names) > 4:
            self.state.remove_node(name)
        else:
            labels = {fleet.ZONE: self.chance.choice("abc"), "disk": "ssd"}
            self.state.add_node(fleet.node(f"m{self.number}" if kind == "node" else name, cpu="7", memory="30Gi", labels=labels))


@pytest.mark.parametrize("often", [0.0, 0.01, 0.2], ids=["quiet", "sometimes", "often"])
@pytest.mark.parametrize("seed", range(4))
def test_steps_change_no_decision(seed, often, precomputed):
    world = World(seed)
    decider = Decider(chain.assemble([MEASURING, fleet.policy(CHECK)], CONFIG))
    for number in range(12):
        pod = fleet.pod(f"p{number}", cpu="150m", labels={"app": world.chance.choice("uvw")})
        steps = 0
        for _ in decider.precompute(world.snapshot, pod):
            steps += 1
            if world.chance.random() < often:
                world.change()
        decision = decider.decide(world.snapshot(), pod)
        assert bits_of(decision) == bits_of(decide(decider.chain, world.snapshot().detach(), pod))
        assert number or often or steps > 30
        if decision.node is not None:
            world.state.assume(pod, decision.node)
        for _ in range(world.chance.choice([0, 0, 1, 5])):
            world.change()
    assert often > 0.1 or {"few", "log"} <= set(precomputed)
    assert often or {"cool", "curved", "summed", "age"} <= set(precomputed)


@pytest.mark.parametrize("often", [0.0, 0.02, 0.3], ids=["quiet", "sometimes", "often"])
@pytest.mark.parametrize("seed", range(6))
def test_decisions_that_are_concluded_in_steps_are_the_same(seed, often, precomputed, monkeypatch):
    for module, most in (("framework.rules.work", "MAX_AT_ONCE"), ("framework.evaluation.kept_result", "MAX_AT_ONCE")):
        monkeypatch.setattr(f"wharfinger.{module}.{most}", 100)
    monkeypatch.setattr("wharfinger.framework.rules.work.IN_PORTION", 1)
    world = World(seed)
    decider = Decider(chain.assemble([MEASURING, fleet.policy(CHECK), fleet.policy(RANKED)], CONFIG))
    concluded = 0
    for number in range(12):
        pod = fleet.pod(f"p{number}", cpu="150m", labels={"app": world.chance.choice("uvw")})
        for pause in decider.precompute(world.snapshot, pod):
            concluded += pause is Pause.CONCLUDING
            chance = world.chance.random()
            if chance < often:
                world.change()
            elif chance < 2 * often:  # another reader of the same results
                decider.filtering(world.snapshot(), pod)
        decision = decider.decide(world.snapshot(), pod)
        assert bits_of(decision) == bits_of(decide(decider.chain, world.snapshot().detach(), pod))
        if decision.node is not None:
            world.state.assume(pod, decision.node)
        for _ in range(world.chance.choice([0, 0, 1, 5])):
            world.change()
    assert concluded > 20
