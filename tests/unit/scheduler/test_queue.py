"""The scheduling queue: order, backoffs, gates, and the events that wake pods."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.in_memory import ManualClock
from tests.unit.scheduler.running import Watching, node, view
from tests.work import calls
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.cluster_event import Change, ClusterEvent, node_added, node_updated, pod_changed, pod_removed
from wharfinger.framework.plugins.node_resources import NodeResourcesFit
from wharfinger.framework.plugins.pods.inter_pod_affinity import InterPodAffinity
from wharfinger.framework.plugins.pods.pod_topology_spread import PodTopologySpread
from wharfinger.framework.plugins.taint_toleration import TaintToleration
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler.profiles import Profile, Profiles
from wharfinger.scheduler.queue import sub_queues
from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduler.queue.sub_queues import PODS_PER_STEP, SCOPES_PER_STEP, QueueSettings
from wharfinger.scheduler.queued_pods import MAX_CHANGES, Place

FIT = frozenset({NodeResourcesFit()})
TAINTS = frozenset({TaintToleration()})
AFFINITY = frozenset({InterPodAffinity()})
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APART = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}]}}
FENCING = view("fencing", affinity={"podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}})
EVEN = [
    {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
]


class Bench:
    def __init__(self):
        self.clock = ManualClock()
        self.state = ClusterState()
        self.seen = Watching()
        self.queue = SchedulingQueue(self.clock, self.state.snapshot, emit=self.seen.emit)
        self.profile = Profile("wharfinger", assemble())

    def add(self, *names, **more):
        for name in names:
            self.queue.add(view(name, **more), self.profile)

    def pop(self):
        queued = self.queue.pop()
        return None if queued is None else queued.pod.name

    def rejected(self, name, rejectors):
        self.add(name)
        self.queue.reject(self.queue.pop(), rejectors)

    def place_of(self, name):
        queued = self.queue.get(f"uid-{name}")
        return None if queued is None else queued.place.value


@pytest.fixture
def bench():
    return Bench()


def test_higher_priority_first_then_the_pod_that_waits_longer(bench):
    bench.add("first", "second")
    bench.add("urgent", priority=10)
    bench.clock.move(1)
    bench.add("third")
    assert [bench.pop() for _ in range(5)] == ["urgent", "first", "second", "third", None]


def test_a_pod_that_is_added_twice_is_queued_once(bench):
    bench.add("a", "a", "a")
    assert (bench.pop(), bench.pop(), len(bench.queue)) == ("a", None, 1)


def test_a_deleted_pod_is_not_handed_out(bench):
    bench.add("a", "b")
    bench.queue.delete("uid-a")
    assert (bench.pop(), bench.pop()) == ("b", None)
    assert bench.queue.delete("uid-a") is None


def test_a_pod_that_becomes_urgent_overtakes(bench):
    bench.add("a", "b")
    bench.add("b", priority=5)
    assert bench.pop() == "b"


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (5000, 10)])
def test_the_backoff_doubles_up_to_its_limit(failures, seconds):
    assert QueueSettings().backoff.seconds(failures) == seconds


@pytest.mark.parametrize(("failed_at", "ready_at"), [(0.0, 2.0), (0.3, 2.0), (0.999, 2.0), (1.0, 3.0)])
def test_backoffs_end_with_their_window(failed_at, ready_at):
    assert QueueSettings().backoff.ready_at(failed_at, 1) == ready_at


def test_an_error_is_tried_again_after_its_backoff_and_never_before(bench):
    bench.add("a")
    bench.queue.fail(bench.queue.pop())
    assert (bench.place_of("a"), bench.pop()) == ("error backoff", None)
    bench.clock.move(1.9)
    bench.queue.flush()
    assert bench.pop() is None
    bench.clock.move(0.2)
    bench.queue.flush()
    assert bench.pop() == "a"


def test_backoff_is_cut_short_when_nothing_else_is_ready(bench):
    bench.rejected("a", FIT)
    bench.add("b")
    bench.state.add_node(node("n"))
    bench.queue.notify(node_added(node("n")))
    assert bench.place_of("a") == "backoff"
    assert [bench.pop(), bench.pop()] == ["b", "a"]


def test_within_a_window_the_more_urgent_pod_comes_first(bench):
    bench.add("a")
    bench.queue.fail(bench.queue.pop())
    bench.clock.move(0.4)
    bench.add("b", priority=7)
    bench.queue.fail(bench.queue.pop())
    bench.clock.move(2)
    bench.queue.flush()
    assert [bench.pop(), bench.pop()] == ["b", "a"]


@pytest.mark.parametrize("pause", [0.0, 60.0], ids=["in backoff", "after their backoff"])
def test_pods_that_are_tried_again_come_in_the_order_in_which_they_failed(bench, pause):
    for name, labels in (("a", {}), ("b", {"app": "b"}), ("c", {}), ("d", {})):
        bench.add(name, labels=labels)
        bench.clock.move(0.1)
        bench.queue.reject(bench.queue.pop(), TAINTS if name == "d" else FIT)
    bench.queue.activate("uid-a")
    bench.clock.move(0.1)
    bench.queue.reject(bench.queue.pop(), FIT)
    bench.clock.move(pause)
    bench.state.add_node(node("n"))
    bench.queue.notify(node_added(node("n")))
    assert [bench.pop() for _ in range(5)] == ["b", "c", "d", "a", None]


def test_a_pod_waits_since_it_was_added_also_behind_a_gate(bench):
    bench.add("gated", schedulingGates=[{"name": "quota"}])
    bench.clock.move(1)
    bench.add("later")
    bench.add("gated")
    assert [bench.pop(), bench.pop()] == ["gated", "later"]


def test_a_gated_pod_waits_until_its_gates_are_gone(bench):
    bench.add("a", schedulingGates=[{"name": "quota"}])
    assert (bench.place_of("a"), bench.pop(), bench.queue.depths["gated"]) == ("gated", None, 1)
    bench.queue.notify(node_added(node("n")))
    assert bench.queue.activate("uid-a") is False
    bench.add("a")
    assert bench.pop() == "a"


def test_events_wake_only_those_whose_rejectors_care(bench):
    bench.state.add_node(node("n", cpu="4"))
    for name, rejectors in {"fit": FIT, "taint": TAINTS, "affinity": AFFINITY}.items():
        bench.rejected(name, rejectors)
    bench.clock.move(5)
    old, new = node("n", cpu="4", taints=[{"key": "k", "effect": "NoSchedule"}]), node("n", cpu="4")
    assert bench.queue.notify(node_updated(old, new)) == 1
    assert bench.place_of("taint") == "active"
    near, far = (Change(events=ClusterEvent.POD_REMOVED, label="AssignedPodDelete", node="n", pod=pod) for pod in (FENCING, view("x")))
    assert (bench.queue.notify(far), bench.place_of("affinity")) == (1, "unschedulable")  # fit alone
    assert (bench.queue.notify(near), bench.place_of("affinity")) == (1, "active")


def test_a_pod_that_is_only_marked_as_deleted_wakes_no_pod_that_waits_for_its_resources(bench):
    bench.state.add_node(node("n", cpu="1"))
    there = view("there", nodeName="n")
    own = there.object
    marked = PodView(replace(own, metadata=replace(own.metadata, deletion_timestamp=datetime.fromtimestamp(0, UTC))))
    bench.rejected("a", FIT)
    assert bench.queue.notify(pod_changed(there, marked)) == 0
    relabelled = PodView(replace(marked.object, metadata=replace(marked.object.metadata, labels={"protected": "no"})))
    assert bench.queue.notify(pod_changed(there, relabelled)) == 1
    bench.rejected("b", FIT)
    assert bench.queue.notify(pod_removed(marked, "n")) == 1


def test_a_node_that_is_too_small_wakes_no_pod(bench):
    bench.rejected("big", FIT)
    bench.state.add_node(node("small", cpu="500m"))
    assert bench.queue.notify(node_added(node("small", cpu="500m"))) == 0
    bench.state.add_node(node("large", cpu="1"))
    assert bench.queue.notify(node_added(node("large", cpu="1"))) == 1


def test_a_taint_that_is_still_there_wakes_no_pod(bench):
    bench.rejected("a", TAINTS)
    kept, other = {"key": "k", "effect": "NoSchedule"}, {"key": "l", "effect": "NoSchedule"}
    assert bench.queue.notify(node_updated(node("n", taints=[kept, other]), node("n", taints=[kept]))) == 0
    assert bench.queue.notify(node_updated(node("n", taints=[kept]), node("n"))) == 1


def test_heartbeats_are_no_events():
    assert node_updated(node("n"), node("n")) is None


def test_events_during_an_attempt_are_not_missed(bench):
    bench.add("a")
    queued = bench.queue.pop()
    bench.state.add_node(node("n"))
    bench.queue.notify(node_added(node("n")))
    bench.queue.reject(queued, FIT)
    assert bench.place_of("a") == "backoff"


def test_events_before_an_attempt_do_not_count(bench):
    bench.add("a", "b")
    first = bench.queue.pop()
    bench.state.add_node(node("n"))
    bench.queue.notify(node_added(node("n")))
    second = bench.queue.pop()
    bench.queue.reject(second, FIT)
    assert bench.place_of("b") == "unschedulable"
    bench.queue.done(first)
    assert bench.queue._in_flight.n_changes == 0


def test_events_kept_during_a_long_attempt_are_bounded_and_none_is_missed(bench):
    bench.add("slow", "late")
    slow = bench.queue.pop()
    for _ in range(3 * MAX_CHANGES):
        bench.queue.notify(node_updated(node("n", taints=[{"key": "k", "effect": "NoSchedule"}]), node("n")))
    assert bench.queue._in_flight.n_changes == MAX_CHANGES

    late = bench.queue.pop()
    bench.queue.reject(late, FIT)
    assert bench.place_of("late") == "unschedulable", "nothing has happened since"
    bench.queue.reject(slow, FIT)
    assert bench.place_of("slow") == "backoff", "what was let go may have helped"
    assert bench.queue._in_flight.n_changes == 0


def test_a_pod_that_requests_something_else_now_is_tried_again(bench):
    bench.rejected("a", FIT)
    bench.clock.move(5)
    bench.add("a", cpu="100m")
    assert bench.pop() == "a"


def test_a_change_of_status_alone_is_no_reason_to_try_again(bench):
    bench.rejected("a", FIT)
    bench.clock.move(5)
    bench.add("a")
    assert bench.place_of("a") == "unschedulable"


def test_no_pod_waits_longer_than_five_minutes_and_it_is_counted(bench):
    bench.rejected("a", FIT)
    bench.clock.move(299)
    bench.queue.flush()
    assert (bench.place_of("a"), bench.seen.flushes) == ("unschedulable", 0)
    bench.clock.move(31)
    bench.queue.flush()
    assert (bench.place_of("a"), bench.seen.flushes) == ("active", 1)


def test_a_pod_deleted_during_its_attempt_does_not_return(bench):
    bench.add("a", "b", "c")
    for end in (bench.queue.fail, lambda queued: bench.queue.reject(queued, FIT), bench.queue.put_back):
        queued = bench.queue.pop()
        bench.queue.delete(queued.uid)
        end(queued)
    assert (len(bench.queue), bench.queue.next_ready_at(), bench.pop()) == (0, None, None)


def test_profiles_share_one_order(bench):
    with pytest.raises(UsageError, match="at least one"):
        Profiles({})
    profiles = Profiles({"wharfinger": assemble(), "default-scheduler": assemble()})
    assert profiles.of(view("a")).name == "wharfinger"
    assert profiles.of(view("a", scheduler="")).name == "default-scheduler"
    assert profiles.of(view("a", scheduler="else")) is None


@pytest.mark.parametrize(
    ("plugin", "spec"), [(InterPodAffinity(), {"affinity": APART}), (PodTopologySpread(), {"topologySpreadConstraints": EVEN})]
)
def test_a_change_is_looked_at_once_for_all_pods_of_a_template(bench, monkeypatch, plugin, spec):
    for number in range(2000):
        bench.add(f"db-{number}", labels={"app": "db", "deployment": str(number % 4)}, **spec)
        bench.queue.reject(bench.queue.pop(), frozenset({plugin}))
    asked = []
    original = type(plugin).may_help
    monkeypatch.setattr(type(plugin), "may_help", lambda *arguments: asked.append(1) or original(*arguments))
    unrelated, related = (view(name, labels={"app": name}, nodeName="a") for name in ("web", "db"))
    events = ClusterEvent.POD_PLACED | ClusterEvent.POD_REMOVED
    assert bench.queue.notify(Change(events=ClusterEvent.POD_PLACED, label="AssignedPodAdd", node="a", pod=unrelated)) == 0
    assert bench.queue.notify(Change(events=ClusterEvent.POD_REMOVED, label="AssignedPodDelete", node="a", pod=unrelated)) == 0
    assert len(asked) <= 2 * 4
    assert bench.queue.notify(Change(events=ClusterEvent.POD_REMOVED, label="AssignedPodDelete", node="a", pod=related)) == 2000
    assert events & plugin.wakes_on == events
    assert len(asked) <= 3 * 4 + 1  # each template, and what they have in common


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize(
    ("plugin", "spec"), [(InterPodAffinity(), {"affinity": APART}), (PodTopologySpread(), {"topologySpreadConstraints": EVEN})]
)
def test_an_unrelated_placement_is_no_work_for_each_of_very_many_pods(bench, plugin, spec, index):
    """They are pods of one template, or differ in one label, as those of an indexed Job do."""
    for number in range(20_000):
        bench.add(f"db-{number}", labels={"app": "db", **({"index": str(number)} if index else {})}, **spec)
        bench.queue.reject(bench.queue.pop(), frozenset({plugin}))
    bench.state.add_node(node("a"))
    unrelated = view("web", labels={"app": "web"}, nodeName="a")
    placed = Change(events=ClusterEvent.POD_PLACED, label="AssignedPodAdd", node="a", pod=unrelated)
    woken = []
    assert calls(lambda: woken.append(bench.queue.notify(placed))) <= 200
    assert woken == [0]
    assert {queued.place for queued in bench.queue} == {Place.UNSCHEDULABLE}


@pytest.mark.parametrize("n", [100, 2 * PODS_PER_STEP])
def test_a_step_evaluates_few_scopes_however_many_policies_have_changed(bench, n):
    """A user changes forty policies, whose scopes are as dear as may be, while hundreds of pods of his wait."""
    for number in range(n):
        bench.rejected(f"p{number}", FIT)
    evaluated = [0]

    def concerned(queued):
        evaluated[0] += 40
        return queued.pod.name.endswith("7")

    before = 0
    bench.queue.policies_changed(concerned, lambda: evaluated[0])
    for _ in range(n):
        assert evaluated[0] - before < SCOPES_PER_STEP + 40
        before = evaluated[0]
        bench.queue.flush()
    assert evaluated == [40 * n]
    waiting = [bench.place_of(f"p{number}") == "unschedulable" for number in range(n)]
    assert waiting == [number % 10 != 7 for number in range(n)]


MANY = 3 * PODS_PER_STEP + 7
"""More pods than are let in at a time."""


@pytest.fixture
def crowd(bench):
    """The given number of unschedulable pods, of three priorities, whose backoffs have ended."""
    for number in range(MANY):
        bench.add(f"pod-{number}", priority=number % 3)
    for _ in range(MANY):
        bench.queue.reject(bench.queue.pop(), FIT)
    bench.clock.move(60)
    bench.state.add_node(node("n"))
    return bench


def ready(bench):
    return sum(queued.place is Place.ACTIVE for queued in bench.queue)


WAKING = {
    "an event": lambda queue: queue.notify(node_added(node("n"))),
    "policies": lambda queue: queue.policies_changed(lambda _: True),
    "a long wait": lambda queue: queue._flush_overdue(1e6),
}


@pytest.mark.parametrize("woken_by", WAKING)
def test_very_many_pods_are_let_in_by_and_by_the_most_urgent_first(crowd, woken_by):
    WAKING[woken_by](crowd.queue)
    before = 0
    steps = 0
    while (now := ready(crowd)) > before:
        assert now - before <= PODS_PER_STEP
        if now < MANY:
            waiting = [queued.pod.priority for queued in crowd.queue if queued.place is Place.UNSCHEDULABLE]
            assert min(queued.pod.priority for queued in crowd.queue if queued.place is Place.ACTIVE) >= max(waiting)
            assert crowd.queue.next_ready_at() == crowd.clock.monotonic()
        before = now
        steps += 1
        crowd.queue._next_flush = 1e9
        crowd.queue.flush()
    assert (before, steps) == (MANY, 4)
    assert crowd.queue.next_ready_at() is None


class CountedKey:
    """A sort key that counts comparisons."""

    compared = 0

    def __init__(self, key):
        self.key = key

    def __eq__(self, other):
        return self.key == other.key

    def __lt__(self, other):
        CountedKey.compared += 1
        return self.key < other.key

    __hash__ = None


@pytest.mark.parametrize("woken_by", WAKING)
def test_a_step_orders_a_portion_of_very_many_pods_and_asks_about_a_portion(bench, monkeypatch, woken_by):
    monkeypatch.setattr(sub_queues, "RANKED_PER_STEP", 1000)
    many = 8 * PODS_PER_STEP
    for number in range(many):
        bench.add(f"pod-{number}")
    while (queued := bench.queue.pop()) is not None:
        bench.queue.reject(queued, FIT)
    bench.clock.move(60)
    bench.state.add_node(node("n"))
    for queued in bench.queue:
        queued.sort_key = CountedKey(int(queued.pod.name[4:]) * 7919 % 10_007)
    bench.queue._next_flush = 1e9
    asked, admit = [], 0
    steps = [lambda: bench.queue.policies_changed(lambda queued: asked.append(queued) or True)]
    if woken_by != "policies":
        steps = [lambda: WAKING[woken_by](bench.queue)]
    steps += [bench.queue.flush] * (many // 1000 + many // PODS_PER_STEP)
    for step in steps:
        CountedKey.compared, n_asked = 0, len(asked)
        step()
        assert CountedKey.compared < 4 * 1000 + 14 * PODS_PER_STEP  # to put in order, and to take out of a heap of 4,000
        assert len(asked) - n_asked <= PODS_PER_STEP
        assert ready(bench) - admit <= PODS_PER_STEP
        admit = ready(bench)
    assert admit == many
    assert bench.queue.next_ready_at() is None


def test_a_pod_that_an_event_has_woken_is_let_in_although_a_later_change_of_policies_does_not_concern_it(crowd):
    crowd.queue.notify(node_added(node("n")))
    crowd.queue.policies_changed(lambda _: False)
    crowd.queue._next_flush = 1e9
    for _ in range(6):
        crowd.queue.flush()
    assert ready(crowd) == MANY


@pytest.mark.parametrize("max_unordered", [1, 2, 16])
def test_a_pod_that_one_of_several_changes_of_policies_concerns_is_let_in(crowd, monkeypatch, max_unordered):
    monkeypatch.setattr(sub_queues, "RANKED_PER_STEP", 100)
    monkeypatch.setattr(sub_queues, "MAX_UNORDERED_EVENTS", max_unordered)
    for ending in "37":
        crowd.queue.policies_changed(lambda queued, ending=ending: queued.pod.name.endswith(ending))
    crowd.queue._next_flush = 1e9
    for _ in range(40):
        crowd.queue.flush()
    assert not crowd.queue._woken
    assert {queued.pod.name[-1] for queued in crowd.queue if queued.place is Place.ACTIVE} == {"3", "7"}
    assert ready(crowd) == len([number for number in range(MANY) if number % 10 in {3, 7}])


def test_pods_that_come_and_are_popped_between_the_steps_of_a_change_lose_nothing(bench, monkeypatch):
    monkeypatch.setattr(sub_queues, "RANKED_PER_STEP", 100)
    for number in range(MANY):
        bench.add(f"pod-{number}")
    while (queued := bench.queue.pop()) is not None:
        bench.queue.reject(queued, FIT)
    in_flight = next(iter(bench.queue))
    bench.queue.activate(in_flight.uid)
    assert bench.queue.pop() is in_flight
    bench.clock.move(60)
    bench.queue.policies_changed(lambda _: True)
    bench.add("new")
    assert bench.pop() == "new"
    bench.queue.reject(in_flight, FIT)  # it was decided by the former policies
    assert in_flight.place is Place.BACKOFF
    for _ in range(MANY // 100 + 6):
        bench.queue.flush()
    assert ready(bench) == MANY - 1


def test_a_pod_that_is_not_there_any_more_is_not_let_in_later(crowd):
    crowd.queue.notify(node_added(node("n")))
    waiting = [queued for queued in crowd.queue if queued.place is Place.UNSCHEDULABLE]
    crowd.queue.delete(waiting[0].uid)
    crowd.queue.activate(waiting[1].uid)
    for _ in range(5):
        crowd.queue.flush()
    assert ready(crowd) == MANY - 1
    assert waiting[0].place is Place.GONE


def test_pods_that_a_change_of_policies_does_not_concern_stay_whenever_they_are_asked_about(crowd):
    crowd.queue.policies_changed(lambda queued: queued.pod.name.endswith("7"))
    crowd.queue._next_flush = 1e9
    for _ in range(5):
        crowd.queue.flush()
    assert {queued.pod.name[-1] for queued in crowd.queue if queued.place is Place.ACTIVE} == {"7"}
    assert ready(crowd) == len([number for number in range(MANY) if number % 10 == 7])


def test_very_many_backoffs_that_end_together_end_by_and_by(bench):
    for number in range(MANY):
        bench.add(f"pod-{number}", priority=number % 3)
    for _ in range(MANY):
        bench.queue.fail(bench.queue.pop())
    bench.clock.move(60)
    bench.queue.flush()
    assert ready(bench) == PODS_PER_STEP
    assert {queued.pod.priority for queued in bench.queue if queued.place is Place.ACTIVE} == {2}
    assert bench.queue.next_ready_at() <= bench.clock.monotonic()
    for _ in range(3):
        bench.queue.flush()
    assert ready(bench) == MANY


@pytest.mark.parametrize(
    ("plugin", "spec"), [(InterPodAffinity(), {"affinity": APART}), (PodTopologySpread(), {"topologySpreadConstraints": EVEN})]
)
def test_a_change_is_looked_at_once_for_pods_that_differ_in_their_labels(bench, monkeypatch, plugin, spec):
    for number in range(500):
        bench.add(f"db-{number}", labels={"app": "db", "index": str(number)}, **spec)
        bench.queue.reject(bench.queue.pop(), frozenset({plugin}))
    asked = []
    original = type(plugin).may_help_group
    monkeypatch.setattr(type(plugin), "may_help_group", lambda *arguments: asked.append(1) or original(*arguments))
    for number, name in enumerate(["web", "db"]):
        placed = view(name, labels={"app": name}, nodeName="a")
        for events in (ClusterEvent.POD_PLACED, ClusterEvent.POD_REMOVED):
            woken = bench.queue.notify(Change(events=events, label="AssignedPodDelete", node="a", pod=placed))
            assert woken == (500 if number and (events & ClusterEvent.POD_REMOVED or plugin.name == "PodTopologySpread") else 0)
            if woken:
                return
        assert len(asked) == 2


@pytest.mark.parametrize("end", ["reject", "fail", "put_back"])
def test_a_pod_that_gets_another_group_while_it_is_being_placed_waits_in_that_group(bench, end):
    bench.add("x")
    queued = bench.queue.pop()
    labelled = view("x", labels={"scheduling.x-k8s.io/pod-group": "train"})
    bench.queue.add(labelled, bench.profile, bench.queue.groups.update_pod(labelled))
    getattr(bench.queue, end)(queued, *([FIT] if end == "reject" else []))
    bench.queue.pop()
    assert (queued.group, list(bench.queue.groups.get("default/train").trying)) == ("default/train", ["uid-x"])


def test_a_group_is_tried_again_that_a_member_has_left_while_it_was_being_placed(bench):
    for name in ("x", "y"):
        member = view(name, labels={"scheduling.x-k8s.io/pod-group": "train"})
        bench.queue.add(member, bench.profile, bench.queue.groups.update_pod(member))
    entry = bench.queue.pop()
    assert (sorted(entry.trying), entry.stale) == (["uid-x", "uid-y"], False)
    left = view("x")
    bench.queue.add(left, bench.profile, bench.queue.groups.update_pod(left))
    assert entry.stale
    bench.queue.groups.put_back(entry)
    assert {bench.pop(), bench.pop()} == {"x", "y"}
    assert list(entry.trying) == ["uid-y"]
