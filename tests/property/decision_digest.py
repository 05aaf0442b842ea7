"""A digest of many decisions, to the last bit, for comparison with another process: prints it as one line.

python -m tests.property.decision_digest
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterator

import numpy as np

from tests.unit.framework import fleet
from wharfinger.builtins import CATALOGUE, texts
from wharfinger.framework import chain
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.language.semantics.types import NUMERIC
from wharfinger.model.state.cluster_state import ClusterState

POLICY = """
policy "every function of numbers"
let alike = pods where it.labels["app"] == pod.labels["app"]
let here = count(alike, on: node)
metric measured: percent = prometheus("x", node: "node", refresh: 1s, max_age: 1h, min_coverage: 30%)
let load = measured / 100%
let share = (ratio(node.requested.cpu, node.allocatable.cpu) ?? 0%) / 100%
filter few { require here < 5 else "{here} already" }
filter cool { require 1 / (1 + exp(4 - 5 * share)) + load / 100 < 0.8 else "hot" on missing pass }
score steep weight 2.3 = clamp(100 * sigmoid(here - 2.5 + share), 0, 100)
score decay weight 0.7 = exp(-share * 3) normalize max
score log weight 1.1 = log(1 + node.pod_count * 0.37) normalize minmax on missing neutral
score curved weight 0.9 = curve(load + share / 3, 0 -> 3, 0.41 -> 97, 0.93 -> 0.1) on missing neutral
score root weight 1.3 = sqrt(share) * 10 + clamp(share * 7, 0.1, 3) normalize max on missing 3
score summed weight 0.3 = -sum(alike, it.requests.cpu / 7, within: "topology.kubernetes.io/zone") normalize minmax on missing neutral
score even weight 1 = balanced_allocation("cpu", "memory", "nvidia.com/gpu")
score spread weight 1 = spread(alike, by: "topology.kubernetes.io/zone") on missing neutral
tie_break log(1 + share) asc, sigmoid(load) desc
quantum 1e-12
"""
RESOURCES = [{"name": name} for name in ("cpu", "memory", "ephemeral-storage", *(f"example.com/r{number}" for number in range(9)))]
CONFIG = ChainConfig(arguments={"NodeResourcesBalancedAllocation": {"resources": RESOURCES}})


def cluster(chance: random.Random, n_nodes: int) -> ClusterState:
    state = ClusterState()
    for number in range(n_nodes):
        labels = {fleet.ZONE: chance.choice("abc"), "disk": chance.choice(["ssd", "hdd"])}
        state.add_node(fleet.node(f"n{number}", cpu=f"{chance.randint(3000, 9000)}m", memory=f"{chance.randint(7, 99)}Gi", labels=labels))
    state.set_metric("measured", {f"n{number}": (chance.random(), 0.0) for number in range(n_nodes)})
    return state


def decisions(seed: int, n_nodes: int, n_pods: int) -> Iterator[tuple[Decision, Decision]]:
    """Decisions of a decider that keeps results, each with that of a new decider; the pods are placed."""
    chance = random.Random(seed)
    state = cluster(chance, n_nodes)
    decider = Decider(chain.assemble([fleet.policy(POLICY)], CONFIG))
    for number in range(n_pods):
        app = chance.choice("uvw")
        pod = fleet.pod(f"{app}{number}", cpu=f"{'uvw'.index(app) * 37 + 101}m", labels={"app": app})
        snapshot = state.snapshot(1.0)
        decision = decider.decide(snapshot, pod)
        yield decision, decide(decider.chain, snapshot, pod)
        if decision.node is not None:
            state.assume(pod, decision.node)


def bits_of(decision: Decision) -> bytes:
    """The values of a decision, with every number as its eight bytes."""
    ranked = [(name.node, *name.totals) for name in decision.ranking(1000)]
    parts = [(part.name, part.raw, part.points) for name in decision.feasible_nodes() for part in decision.scores_at(name)]
    found = [decision.node, decision.message, *(item for row in [*ranked, *parts] for item in row)]
    return b"".join(struct.pack("<d", item) if isinstance(item, float) else repr(item).encode() for item in found)


def kernels(seed: int) -> Iterator[bytes]:
    """The results of every function of numbers for columns of many lengths."""
    chance = np.random.default_rng(seed)
    for function in CATALOGUE.functions():
        if function.context or isinstance(function.vector, texts.Kernel) or not function.parameters:
            continue
        if any(not parameter.kinds & NUMERIC for parameter in function.parameters):
            continue
        for length in (1, 2, 7, 64, 1001):
            columns = [chance.standard_normal(length) * 30 for _ in function.parameters]
            with np.errstate(all="ignore"):
                answer = function.vector(*columns)
            found, present = answer if isinstance(answer, tuple) else (answer, True)
            yield function.name.encode() + np.where(present, found, 0.0).tobytes()


def main() -> None:
    """Print the digest."""
    digest = hashlib.sha256()
    for seed, (n_nodes, n_pods) in enumerate([(1, 3), (3, 20), (17, 60), (130, 40)]):
        for kept, _ in decisions(seed, n_nodes, n_pods):
            digest.update(bits_of(kept))
    for answer in kernels(5):
        digest.update(answer)
    print(digest.hexdigest())  # noqa: T201 - what the program is for


if __name__ == "__main__":
    main()
