"""Groups whose members claim devices: a place is found exactly if one exists.

The plain definition is tried on tiny clusters: every member, on every node, in every order, with the devices that the chain gives it.
"""

from __future__ import annotations

from random import Random

import pytest
from msgspec import structs

from tests.bench import devices
from tests.group_searches import place
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.domains import TentativePlacement
from wharfinger.groups.terms import Group, GroupTerms, Level, Placed
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

CHAIN = assemble()
HOST, RACK, BLOCK = "kubernetes.io/hostname", "rack", "block"
LEVELS = [(), (), (Level(RACK),), (Level(BLOCK), Level(RACK)), (Level(BLOCK),)]


def add_nodes(random: Random, state: ClusterState) -> None:
    """Two or three nodes with up to four GPUs on two NUMA nodes each."""
    for number in range(random.randint(2, 3)):
        name = f"n{number}"
        labels = {HOST: name, RACK: f"r{number % 2}", BLOCK: random.choice(["b0", "b0", "b1"])}
        allocatable = {"cpu": str(random.randint(1, 5)), "memory": "64Gi", "pods": "110"}
        state.put(decode.convert({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}, objects.Node))
        gpus = [devices.device(name, place) for place in random.sample(range(8), random.randint(0, 4))]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": devices.DRIVER, "nodeName": name, "pool": pool, "devices": gpus}
        state.put(decode.convert({"metadata": {"name": f"{name}-gpu"}, "spec": spec}, objects.ResourceSlice))
    selector = {"cel": {"expression": f'device.driver == "{devices.DRIVER}"'}}
    state.put(decode.convert({"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}, objects.DeviceClass))


def member(random: Random, name: str, claim: str) -> PodView:
    """A member with a claim or without (""), and sometimes with a host port, anti-affinity or hard spread."""
    app, key = random.choice("ab"), random.choice([HOST, RACK])
    container: dict[str, object] = {"name": "c", "resources": {"requests": {"cpu": str(random.randint(0, 2))}}}
    spec: dict[str, object] = {"containers": [container]}
    if random.random() < 0.15:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    if random.random() < 0.25:
        term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": random.choice("ab")}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if random.random() < 0.2:
        even = {"topologyKey": key, "maxSkew": random.randint(1, 2), "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**even, "labelSelector": {"matchLabels": {"app": app}}}]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}
    return PodView(decode.convert({"metadata": metadata, "spec": spec}, objects.Pod))


def scene(seed: int) -> tuple[ClusterState, Group]:
    """A cluster, and a group of two to four members, some of which share a claim."""
    random, state = Random(seed), ClusterState(1_000.0)
    add_nodes(random, state)
    waiting: list[PodView] = []
    shared = ""
    for number in range(random.randint(2, 4)):
        claim, count = "", random.choice([0, 1, 1, 2, 3])
        if count and shared and random.random() < 0.3:
            claim = shared
        elif count:
            made = devices.claim(f"m{number}", count)
            claim = made.metadata.name
            state.put(structs.replace(made, metadata=structs.replace(made.metadata, owner_references=())))
            shared = claim if random.random() < 0.3 else shared
        waiting.append(member(random, f"m{number}", claim))
    least = random.choice([0, len(waiting), len(waiting), random.randint(1, len(waiting))])
    terms = GroupTerms(min_count=least, source="m", levels=random.choice(LEVELS))
    return state, Group(key="default/m", terms=terms, waiting=tuple(waiting))


def can_be_placed(tentative: TentativePlacement, left: list[PodView], wanted: int, rows: list[int]) -> bool:
    if wanted <= 0:
        return True
    for pod in left:
        for row in rows:
            if tentative.takes(row, pod):
                tentative.assume(pod, tentative.snapshot.names[row])
                found = can_be_placed(tentative, [other for other in left if other is not pod], wanted - 1, rows)
                tentative.forget_last()
                if found:
                    return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_the_answer_is_that_of_trying_everything(seed: int) -> None:
    state, group = scene(seed)
    snapshot = state.snapshot()
    domains: dict[tuple[str | None, ...], list[int]] = {}
    for row in range(snapshot.n_nodes):
        domains.setdefault(tuple(snapshot.node(row).labels.get(level.key) for level in group.terms.levels), []).append(row)
    every = TentativePlacement(Decider(CHAIN), state, 10**9)
    possible = any(can_be_placed(every, list(group.waiting), max(1, group.needed), rows) for rows in domains.values())
    answer = place(Decider(CHAIN), state, group)
    assert isinstance(answer, Placed) is possible, answer
    members = {pod.uid: pod for pod in group.waiting}
    for uid, name in answer.nodes.items() if isinstance(answer, Placed) else ():
        assert every.takes(state.snapshot().known_row(name), members[uid])
        every.assume(members[uid], name)
