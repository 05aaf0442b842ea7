"""Previews: the answer is that of a dry run, also if the cluster changes during the computation."""

from collections import Counter

import pytest
from msgspec.structs import replace

from tests.unit.simulate.clusters import chain_of, pods_of, state_of
from tests.unit.simulate.test_groups import RACK, cluster, members, pod_group
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.copies import copied
from wharfinger.operator import counted_work, preview_answer
from wharfinger.operator.counted_work import CountedWork, within
from wharfinger.operator.preview_answer import WhatIf, answer_preview, answer_without_limit
from wharfinger.simulate.dry_run import dry_run
from wharfinger.what_if.drain.answer import DrainOutcome
from wharfinger.what_if.drain.plan import drain
from wharfinger.what_if.supposed_changes import NodesLike


def finished(steps, between=lambda: None):
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        between()


def test_the_copy_is_of_the_first_moment_and_decides_like_the_original():
    state = state_of(60, running=120)
    expected = [result.node for result in dry_run(chain_of(), state_of(60, running=120), pods_of(20)).results]

    def change():
        state.remove_node(state.snapshot().names[0])

    copy = finished(copied(state.snapshot()), change)

    assert copy.snapshot().n_nodes == 60
    assert [result.node for result in dry_run(chain_of(), copy, pods_of(20)).results] == expected


@pytest.mark.parametrize("n_pods", [10, 200])
def test_the_answer_is_that_of_a_dry_run(n_pods):
    chain, state = chain_of(), state_of(40, running=40)
    steps = answer_preview(chain, state.snapshot(), pods_of(n_pods))
    answer = finished(steps, lambda: state.remove_pod(pods_of(1)[0]))
    expected = dry_run(chain, state_of(40, running=40), pods_of(n_pods))

    assert answer.nodes == tuple((result.pod, result.node) for result in expected.results)
    status = answer.status()
    counts = Counter(result.node for result in expected.results if result.node is not None)
    assert {each["node"]: each["count"] for each in status["placements"]} == counts
    assert [each["count"] for each in status["placements"]] == sorted(counts.values(), reverse=True)
    assert (status["pods"], status["placed"]) == (n_pods, expected.placed)
    if expected.unplaced:
        assert status["message"] == next(result.message for result in expected.results if result.node is None)
        assert status["rules"][0]["rejected"] <= 40
        assert status["nearestMiss"]["reasons"]
    assert bool(expected.unplaced) == (n_pods == 200), "one of the two cases must leave pods over"


def test_the_live_state_is_left_alone():
    state = state_of(10)
    before = state.revision

    finished(answer_preview(chain_of(), state.snapshot(), pods_of(5)))

    assert state.revision == before


def answer_of(n_pods, state, namespace=None, **what_if):
    chain = assemble()
    return finished(answer_preview(chain, state.snapshot(), pods_of(n_pods), (), namespace, WhatIf(**what_if))).status()


@pytest.mark.parametrize("what_if", [{}, {"drain": ("node-00000",)}, {"capacity": True}])
def test_pods_with_scheduling_gates_wait_as_in_a_dry_run(what_if):
    gate = objects.PodSchedulingGate(name="quota")
    pods = [PodView(replace(pod.object, spec=replace(pod.object.spec, scheduling_gates=(gate,)))) for pod in pods_of(3)]
    status = finished(answer_preview(assemble(), state_of(2).snapshot(), pods, (), None, WhatIf(**what_if))).status()
    expected = dry_run(assemble(), state_of(2), pods)
    assert (status["pods"], status["placed"], status["placements"]) == (3, expected.placed, [])
    assert {status["message"]} == {result.message for result in expected.results}
    assert status.get("further", 0) == 0


def test_further_pods_are_counted():
    state = state_of(1)
    status = answer_of(2, state, capacity=True)
    expected = dry_run(assemble(), state_of(1), pods_of(200)).placed
    assert (status["placed"], status["placed"] + status["further"]) == (2, expected)
    assert status["furtherMessage"].startswith("0/1 nodes are available: 1 Too many pods.")
    assert answer_of(200, state, capacity=True)["further"] == 0
    assert "further" not in answer_of(2, state)


def test_a_policy_that_knows_each_pod_by_name_takes_no_memory_for_all_of_them(monkeypatch):
    found = []

    class Watched(preview_answer.Decider):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            found.append(self)

    monkeypatch.setattr(preview_answer, "Decider", Watched)
    monkeypatch.setattr(preview_answer, "MAX_CELLS", 20_000)
    policy = 'policy "names"\nscore s = if pod.name == "x" then 1 else node.pod_count normalize minmax\n'
    answer = finished(answer_preview(chain_of(policy), state_of(3).snapshot(), pods_of(2), what_if=WhatIf(capacity=True)))
    (decider,) = found
    assert answer.further.count > 20
    assert 1 <= len(decider._kept) < 20


def test_supposed_nodes_take_pods():
    status = answer_of(200, state_of(1), nodes=(NodesLike(model="node-00000", count=2),))
    assert {each["node"] for each in status["placements"]} == {"node-00000", "node-00000-new-1", "node-00000-new-2"}


def test_pods_of_drained_nodes_compete_for_room():
    state = state_of(2)
    owner = objects.OwnerReference(kind="ReplicaSet", name="own", controller=True)
    for number in range(60):
        metadata = objects.ObjectMeta(name=f"moving-{number}", owner_references=(owner,))
        state.add_pod(objects.Pod(metadata=metadata, spec=objects.PodSpec(node_name="node-00000", priority=5)))
    status = answer_of(60, state, drain=("node-00000",))
    assert (status["drained"], status["drainedPlaced"]) == (60, 60)
    assert (status["pods"], status["placed"]) == (60, 50)
    assert status["placements"] == [{"node": "node-00001", "count": 50}]
    assert status["message"]
    assert (status["drainedForbidden"], status["drainedRefused"]) == (0, 0)


def guarded(state, n_pods, allowed):
    """A state with that many pods of one owner on the first node, and a budget that allows that many disruptions."""
    owner = objects.OwnerReference(kind="ReplicaSet", name="own", controller=True)
    for number in range(n_pods):
        metadata = objects.ObjectMeta(name=f"web-{number}", labels={"app": "web"}, owner_references=(owner,))
        state.add_pod(objects.Pod(metadata=metadata, spec=objects.PodSpec(node_name="node-00000")))
    selector = objects.LabelSelector(match_labels={"app": "web"})
    status = objects.PodDisruptionBudgetStatus(disruptions_allowed=allowed, current_healthy=n_pods, desired_healthy=n_pods - allowed)
    metadata = objects.ObjectMeta(name="web", namespace="default")
    spec = objects.PodDisruptionBudgetSpec(selector=selector)
    state.put(objects.PodDisruptionBudget(metadata=metadata, spec=spec, status=status))
    return state


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_drain_answers_as_the_verb_does(allowed):
    """Budgets are asked, pods without a controller stay, and the live state is left alone."""
    state = guarded(state_of(3), 4, allowed)
    state.add_pod(objects.Pod(metadata=objects.ObjectMeta(name="bare"), spec=objects.PodSpec(node_name="node-00000")))
    status = answer_of(5, state, drain=("node-00000",))
    expected = drain(assemble(), state, ["node-00000"], waiting=pods_of(5))
    assert status["drained"] == sum(pod.step is not None and bool(pod.source) for pod in expected.pods) == 4 * allowed
    assert status["drainedForbidden"] == len(expected.of(DrainOutcome.FORBIDDEN)) == 4 - 4 * allowed
    assert status["drainedRefused"] == len(expected.of(DrainOutcome.REFUSED)) == 1
    assert status["placed"] == 5


@pytest.mark.parametrize(("namespace", "forbidden"), [(None, 4), ("default", 4), ("shop", 0)])
def test_budgets_of_other_namespaces_do_not_count(namespace, forbidden):
    """Which pods a budget covers depends on their labels, which users of another namespace may not see."""
    state = guarded(state_of(3), 4, 0)
    assert answer_of(1, state, namespace=namespace, drain=("node-00000",))["drainedForbidden"] == forbidden
    assert len(state.objects.all(objects.PodDisruptionBudget)) == 1


def test_a_drain_that_takes_too_many_steps_is_not_previewed(monkeypatch):
    monkeypatch.setattr(preview_answer, "MAX_DRAIN_STEPS", 3)
    with pytest.raises(UsageError, match="takes more than 3 steps; drain fewer nodes"):
        answer_of(1, guarded(state_of(3), 4, 4), drain=("node-00000",))


@pytest.mark.parametrize("what_if", [{"nodes": (NodesLike(model="node-0000"),)}, {"drain": ("node-0000",)}])
def test_names_of_nodes_are_proposed_to_those_who_may_see_all(what_if):
    with pytest.raises(UnknownObject, match="there is no node node-0000; did you mean node-00000"):
        answer_of(1, state_of(1), **what_if)
    with pytest.raises(UnknownObject, match=r"there is no node node-0000$"):
        answer_of(1, state_of(1), namespace="shop", **what_if)


def test_a_drain_of_very_many_pods_is_not_previewed():
    state = state_of(1)
    for number in range(1001):
        state.add_pod(objects.Pod(metadata=objects.ObjectMeta(name=f"p-{number}"), spec=objects.PodSpec(node_name="node-00000")))
    with pytest.raises(UsageError, match="1,001 pods are on the nodes to drain"):
        answer_of(1, state, drain=("node-00000",))


def test_groups_are_placed_and_counted_whole():
    def asked(size):
        state = cluster(pod_group("gang", size, RACK), sizes=(2, 1))
        return finished(answer_preview(assemble(), state.snapshot(), members("gang", size), what_if=WhatIf(capacity=True)))

    fits = asked(4)
    assert {node.split("-")[0] for _, node in fits.nodes} == {"r0"}
    assert (fits.miss, fits.further.count) == (None, 8)
    assert fits.further.message.startswith("group default/gang-3: 4 members must be placed at once")
    large = asked(9)
    assert {node for _, node in large.nodes} == {None}
    assert large.miss.message.startswith("group default/gang: 9 members must be placed at once")


COUNTING = 'policy "counting"\n' + "".join(
    f"score s{number} = count(pods where it.priority > {number}, on: node) normalize minmax\n" for number in range(20)
)
CHEAP = 'policy "cheap"\nscore s = node.pod_count normalize minmax\n'


def work_of(text, n_nodes, n_pods, **what_if):
    """The operations that an answer takes."""
    work = CountedWork()
    steps = answer_without_limit(
        Decider(chain_of(text), stopwatch=work), state_of(n_nodes).snapshot(), pods_of(n_pods), (), None, WhatIf(**what_if)
    )
    finished(within(steps, work))
    return work.operations


@pytest.mark.parametrize("text", [COUNTING, CHEAP])
def test_the_work_of_an_answer_is_counted_and_the_same_each_time(text):
    once = work_of(text, 20, 10)

    assert work_of(text, 20, 10) == once
    assert once < work_of(text, 40, 10) < 2.2 * once
    assert once < work_of(text, 20, 20) < 2.2 * once
    assert once < work_of(text, 20, 10, capacity=True)


def test_rules_that_compute_more_count_more():
    assert work_of(COUNTING, 2_000, 3) > 2 * work_of(CHEAP, 2_000, 3)


def test_an_answer_that_takes_too_much_is_given_up():
    def limited(limit):
        return finished(answer_preview(chain_of(COUNTING), state_of(20).snapshot(), pods_of(10), limit=limit))

    enough = work_of(COUNTING, 20, 10)
    assert len(limited(enough).nodes) == 10
    with pytest.raises(UsageError, match=r"takes more than 1,000,000 operations, about 0\.002 s of the scheduler's time; ask about fewer"):
        limited(1_000_000)


def test_pods_that_need_preemption_count_more():
    text = CHEAP + "preemption { never_evict when it.priority > 100 }\n"

    def work(cpu):
        work, state = CountedWork(), state_of(20, running=100)
        pod = decode.convert(
            {
                "metadata": {"name": "large"},
                "spec": {"priority": 9, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            },
            objects.Pod,
        )
        finished(
            within(
                answer_without_limit(Decider(chain_of(text), stopwatch=work), state.snapshot(), [PodView(pod)], (), None, WhatIf()), work
            )
        )
        return work.operations

    assert work("10000") > counted_work.PREEMPTION > work("1m")
