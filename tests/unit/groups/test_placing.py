"""Groups are placed as a whole, within their domains, and the state is as before unless the placement is kept."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec import structs

from tests.group_searches import place, preempt
from tests.unit.framework.fleet import policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.groups import domains
from wharfinger.groups.membership import group_of_policies
from wharfinger.groups.placing import placing
from wharfinger.groups.preempting import preempting
from wharfinger.groups.terms import Disruption, Group, GroupTerms, Impossible, Level, NotFound, Placed, Preemption
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

RACK, BLOCK = "rack", "block"


def node(name: str, cpu: int = 4, **labels: str) -> objects.Node:
    return objects.Node(
        metadata=objects.ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **labels}),
        status=objects.NodeStatus(allocatable={"cpu": str(cpu), "memory": "64Gi", "pods": "110"}),
    )


def member(name: str, cpu: int | str = 1, priority: int = 0) -> PodView:
    container = objects.Container(name="main", resources=objects.ContainerResources(requests={"cpu": str(cpu)}))
    return PodView(
        objects.Pod(
            metadata=objects.ObjectMeta(name=name, namespace="default", uid=name),
            spec=objects.PodSpec(containers=(container,), priority=priority),
        )
    )


def members(number: int, cpu: int = 1) -> list[PodView]:
    return [member(f"m{index}-{cpu}", cpu) for index in range(number)]


def cluster(nodes: Sequence[objects.Node]) -> ClusterState:
    state = ClusterState(1000.0)
    for each in nodes:
        state.add_node(each)
    return state


def group(waiting: Sequence[PodView], min_count: int | None = None, levels: Sequence[Level] = (), placed: Sequence[PodView] = ()) -> Group:
    least = len(waiting) + len(placed) if min_count is None else min_count
    terms = GroupTerms(min_count=least, source="PodGroup default/training", levels=tuple(levels))
    return Group(key="default/training", terms=terms, waiting=tuple(waiting), placed=tuple(placed))


def racks(sizes: Sequence[int], cpu: int = 4) -> ClusterState:
    """A rack of each of these numbers of nodes; two racks are a block."""
    return cluster(
        [
            node(f"r{rack}-{number}", cpu, rack=f"r{rack}", block=f"b{rack // 2}")
            for rack, size in enumerate(sizes)
            for number in range(size)
        ]
    )


def decider() -> Decider:
    return Decider(assemble())


def test_every_member_is_placed_in_one_rack_and_the_state_is_as_before() -> None:
    state = racks([1, 3, 2])
    before = dict(enumerate(state.placements()))
    answer = place(decider(), state, group(members(12), levels=[Level(RACK)]))
    assert isinstance(answer, Placed)
    assert answer.domains == {RACK: "r1"}
    assert {name.split("-")[0] for name in answer.nodes.values()} == {"r1"}
    assert len(answer.nodes) == 12
    assert dict(enumerate(state.placements())) == before


def test_a_placement_that_is_kept_stays_assumed() -> None:
    state = racks([2])
    waiting = members(8)
    answer = place(decider(), state, group(waiting), keep=True)
    assert isinstance(answer, Placed)
    assert all(state.is_assumed(pod.uid) for pod in waiting)


def test_a_few_members_that_are_kept_are_assumed_once() -> None:
    state = racks([2])
    before = state.revision
    waiting = members(8)
    answer = place(decider(), state, group(waiting), keep=True)
    assert isinstance(answer, Placed)
    assert state.revision - before == len(waiting)
    assert {pod.uid: pod.node_name for pod, assumed in state.placements() if assumed} == answer.nodes


@pytest.mark.parametrize("least", [1, 9])
def test_a_few_members_of_which_some_have_no_place_leave_nothing_behind(least: int) -> None:
    state = racks([2])
    before = dict(enumerate(state.placements()))
    answer = place(decider(), state, group(members(9), least), keep=True)
    if least == 9:
        assert isinstance(answer, Impossible)
        assert dict(enumerate(state.placements())) == before
    else:
        assert isinstance(answer, Placed)
        assert len(answer.left) == 1
        assert {pod.uid: pod.node_name for pod, _ in state.placements()} == answer.nodes


def test_each_step_of_a_placement_is_a_decision_of_the_chain() -> None:
    state, chain = racks([3, 3]), assemble()
    waiting = [*members(3, 2), *members(6, 1)]
    answer = place(Decider(chain), state, group(waiting, levels=[Level(RACK)]))
    assert isinstance(answer, Placed)
    by_uid = {pod.uid: pod for pod in waiting}
    for uid, name in answer.nodes.items():
        assert name in decide(chain, state.snapshot(), by_uid[uid]).feasible_nodes()
        state.assume(by_uid[uid], name)


def test_one_member_too_many_is_impossible_and_the_nearest_rack_is_named() -> None:
    answer = place(decider(), racks([1, 3, 2]), group(members(13), levels=[Level(RACK)]))
    assert isinstance(answer, Impossible)
    assert [(fit.value, fit.fits, fit.wanted) for fit in answer.nearest] == [("r1", 12, 13), ("r2", 8, 13), ("r0", 4, 13)]


def test_placed_members_pin_the_domain() -> None:
    state = racks([4, 2])
    first = member("first")
    state.assume(first, "r1-0")
    answer = place(decider(), state, group(members(7), levels=[Level(RACK)], placed=[first.placed_on("r1-0")]))
    assert isinstance(answer, Placed)
    assert answer.domains == {RACK: "r1"}
    full = place(decider(), state, group(members(8), levels=[Level(RACK)], placed=[first.placed_on("r1-0")]))
    assert isinstance(full, Impossible | NotFound)


def test_a_preferred_level_is_left_where_no_domain_of_it_takes_the_group() -> None:
    state = racks([2, 2, 2, 1])
    levels = [Level(BLOCK), Level(RACK, required=False)]
    near = place(decider(), state, group(members(8), levels=levels))
    wide = place(decider(), state, group(members(16), levels=levels))
    assert isinstance(near, Placed)
    assert RACK in near.domains
    assert isinstance(wide, Placed)
    assert wide.domains == {BLOCK: "b0"}


def test_members_beyond_the_minimum_are_placed_where_they_fit() -> None:
    answer = place(decider(), racks([2, 3]), group(members(14), min_count=5, levels=[Level(RACK)]))
    assert isinstance(answer, Placed)
    assert (len(answer.nodes), len(answer.left), answer.domains) == (12, 2, {RACK: "r1"})


@pytest.mark.parametrize(("cpus", "requests"), [((3, 2, 1), (1, 3, 2)), ((4, 6), (2, 2, 3, 3))])
@pytest.mark.parametrize("min_count", [0, 1, 2])
def test_members_beyond_the_minimum_are_placed_where_all_fit(cpus: Sequence[int], requests: Sequence[int], min_count: int) -> None:
    state = cluster([node(f"n{number}", cpu) for number, cpu in enumerate(cpus)])
    waiting = [member(f"m{number}", cpu) for number, cpu in enumerate(requests)]
    answer = place(decider(), state, group(waiting, min_count=min_count))
    assert isinstance(answer, Placed)
    assert (len(answer.nodes), answer.left) == (len(requests), ())
    assert not list(state.placements())


def test_a_member_does_not_lose_its_place_to_more_members_of_lower_priority() -> None:
    waiting = [member("large", 4, priority=10), member("small-0", 2), member("small-1", 2)]
    answer = place(decider(), cluster([node("only", 4)]), group(waiting, min_count=1))
    assert isinstance(answer, Placed)
    assert set(answer.nodes) == {"large"}


def test_members_that_do_not_exist_yet_are_waited_for() -> None:
    answer = place(decider(), racks([4]), group(members(3), min_count=4))
    assert isinstance(answer, Impossible)
    assert answer.message == "3 members of at least 4 exist"


def test_a_search_that_is_closed_leaves_the_state_as_before() -> None:
    state = racks([4])
    search = placing(decider(), state, group(members(8)))
    for _ in range(6):
        next(search)
    assert list(state.placements())
    search.close()
    assert not list(state.placements())


@pytest.mark.parametrize("number", [2, 5])
def test_the_budget_ends_a_search(number: int) -> None:
    answer = place(decider(), racks([2, 2]), group([*members(4, 3), *members(1)]), steps=number)
    assert isinstance(answer, NotFound | Placed)
    assert not isinstance(answer, NotFound) or answer.steps <= 5


SPREAD = """
policy "spread"

for pods where has(pod.labels["job"])

group by pod.labels["job"] {
  min_count 2
  within required "rack"
  spread_over "block"
}
"""


def test_groups_of_a_policy_go_to_different_blocks_while_there_are_some() -> None:
    chain = assemble([policy(SPREAD)])
    state = racks([2, 2, 2, 2])
    finding = Decider(chain)
    blocks = []
    for number in range(3):
        waiting = [labelled(f"{number}-{index}", f"job-{number}") for index in range(2)]
        found = group_of_policies(chain.policies, waiting[0], state.snapshot(1000.0))
        assert found is not None
        answer = place(finding, state, Group(key=f"default/{found[0]}", terms=found[1], waiting=tuple(waiting)), keep=True)
        assert isinstance(answer, Placed)
        assert len({name.split("-")[0] for name in answer.nodes.values()}) == 1
        blocks.append({state.snapshot().node(state.snapshot().known_row(name)).labels[BLOCK] for name in answer.nodes.values()})
    assert blocks[0] != blocks[1]
    assert blocks[2] in blocks[:2]


def labelled(name: str, job: str) -> PodView:
    pod = member(name).object
    return PodView(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels={"job": job})))


def test_the_most_important_pods_are_put_back_first() -> None:
    def running(name: str, priority: int, started: int, group: str = "") -> PodView:
        pod = member(name, 4, priority).object
        spec = msgspec.structs.replace(pod.spec, node_name=f"r0-{name[1]}")
        if group:
            spec = msgspec.structs.replace(spec, scheduling_group=objects.PodSchedulingGroup(pod_group_name=group))
        status = objects.PodStatus(start_time=datetime.fromtimestamp(started, UTC))
        return PodView(msgspec.structs.replace(pod, spec=spec, status=status))

    state = racks([6])
    placed = [
        running("p0", -1, 10),
        running("p1", -1, 20),
        running("p2", -2, 1),
        running("p3", -1, 30, "one"),
        running("p4", -1, 30, "both"),
        running("p5", -1, 40, "both"),
    ]
    for each in placed:
        state.add_pod(each)
    both = GroupTerms(min_count=2, source="both", disruption=Disruption.GROUP)
    other = Group(key="default/both", terms=both, waiting=(), placed=tuple(placed[4:]))
    answers = []
    for number in range(1, 7):
        answer = preempt(decider(), state, group(members(number, 4)), [other])
        assert isinstance(answer, Preemption)
        answers.append("".join(pod.name[1] for pod in answer.victims))
    assert answers == ["2", "12", "012", "3012", "45012", "453012"]
    spec = msgspec.structs.replace(member("never").object.spec, preemption_policy="Never")
    never = PodView(msgspec.structs.replace(member("never").object, spec=spec))
    refused = preempt(decider(), state, group([never]))
    assert isinstance(refused, Impossible)
    assert refused.message == "preemption: not eligible due to preemptionPolicy=Never."
    for own, pod, answer in (("PreemptLowerPriority", never, Preemption), ("Never", member("other"), Impossible)):
        asked = group([pod])
        terms = structs.replace(asked.terms, preemption_policy=own)
        assert isinstance(preempt(decider(), state, structs.replace(asked, terms=terms)), answer)


def test_pods_that_a_policy_protects_stay() -> None:
    state = racks([2])
    for number in range(2):
        pod = member(f"p{number}", 4, -1).object
        spec = msgspec.structs.replace(pod.spec, node_name=f"r0-{number}")
        metadata = msgspec.structs.replace(pod.metadata, labels={"kept": "yes"} if number else {})
        state.add_pod(msgspec.structs.replace(pod, spec=spec, metadata=metadata))
    text = 'policy "spares"\n\npreemption {\n  never_evict when has(it.labels["kept"])\n}\n'
    finding = Decider(assemble([policy(text)]))
    one = preempt(finding, state, group(members(1, 4)))
    assert isinstance(one, Preemption)
    assert [pod.name for pod in one.victims] == ["p0"]
    assert isinstance(preempt(finding, state, group(members(2, 4))), Impossible)


def test_domains_of_many_levels_are_told_apart():
    """Two nodes differ in the widest of six levels alone, and numbers of the combinations would have more than 64 bits."""
    keys = [f"level{number}" for number in range(6)]
    values = [[f"v{node}"] * len(keys) for node in range(2048)]
    values.append(["v512", *values[0][1:]])
    state = cluster([node(f"n{number}", **dict(zip(keys, each, strict=True))) for number, each in enumerate(values)])
    found = domains.domains(keys, state.snapshot())
    assert sorted(each.rows.tolist() for each in found) == [[row] for row in range(2049)]


def test_with_few_steps_the_rack_that_needs_fewest_victims_is_looked_at_first():
    """All racks are full but the last, where one pod must leave; 100 decisions are too few for more than some racks."""
    state = racks([2] * 12)
    for name in state.snapshot().names:
        for index in range({"r11-0": 1, "r11-1": 0}.get(name, 4)):
            state.add_pod(member(f"low-{name}-{index}", priority=-1).placed_on(name))
    answer = preempt(decider(), state, group(members(8), levels=[Level(RACK)]), steps=100)
    assert isinstance(answer, Preemption)
    assert [pod.name for pod in answer.victims] == ["low-r11-0-0"]


class Counting(Decider):
    """A decider that counts its decisions about a pod."""

    asked = 0

    def evaluation(self, snapshot, pod):
        self.asked += 1
        return super().evaluation(snapshot, pod)


@pytest.mark.parametrize("search", [placing, preempting])
def test_no_step_asks_about_many_kinds(search) -> None:
    """Three hundred members of different kinds, for which nearly everything of the search is tried, within a budget of work."""
    state = cluster([node(f"n{number}", 40) for number in range(30)])
    for number in range(30):
        for index in range(20):
            state.add_pod(member(f"low-{number}-{index}", 1, priority=-1).placed_on(f"n{number}"))
    waiting = [member(f"m{number}", f"{1850 + number}m") for number in range(300)]
    counting = Counting(assemble())
    asked = [counting.asked for _ in search(counting, state, group(waiting), steps=4_000)]
    assert 300 < asked[-1] < 20_000
    assert max(now - before for before, now in itertools.pairwise(asked)) <= 4
