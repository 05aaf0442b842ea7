"""What policies and GpuShares read of the devices of all nodes is read in steps before the first decision about a pod."""

import pytest

from tests.unit.framework.kube import node, pod, state
from tests.unit.language.policies import policy
from tests.work import calls
from wharfinger.compiler.program import compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.evaluation.kept_result import CHANGED_AT_ONCE
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

NODES, GPUS = 400, 4
SHARE, INDEX = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-index"
OFFER = {"cpu": "64", "nvidia.com/gpu": str(GPUS), SHARE: str(1000 * GPUS)}
REQUESTS = ", ".join(f"{{ cpu: {1 + i}cpu, gpu: 1, milli: {40 * i + 5}, weight: 5% }}" for i in range(20))
WORKLOAD = f"workload w = [{REQUESTS}]\n"
RULES = {
    "none": "",
    "now": f"{WORKLOAD}score s = -fragmentation(w) normalize minmax",
    "after": f"{WORKLOAD}score s = -fragmentation_after(w) normalize minmax on missing skip",
    "after, and all nodes": (
        f"{WORKLOAD}score s = count(pods where it.priority > 1) - fragmentation_after(w) normalize minmax on missing skip"
    ),
    "a preference": f"{WORKLOAD}prefer device d = -fragmentation_with(it, w)",
    "attributes": 'score s = count(devices where it.attributes["product"] == "T4" and it.free["milli"] > 100, on: node) normalize minmax',
}


def view(manifest):
    return PodView(decode.convert(manifest, objects.Pod))


def share(name, milli, on="", gpu=None, cpu="1"):
    metadata = {} if gpu is None else {"annotations": {INDEX: str(gpu)}}
    return pod(name, on=on, requests={"cpu": cpu, SHARE: str(milli)}, metadata=metadata)


def cluster(n_nodes=NODES):
    nodes = [node(f"n{i:04}", offer=OFFER, labels={"nvidia.com/gpu.product": f"T{i % 7}"}) for i in range(n_nodes)]
    return state(nodes, [share(f"p{i}", 1 + i * 7919 % 900, f"n{i // GPUS:04}", i % GPUS) for i in range(GPUS * n_nodes)])


def decider_of(rule):
    return Decider(assemble([compile_policy(policy(rule))] if rule else []))


def answer(decision):
    return decision.node, [given.device for given in decision.devices]


def works(decider, there, asked):
    """The work of each step, and of the decision after them."""
    steps, done = decider.precompute(there.snapshot, asked), []
    while not done or done[-1] > 10:
        done.append(calls(lambda: next(steps, None)))
    return done, calls(lambda: decider.decide(there.snapshot(), asked))


@pytest.fixture(autouse=True)
def all_in_steps(monkeypatch):
    monkeypatch.setattr(cycle, "STEPS_AT_ONCE", 0)


@pytest.mark.parametrize("rule", RULES)
def test_the_work_of_a_step_does_not_grow_with_the_nodes(rule):
    most = []
    for n_nodes in (NODES // 2, NODES):
        steps, decision = works(decider_of(RULES[rule]), cluster(n_nodes), view(share("p", 100)))
        most.append((max(steps), decision))
        assert sum(steps) > 20 * n_nodes
    assert all(large < small + NODES for small, large in zip(*most, strict=True))


@pytest.mark.parametrize("rule", ["after", "after, and all nodes"])
def test_what_changed_on_many_nodes_is_computed_in_steps(rule):
    there, decider, asked = cluster(), decider_of(RULES[rule]), view(share("p", 100))
    works(decider, there, asked)
    for number in range(CHANGED_AT_ONCE + 1):
        there.add_pod(decode.convert(share(f"more{number}", 50, f"n{number:04}", 0), objects.Pod))
    steps, decision = works(decider, there, asked)
    assert max(steps) + decision < sum(steps) / 3
    assert answer(decider.decide(there.snapshot(), asked)) == answer(decide(decider.chain, there.snapshot().detach(), asked))


CHANGES = {
    "nothing": lambda there: None,
    "a pod": lambda there: there.add_pod(decode.convert(share("new", 99, "n0000", 0), objects.Pod)),
    "a node": lambda there: there.add_node(decode.convert(node("new", offer=OFFER), objects.Node)),
    "other GPUs": lambda there: there.add_node(
        decode.convert(node("n0003", offer=OFFER | {"nvidia.com/gpu": "8", SHARE: "8000"}), objects.Node)
    ),
    "a claim": lambda there: there.put(objects.ResourceClaim(metadata=objects.ObjectMeta(name="c", namespace="default", uid="c"))),
}


@pytest.mark.parametrize("taken", [3, 30, 1000])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rule", RULES)
def test_changes_between_the_steps_are_seen(rule, change, taken):
    there, decider, asked = cluster(40), decider_of(RULES[rule]), view(share("p", 100))
    steps = decider.precompute(there.snapshot, asked)
    for _ in zip(range(taken), steps, strict=False):
        pass
    CHANGES[change](there)
    for _ in steps:
        pass
    assert answer(decider.decide(there.snapshot(), asked)) == answer(decide(decider.chain, there.snapshot().detach(), asked))
