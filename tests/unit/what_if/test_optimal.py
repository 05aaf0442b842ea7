"""A placement of all pods where the queue leaves some over: found where there is one, and proved where there is none."""

import itertools
import json
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import wharfinger
from tests.unit.simulate.clusters import policy
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import checkpoint_of, restored
from wharfinger.what_if.leaving_pods import MIRROR, recreated
from wharfinger.what_if.optimal import search, smaller_tasks
from wharfinger.what_if.optimal.model import Answer
from wharfinger.what_if.optimal.search import optimal

SECONDS = 60


def node(name, cpu, **labels):
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "9"}
    manifest = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts, "capacity": amounts}}
    return msgspec.convert(manifest, objects.Node)


def pod(name, cpu, at="", controlled=True, **spec):
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"set-{cpu}", "controller": True}] if controlled else []
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}, "ownerReferences": owners}
    return PodView(msgspec.convert({"metadata": metadata, "spec": {"nodeName": at, "containers": [container], **spec}}, objects.Pod))


def cluster(nodes, placed=()):
    state = ClusterState()
    for each in nodes:
        state.add_node(each)
    for each in placed:
        state.add_pod(each)
    return state


def solved(state, pods, *policies, seconds=SECONDS):
    return optimal(assemble(policies), checkpoint_of(state), state.snapshot().now, pods, seconds)


def carried_out(found, state, pods, *policies):
    """The nodes of all pods after the plan, each step of which the chain must allow."""
    state = restored(checkpoint_of(state), state.snapshot().now)
    everyone = {each.key: each for each in (*pods, *(each for each, _ in state.placements()))}
    for step in found.plan:
        if step.source:
            assert everyone[step.pod].node_name == step.source
            state.remove_pod(everyone[step.pod])
    for step in found.plan:
        snapshot = state.snapshot()
        decision = decide(assemble(policies), snapshot, recreated(everyone[step.pod]))
        assert step.node in decision.feasible_nodes()
        state.assume(recreated(everyone[step.pod]), step.node)
    return {each.key: state.snapshot().names[state.snapshot().placed(each.uid)[0]] for each in everyone.values()}


@given(
    nodes=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    pods=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    running=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.booleans()), max_size=3),
)
def test_the_optimum_equals_an_exhaustive_search(nodes, pods, running):
    running = [(at, cpu, controlled) for at, cpu, controlled in running if at < len(nodes)]
    used = [sum(cpu for at, cpu, _ in running if at == place) for place in range(len(nodes))]
    if any(cpu > size for cpu, size in zip(used, nodes, strict=True)):
        return
    placed = [pod(f"running-{i}", cpu, f"n{at}", controlled) for i, (at, cpu, controlled) in enumerate(running)]
    waiting = [pod(f"waiting-{i}", cpu) for i, cpu in enumerate(pods)]
    state = cluster([node(f"n{i}", cpu) for i, cpu in enumerate(nodes)], placed)
    found = solved(state, waiting)

    wanted = [*((cpu, None if controlled else at, at) for at, cpu, controlled in running), *((cpu, None, None) for cpu in pods)]
    fewest = None
    for places in itertools.product(range(len(nodes)), repeat=len(wanted)):
        free = list(nodes)
        moves = 0
        for place, (cpu, fixed, at) in zip(places, wanted, strict=True):
            free[place] -= cpu if fixed in {None, place} else 99
            moves += at is not None and place != at
        if min(free) >= 0:
            fewest = moves if fewest is None else min(fewest, moves)
    assert found.answer is (Answer.NONE if fewest is None else Answer.FOUND)
    if fewest is not None:
        assert (found.moves, found.fewest) == (fewest, True)
        assert len(carried_out(found, state, waiting)) == len(wanted)


@given(
    nodes=st.lists(st.sampled_from((2, 4, 4, 5)), min_size=3, max_size=6),
    pods=st.lists(st.tuples(st.integers(1, 4), st.sampled_from((0, 9))), min_size=1, max_size=5),
    running=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.booleans(), st.integers(0, 2)), max_size=8),
)
def test_a_large_cluster_is_answered_like_a_small_one(nodes, pods, running):
    """The model of classes proves nothing wrong, and what regions find is a plan; none of both may be better than the whole model."""
    free, placed = list(nodes), []
    for number, (at, cpu, controlled, priority) in enumerate(running):
        if at < len(free) and free[at] >= cpu:
            free[at] -= cpu
            placed.append(pod(f"running-{number}", cpu, f"n{at}", controlled, priority=priority))
    waiting = [pod(f"waiting-{number}", cpu, priority=priority) for number, (cpu, priority) in enumerate(pods)]
    state = cluster([node(f"n{number}", cpu) for number, cpu in enumerate(nodes)], placed)
    plain = solved(state, waiting)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "MAX_CELLS_AT_ONCE", 0)
        patched.setattr(search, "MAX_CELLS", 0)  # only classes and regions
        patched.setattr(search, "MAX_CELLS_IMPROVED", 0)
        patched.setattr(smaller_tasks, "SIZES", (1, 2, 4))
        found = solved(state, waiting)
        patched.setattr(search, "MAX_CELLS", 1000)
        patched.setattr(search, "MAX_CELLS_IMPROVED", 1000)
        assert worth(solved(state, waiting)) == worth(plain)
    assert found.answer in {plain.answer, Answer.UNKNOWN}
    if found.answer is Answer.FOUND:
        assert (not plain.evicted) == (not found.evicted)
        assert not found.fewest or worth(found) == worth(plain)
        evicted = {each.pod for each in found.evicted}
        left = cluster([node(f"n{number}", cpu) for number, cpu in enumerate(nodes)], [each for each in placed if each.key not in evicted])
        assert len(carried_out(found, left, waiting)) == len(placed) + len(waiting) - len(evicted)


def worth(found):
    return found.answer, len(found.evicted), found.moves


def budget(allowed, app="web"):
    manifest = {
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 2 - allowed},
    }
    return msgspec.convert(manifest, objects.PodDisruptionBudget)


@pytest.mark.parametrize(("allowed", "answer"), [(None, Answer.FOUND), (1, Answer.FOUND), (0, Answer.NONE)])
def test_no_more_pods_move_than_budgets_allow(allowed, answer):
    state = cluster([node("n0", 4), node("n1", 4)], [pod("web", 2, "n0"), pod("db", 2, "n1", controlled=False)])
    if allowed is not None:
        state.put(budget(allowed))
    assert solved(state, [pod("train", 4)]).answer is answer


@pytest.mark.parametrize(
    ("waiting", "running", "evicted"),
    [
        ([(9, 4)], [(1, 4), (5, 4)], ["running-0"]),  # the one of the lowest priority
        ([(9, 4)], [(9, 4), (9, 4)], None),  # no pod is below it
        ([(9, 4)], [(1, 2), (1, 2), (1, 4)], ["running-2"]),  # one instead of two
        ([(9, 4)], [(5, 4), (1, 2), (1, 2)], ["running-1", "running-2"]),  # two of the lower priority rather than one of the higher
        ([(9, 4), (3, 4)], [(1, 4), (5, 4)], None),  # the second one would need the room of a pod that is above it
        ([(9, 4), (3, 4)], [(1, 4), (2, 4)], ["running-0", "running-1"]),
        ([(9, 8)], [(1, 4)], None),
    ],
)
def test_pods_of_lower_priority_are_evicted_where_nothing_else_helps(waiting, running, evicted):
    """The nodes have four CPUs each; a running pod begins on the first one with room."""
    free, placed = [], []
    for number, (priority, cpu) in enumerate(running):
        at = next((place for place, left in enumerate(free) if left >= cpu), len(free))
        free[at:] = [4 - cpu] if at == len(free) else [free[at] - cpu, *free[at + 1 :]]
        placed.append(pod(f"running-{number}", cpu, f"n{at}", priority=priority))
    state = cluster([node(f"n{at}", 4) for at in range(2)], placed)
    found = solved(state, [pod(f"waiting-{number}", cpu, priority=priority) for number, (priority, cpu) in enumerate(waiting)])
    assert found.answer is (Answer.NONE if evicted is None else Answer.FOUND)
    assert [each.pod.removeprefix("default/") for each in found.evicted] == (evicted or [])


@pytest.mark.parametrize(
    ("owner", "annotations", "evicted"),
    [(None, {}, True), ("DaemonSet", {}, True), (None, {MIRROR: "static"}, False)],
)
def test_pods_that_no_controller_moves_may_be_evicted(owner, annotations, evicted):
    """Preemption evicts them too: a proof without them would be wrong."""
    low = pod("low", 4, "n0", controlled=False, priority=1)
    owners = () if owner is None else (objects.OwnerReference(api_version="apps/v1", kind=owner, name="own", controller=True),)
    low = PodView(replace(low.object, metadata=replace(low.object.metadata, owner_references=owners, annotations=annotations)))
    found = solved(cluster([node("n0", 4), node("n1", 4)], [low]), [pod("a", 4, priority=9), pod("b", 4, priority=9)])
    assert found.answer is (Answer.FOUND if evicted else Answer.NONE)
    assert [each.pod for each in found.evicted] == ["default/low"] * evicted


def test_pods_that_a_controller_creates_again_are_evicted_first():
    placed = [pod("once", 4, "n0", controlled=False, priority=1), pod("web", 4, "n1", priority=2)]
    found = solved(cluster([node("n0", 4), node("n1", 4)], placed), [pod("high", 4, priority=9)])
    assert [each.pod for each in found.evicted] == ["default/web"]


@given(
    nodes=st.lists(st.integers(2, 5), min_size=1, max_size=3),
    pods=st.lists(st.tuples(st.integers(1, 4), st.sampled_from((0, 5, 9))), min_size=1, max_size=3),
    running=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans(), st.sampled_from((0, 5))), max_size=4),
)
def test_evictions_equal_an_exhaustive_search(nodes, pods, running):
    free, placed = list(nodes), []
    for number, (at, cpu, controlled, priority) in enumerate(running):
        if at < len(free) and free[at] >= cpu:
            free[at] -= cpu
            placed.append((f"running-{number}", cpu, at, controlled, priority))
    state = cluster(
        [node(f"n{number}", cpu) for number, cpu in enumerate(nodes)],
        [pod(name, cpu, f"n{at}", controlled, priority=priority) for name, cpu, at, controlled, priority in placed],
    )
    found = solved(state, [pod(f"waiting-{number}", cpu, priority=priority) for number, (cpu, priority) in enumerate(pods)])
    wanted = next(filter(None, (fewest_of(nodes, pods, placed, *may) for may in ((), (True,), (True, False)))), None)
    assert found.answer is (Answer.NONE if wanted is None else Answer.FOUND)
    if wanted is not None:
        evicted = Counter(priority for name, *_, priority in placed if f"default/{name}" in {each.pod for each in found.evicted})
        assert (evicted[5], evicted[0], found.moves) == wanted
        assert found.fewest


def fewest_of(nodes, pods, placed, *may):
    """(the evicted pods of priority 5, those of priority 0, the moves) of the best placement; None if there is none.

    `may` are the values of `controlled` of the pods that may be evicted.
    """
    highest = max(priority for _, priority in pods)
    places = range(len(nodes))
    choices = [
        [*(places if controlled else [at]), *([None] if controlled in may and priority < highest else [])]
        for _, _, at, controlled, priority in placed
    ]
    options = []
    for chosen in itertools.product(*choices, *([[*places, None]] * len(pods))):
        free = list(nodes)
        for at, cpu in zip(chosen, [*(cpu for _, cpu, *_ in placed), *(cpu for cpu, _ in pods)], strict=True):
            if at is not None:
                free[at] -= cpu
        if min(free) >= 0:
            evicted = Counter(priority for at, (*_, priority) in zip(chosen, placed, strict=False) if at is None)
            moves = sum(at not in {None, now} for at, (_, _, now, *_) in zip(chosen, placed, strict=False))
            left = [priority for at, (_, priority) in zip(chosen[len(placed) :], pods, strict=True) if at is None]
            options.append((evicted[5], evicted[0], moves, left))
    for level in (5, 0):  # for a pod that waits, only pods of lower priorities are evicted
        options = [option for option in options if all(priority <= level for priority in option[3])]
        number = min((option[level == 0] for option in options), default=0)
        options = [option for option in options if option[level == 0] == number]
    return min((option[:3] for option in options if not option[3]), default=None)


def test_pods_that_may_not_be_evicted_stay():
    state = cluster([node("n0", 4)], [pod("low", 4, "n0", priority=1)])
    assert solved(state, [pod("high", 4, priority=9)]).evicted
    assert solved(state, [pod("high", 4, priority=9, preemptionPolicy="Never")]).answer is Answer.NONE
    guard = policy('policy "guard"\npreemption { never_evict when it.priority < 5 }\n')
    assert solved(state, [pod("high", 4, priority=9)], guard).answer is Answer.NONE
    state.put(budget(0))
    assert solved(state, [pod("high", 4, priority=9)]).answer is Answer.NONE


def test_constraints_that_only_the_chain_knows_are_met():
    apart = [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]
    anti = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}}
    nodes = [node(f"n{i}", 8, **{"kubernetes.io/hostname": f"n{i}"}) for i in range(3)]
    three, four = ([pod(f"p{i}", 1, **anti) for i in range(count)] for count in (3, 4))
    found = solved(cluster(nodes), three)
    assert found.answer is Answer.FOUND
    assert len(set(carried_out(found, cluster(nodes), three).values())) == 3
    assert solved(cluster(nodes), four).answer is Answer.UNKNOWN


def test_filters_of_policies_about_nodes_are_part_of_a_proof():
    only = policy('policy "only"\nfilter zone { require (node.labels["zone"] ?? "-") == "a" else "not in a" }\n')
    nodes = [node("n0", 2, zone="a"), node("n1", 8, zone="b")]
    pods = [pod("p0", 1), pod("p1", 1), pod("p2", 1)]
    assert solved(cluster(nodes), pods).answer is Answer.FOUND
    assert solved(cluster(nodes), pods, only).answer is Answer.NONE
    assert solved(cluster(nodes), pods[:2], only).answer is Answer.FOUND


def test_too_much_and_too_little_time_are_reported(monkeypatch):
    assert "after" in solved(cluster([node("n0", 8)]), [pod("p", 1)], seconds=1e-9).why
    monkeypatch.setattr("wharfinger.what_if.optimal.search.MAX_CELLS", 0)
    assert "too many to search" in solved(cluster([node("n0", 8)]), [pod("p", 1)]).why
    gated = pod("gated", 1, schedulingGates=[{"name": "later"}])
    assert "scheduling gate" in solved(cluster([node("n0", 8)]), [gated]).why


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ortools", None)
    with pytest.raises(UsageError, match=r"pip install 'wharfinger\[optimal\]'"):
        solved(cluster([node("n0", 8)]), [pod("p", 1)])


def test_the_function_gives_what_the_verb_prints(tmp_path):
    manifests = [
        *(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
            for name in "ab"
        ),
        *(manifest(f"web-{name}", "2", name) for name in "ab"),
        manifest("train", "3"),
    ]
    (tmp_path / "snapshot.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    loaded = wharfinger.load_snapshot(tmp_path / "snapshot.json")

    found = wharfinger.optimal((), loaded, seconds=SECONDS)
    assert (found.answer, found.moves, [placed.pod for placed in found.plan if not placed.source]) == (Answer.FOUND, 1, ["default/train"])
    assert wharfinger.place((), loaded).unplaced == 1, "the cluster is as it was"


def manifest(name, cpu, on=""):
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}] if on else []
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owner},
        "spec": {"containers": [container], "nodeName": on},
    }


def test_the_model_knows_no_groups_and_moves_none_of_their_members():
    member = {"schedulingGroup": {"podGroupName": "gang"}}
    found = solved(cluster([node("a", 4)]), [pod("m", 3, **member)])
    assert (found.answer, found.why) == (Answer.UNKNOWN, "the model does not include groups of pods, and some wait: default/gang")
    nodes, placed = [node("a", 4), node("b", 4, pool="x")], [("small", 2, "a")]
    waiting = [pod("wide", 3, nodeSelector={}), pod("wider", 3)]
    assert solved(cluster(nodes, [pod(*each) for each in placed]), waiting).answer is Answer.NONE
    waiting = [pod("large", 4)]
    full = [pod("there", 2, "b"), pod("small", 2, "a")]
    assert solved(cluster(nodes, full), waiting).moves == 1
    assert solved(cluster(nodes, [pod("there", 2, "b", **member), pod("small", 2, "a", **member)]), waiting).answer is Answer.NONE
