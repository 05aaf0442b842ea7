"""A long list is processed in short steps, and its cost is linear."""

import random
from datetime import UTC, datetime

from msgspec import structs

from tests.unit.scheduler.running import Running, node, pod
from tests.work import calls
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler import event_handlers
from wharfinger.scheduler.event_handlers import OBJECTS_PER_STEP


def taken_over(n_pods, n_nodes):
    """A cluster that receives pods first and then their nodes."""
    pods = [PodView(pod(f"pod-{number}", cpu="1m", nodeName=f"node-{number % n_nodes}")) for number in range(n_pods)]
    nodes = [node(f"node-{number}") for number in range(n_nodes)]
    state = ClusterState()

    def work():
        for each in pods:
            state.add_pod(each)
        for each in pods:
            assert state.is_placed(each.uid)
        for each in nodes:
            state.add_node(each)

    count = calls(work)
    assert int(state.snapshot().pod_count.sum()) == n_pods
    return count


def test_pods_that_come_before_their_nodes_cost_the_same_each():
    taken_over(100, 50)  # what is made once
    assert taken_over(800, 400) < 2.2 * taken_over(400, 200)


def test_a_list_is_taken_over_in_short_steps():
    world = Running()
    handlers = world.scheduler._feed
    nodes = [node("a"), node("b")]
    pods = [pod(f"pod-{number}", cpu="1m", nodeName="a" if number % 2 else "") for number in range(5 * OBJECTS_PER_STEP)]
    for _ in handlers.replacing("Node", nodes):
        pass
    reported = []
    upsert = handlers.upsert

    def counted(kind, obj):
        reported.append(obj.metadata.name)
        upsert(kind, obj)

    handlers.upsert = counted
    before = 0
    for _ in handlers.replacing("Pod", pods):
        assert len(reported) - before <= OBJECTS_PER_STEP
        before = len(reported)
    assert sorted(reported) == sorted(each.metadata.name for each in pods)
    assert len(world.scheduler.queue) == len(pods) // 2
    gone = 0
    for _ in handlers.replacing("Pod", pods[: 2 * OBJECTS_PER_STEP]):
        left = len(world.scheduler.known_pods)
        assert gone == 0 or gone - left <= OBJECTS_PER_STEP
        gone = left
    assert {each.name for each in world.scheduler.known_pods} == {each.metadata.name for each in pods[: 2 * OBJECTS_PER_STEP]}
    assert int(world.scheduler.state.snapshot().pod_count.sum()) == OBJECTS_PER_STEP
    assert len(world.scheduler.queue) == OBJECTS_PER_STEP


def test_pods_of_a_long_list_come_in_order_and_no_step_looks_at_the_age_of_all(monkeypatch):
    portion, asked, age = 7, [], event_handlers._age
    monkeypatch.setattr(event_handlers, "KEYS_PER_STEP", portion)
    monkeypatch.setattr(event_handlers, "OBJECTS_PER_STEP", portion)
    monkeypatch.setattr(event_handlers, "_age", lambda each: asked.append(each.metadata.name) or age(each))
    chance = random.Random(1)

    def aged(number):
        made = pod(f"pod-{number}", cpu="1m", nodeName="a" if number % 3 == 0 else "")
        when = datetime.fromtimestamp(chance.randrange(20), UTC) if number % 5 else None
        return structs.replace(made, metadata=structs.replace(made.metadata, creation_timestamp=when))

    pods = [aged(number) for number in range(12 * portion)]
    sink, reported = Running().scheduler._feed, []
    monkeypatch.setattr(event_handlers.EventHandlers, "upsert", lambda _self, _kind, each: reported.append(each))
    most = 0
    for _ in sink.replacing("Pod", pods):
        most = max(most, len(asked))
        asked.clear()
    assert most <= 3 * portion
    placed, waiting = ([each for each in pods if bool(each.spec.node_name) is bound] for bound in (True, False))
    assert reported == [*placed, *sorted(waiting, key=age)]


def applied_in(handlers, work):
    """The names of the objects that are applied meanwhile."""
    names, upsert = [], handlers.upsert

    def counted(kind, obj):
        names.append(obj.metadata.name)
        upsert(kind, obj)

    handlers.upsert = counted
    work()
    del handlers.upsert
    return names


def test_placed_pods_of_a_list_are_applied_while_it_is_read_and_not_again_at_its_end():
    world = Running()
    handlers = world.scheduler._feed
    first, second = [pod("waits"), pod("p0", nodeName="a")], [pod(f"p{number}", nodeName="a") for number in range(1, 5)]
    third, late = [pod("p5", nodeName="a"), pod("gone", nodeName="a")], pod("late", nodeName="a")
    for part in (first, second):
        assert applied_in(handlers, lambda part=part: handlers.listing("Pod", part)) == []  # on no known node
    handlers.replace("Node", [node("a", cpu="64")])
    handlers.synced("Node")
    assert applied_in(handlers, lambda: handlers.listing("Pod", third)) == ["p0", "p1", "p2", "p3"]
    assert applied_in(handlers, lambda: handlers.listing("Pod", [late, late])) == ["p4", "p5", "gone", "late"]
    assert applied_in(handlers, lambda: handlers.replace("Pod", [*first, *second, third[0], late, pod("last", nodeName="a")])) == [
        "last",
        "waits",
    ]
    assert {each.name for each in world.scheduler.known_pods} == {"waits", *(f"p{number}" for number in range(6)), "late", "last"}
    assert int(world.scheduler.state.snapshot().pod_count.sum()) == 8


def test_the_part_of_a_broken_list_that_was_not_applied_is_dropped():
    world = Running()
    handlers = world.scheduler._feed
    handlers.listing("Pod", [pod("deleted", nodeName="a")])
    handlers.replace("Node", [node("a")])
    handlers.synced("Node")
    handlers.replace("Pod", [])
    handlers.listing("Pod", [pod("other", nodeName="a")])
    assert [each.name for each in world.scheduler.known_pods] == ["other"]


def test_a_later_version_of_an_applied_pod_is_applied():
    world = Running()
    handlers = world.scheduler._feed
    handlers.replace("Node", [node("a"), node("b")])
    handlers.synced("Node")
    handlers.listing("Pod", [pod("moved", nodeName="a"), pod("same", nodeName="a")])
    handlers.replace("Pod", [pod("moved", uid="another", nodeName="b"), pod("same", nodeName="a")])
    assert world.scheduler.state.snapshot().pod_count.tolist() == [1, 1]


def test_no_step_compares_all_known_keys_with_those_of_the_list(monkeypatch):
    monkeypatch.setattr(event_handlers, "KEYS_PER_STEP", 7)
    world = Running()
    handlers = world.scheduler._feed
    pods = [pod(f"pod-{number}", cpu="1m", nodeName="a") for number in range(70)]
    handlers.replace("Node", [node("a")])
    handlers.replace("Pod", pods)
    in_portions = {"keys of the list": 10, "known keys": 10, "order": 10, "objects": 1}
    assert len(list(handlers.replacing("Pod", pods))) == sum(in_portions.values())
