"""No relaxation returns fewer members for a domain than it takes."""

import functools

import numpy as np
import pytest

from tests.bench.group_cases import RACK, feasible, group_of, random_case, state_of
from tests.group_searches import place
from tests.unit.scheduler.running import node, pod
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.exact import member_classes, relaxations
from wharfinger.groups.exact.group_model import GroupModel
from wharfinger.groups.exact.member_classes import Merging, class_axes, requirements_in_steps
from wharfinger.groups.terms import Impossible, Placed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.steps import at_once

CHAIN = assemble()


def bounds(case):
    """The number of members that each relaxation says the nodes of the placement take at most, and how many they take."""
    state, group, decider = state_of(case), group_of(case), Decider(CHAIN)
    answer = place(decider, state, group)
    assert isinstance(answer, Placed)
    snapshot = state.snapshot()
    within = np.array(
        [row for row in range(snapshot.n_nodes) if all(snapshot.node(row).labels.get(k) == v for k, v in answer.domains.items())], np.intp
    )
    classes = at_once(member_classes.classes(decider, member_classes.ordered(group.waiting), snapshot))
    found = []
    for relaxation in relaxations.relaxations(classes):
        models = at_once(relaxation.models(decider, snapshot))
        assert sum(model.n_members for model in models) == case.n_members
        found.append(sum(at_once(model.solve(within, 1e9)).n_placeable if model.fits_in_space else model.n_members for model in models))
    return found, len(answer.nodes)


@functools.cache
def placed_seeds(number):
    """Seeds of cases of several classes that can be placed."""
    several = (seed for seed in range(1_000) if len(random_case(seed).classes) > 2)
    placeable = (
        seed for seed in several if isinstance(place(Decider(CHAIN), state_of(random_case(seed)), group_of(random_case(seed))), Placed)
    )
    return [seed for _, seed in zip(range(number), placeable, strict=False)]


@pytest.mark.parametrize("most", [4, 64])
def test_bounds_are_never_too_low(most, monkeypatch):
    """Spaces so small that classes are merged, and that nearly each is a separate part."""
    monkeypatch.setattr(relaxations, "MAX_PART_VECTORS", most)
    monkeypatch.setattr(relaxations, "MAX_MERGED", most * 8)
    monkeypatch.setattr(relaxations, "MAX_VECTORS", most * 16)
    for seed in placed_seeds(8):
        found, takes = bounds(random_case(seed))
        assert all(bound >= takes for bound in found), seed


def spread(name, cpu):
    """Two members of a class: all pods with the label `app: a` count for its spread over racks."""
    constraint = {"topologyKey": RACK, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}
    return [pod(f"{name}-{number}", cpu, labels={"app": "a"}, topologySpreadConstraints=[constraint]) for number in range(2)]


def near(name, cpu):
    """Two members of a class, which must be in a rack with a pod of the label `app: b`."""
    term = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "b"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return [pod(f"{name}-{number}", cpu, labels={"app": "a"}, affinity=affinity) for number in range(2)]


@pytest.mark.parametrize(
    ("counted", "others", "takes"),
    [
        pytest.param(spread("a", "4"), spread("small", "1"), {False: 1, True: 2}, id="others may even out what a spread counts"),
        pytest.param(
            near("a", "1"), [pod("b-0", labels={"app": "b"})], {False: 0, True: 2}, id="others may be what members wish to be near"
        ),
    ],
)
def test_rules_that_other_members_may_fulfil_do_not_count(counted, others, takes):
    """Only the first rack has nodes for members of 4 CPUs."""
    state = ClusterState(1_000.0)
    for name, rack, cpu in (("n0", "r0", "8"), ("n1", "r1", "2")):
        state.add_node(node(name, cpu, labels=[(RACK, rack)]))
    decider, snapshot = Decider(CHAIN), state.snapshot()
    own, left_out = (at_once(member_classes.classes(decider, [PodView(each) for each in pods], snapshot)) for pods in (counted, others))
    for known, most in takes.items():
        axes = at_once(class_axes(own, at_once(requirements_in_steps(decider, snapshot, own)), Merging.LEAST))
        model = GroupModel(snapshot, own, axes, Merging.LEAST, left_out if known else ())
        at_once(model.prepare())
        assert at_once(model.solve(np.arange(2), 1e9)).n_placeable == most


@pytest.mark.parametrize("seed", [81, 206, 258, 299, 362])
def test_groups_of_many_kinds_are_shown_to_have_no_place(seed):
    case = random_case(seed)
    answer = place(Decider(CHAIN), state_of(case), group_of(case))
    assert isinstance(answer, Impossible)
    assert feasible(case) is False
